/* conv_strassen.h: Strassen's products of a 1x1 convolution (kernels/conv_cpu/strassen.clh). */
#ifndef CLCNN_ALGOS_CONV_STRASSEN_H
#define CLCNN_ALGOS_CONV_STRASSEN_H

#include "algos/conv_cpu/conv_scaled.h"
#include "conv_cpu/strassen_args.h"

/* A register tile: pixels, vectors of filters. */
struct strassen_tile {
    int t, kv;
};

/* How a problem is cut. */
struct strassen_cut {
    struct strassen_tile tile;
    size_t c_blocks, k_blocks; /* of a half: blocks of channels, blocks of filters */
    size_t pairs, all;         /* pairs of tiles: of an image, of the batch */
    size_t products;           /* of tiles, of the batch */
};
struct strassen_cut strassen_cut_of(const struct problem *p, const struct conv_args *a,
                                    struct strassen_tile tile);
struct strassen_shape strassen_shape_of(const struct problem *p, const struct conv_args *a,
                                        const struct strassen_cut *c);

/* For REQUIRE: halves of the channels and of the filters are whole blocks. */
#define NO_HALVES "halves of the channels and of the filters must be whole blocks"
/* For PREFER: where memory_limit asks for small filters. */
#define SUMS_OF_FILTERS "memory_limit: sums of filters take 1.75 times the filters' memory"
bool strassen_halves(const struct problem *p, const struct conv_args *a, struct strassen_tile tile);

/* Time of the products in multiply-adds at the peak; sum: of what a product is added to, measured. */
double strassen_cost(const struct strassen_cut *c, const struct conv_args *a, double sum);
/* The right factors of so many pairs: how many, and their bytes. */
double strassen_factors(const struct strassen_cut *c, const struct conv_args *a, size_t pairs);
size_t strassen_factor_bytes(const struct problem *p, const struct strassen_cut *c, size_t pairs);

/* The whole of it in two steps, right factors and products: so many pairs at a time. */
struct strassen_scheme {
    struct strassen_cut cut;
    size_t slice; /* pairs whose right factors are made in a step */
};
struct strassen_scheme strassen_scheme_of(const struct problem *p, const struct conv_args *a);
bool strassen_can(const struct problem *p, const struct conv_args *a);
size_t strassen_workspace(const struct problem *p, const struct conv_args *a,
                          const struct strassen_scheme *s);
/* x_row, y_row: elements between rows of x and of y, which are pixels then; 0: maps on channel blocks. */
void emit_strassen_steps(struct emit *e, const struct problem *p, const struct conv_args *a,
                         const struct strassen_scheme *s, int64_t x_row, int64_t y_row);

/* The steps that make the left factors. p: the 1x1 convolution. */
struct scaled_filters emit_strassen_filters(struct emit *e, const struct problem *p,
                                            const struct conv_args *a, const struct strassen_cut *c);
size_t strassen_filter_workspace(const struct problem *p, const struct conv_args *a,
                                 const struct strassen_cut *c);
/* Defines of strassen.clh; pairs: of which the kernel keeps sums. */
void strassen_define(struct step *s, const struct problem *p, const struct strassen_cut *c, int pairs);

#endif
