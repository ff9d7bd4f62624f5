/* conv_winograd_strided.h: what convolutions and transposed ones share that filter their phases at stride 2 by F(4, 2); see
 * kernels/conv_cpu/winograd_sums.clh. */
#ifndef CLCNN_ALGOS_CONV_WINOGRAD_STRIDED_H
#define CLCNN_ALGOS_CONV_WINOGRAD_STRIDED_H

#include "algos/conv_cpu/conv_tiles.h"

enum { STRIDED_SIDE = 4 }; /* pixels of a tile in one dimension */

/* How a problem is cut. */
struct strided_cut {
    struct conv_tile tile;
    size_t tiles, phases;       /* of the batch in a phase of the output; such phases */
    size_t tile_blocks, ranges; /* blocks of tile.t; work-items of a phase and part of the filters */
    size_t c_blocks, k_blocks;  /* of a group */
    size_t chunks;              /* of k_blocks, each for a work-item */
    double products;            /* of a tile in all phases, as many as values of the input */
    double macs;                /* that the direct kernel takes */
};

struct strided_cut strided_cut_of(const struct problem *p, const struct conv_args *a, size_t tiles,
                                  size_t phases, double products, double macs);
size_t strided_items(const struct conv_args *a, const struct strided_cut *c);
/* Time in multiply-adds at the peak. */
double strided_cost(const struct problem *p, const struct conv_args *a, const struct strided_cut *c);
/* Whether it is faster than the direct kernel. */
bool strided_worthwhile(const struct problem *p, const struct conv_args *a, const struct strided_cut *c);
/* A step whose work-items are strided_items(). */
struct step *emit_strided(struct emit *e, const struct problem *p, const struct conv_args *a,
                          const char *file, const struct strided_cut *c);

#endif
