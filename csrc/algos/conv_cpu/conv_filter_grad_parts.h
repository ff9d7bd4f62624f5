/* conv_filter_grad_parts.h: gradients of filters on channel blocks as partial sums over parts of the lines, and their join. */
#ifndef CLCNN_ALGOS_CONV_FILTER_GRAD_PARTS_H
#define CLCNN_ALGOS_CONV_FILTER_GRAD_PARTS_H

#include "algos/common/blocked.h"
#include "algos/conv/conv_filter_grad.h"
#include "conv_cpu/filter_grad_args.h"

/* A register tile: ct channels by kv vectors of filters. `cost`: the measured time of a multiply-add over that of the fastest. */
struct filter_tile {
    int ct, kv;
    double cost;
};
const struct filter_tile *filter_tiles(const struct problem *p, int *count);
/* What a convolution says; how it is cut is left 0. */
struct filter_grad_args filter_grad_args_of(const struct conv_args *a);
/* Rows of dy, over the batch. */
size_t filter_grad_lines(const struct filter_grad_args *f);
/* Work-items that keep every core busy until the end. */
size_t filter_grad_items(const struct problem *p);

/* The entries `main` and `join` of a kernel file, with what is defined beside V. */
struct filter_grad_steps {
    const char *file;
    size_t items, joins; /* work-items of the two */
    size_t sums_bytes;   /* of all parts */
    struct {
        const char *name;
        int value;
    } define[2];
};
void emit_filter_grad(struct emit *e, const struct problem *p, const struct filter_grad_args *f,
                      const struct filter_grad_steps *steps);

#endif
