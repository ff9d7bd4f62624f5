/* byte_common.h: what the algorithms on maps of bytes share. */
#ifndef CLCNN_ALGOS_BYTE_COMMON_H
#define CLCNN_ALGOS_BYTE_COMMON_H

#include "plan/emit.h"
#include "bytes/bytes_args.h"

/* For PREFER: the rewrite that makes these operators asks for the same. */
bool bytes_always(const struct problem *p, struct why *why);
/* Rows (or other pieces) of a work-item, so that every core has enough work-items to keep busy until the end. */
int bytes_run(const struct problem *p, size_t parts, size_t pieces);
/* Sizes of a convolution; y [K/16][out][16]. */
struct byte_sizes {
    int n, k, c, block, blocks; /* channels of a block of x, and blocks */
    int k_group, c_group;       /* filters and channels of a group */
    int in[2], out[2], ker[2], stride[2], pad[2], dil[2];
};
struct byte_sizes byte_sizes_of(const struct problem *p);
/* Blocks of so many channels that hold what any so many filters read: those of their groups. */
int byte_span(const struct byte_sizes *s, int filters, int channels);
/* The map as it is read: x itself, or a copy of it. */
struct byte_map {
    int view;
    int64_t src_n;
    int size[2];
};
struct byte_map byte_map_of(const struct problem *p, const struct byte_sizes *s);
/* A step that copies x with a border, or every stride-th pixel, into a map of this size. */
struct byte_map emit_byte_pad(struct emit *e, const struct problem *p, const struct byte_sizes *s,
                              const int size[2], const int stride[2]);
/* A step that copies so many blocks of channels of an input, from one on, to those of the output. */
void emit_byte_blocks(struct emit *e, const struct problem *p, int input, int32_t from, int32_t to,
                      int32_t count);
/* Filters as bytes (kernels/bytes/byte_conv_pack.cl). */
int emit_byte_packed(struct emit *e, const struct problem *p, const struct byte_pack_args *a,
                     const char *entry, int kv);
/* What every step of a convolution reads and writes beside x: filters, factors, bias and the map that is added; how results end. */
struct byte_steps byte_steps_of(const struct problem *p, const struct byte_sizes *s);
void byte_conv_reads(struct step *s, const struct problem *p, int packed);
void byte_conv_cost(struct step *s, const struct problem *p, const struct byte_sizes *z);
/* The step of a convolution: arguments that all of them have, operands, defines of bytes.clh, cost. */
void byte_conv_step(struct step *s, const struct problem *p, const struct byte_sizes *z,
                    const struct byte_map *x, int packed, struct byte_conv_args *a);

#endif
