/* resize_ref: resampling with every rule of coordinates and rounding; see kernels/vision/resize_ref.cl. */
#include "algos/vision/resize.h"
#include "vision/vision_args.h"

#include <math.h>
#include <stdlib.h>

enum {
    CPU_BLOCK = 16,
    GPU_BLOCK = 4,
    LARGE = 1 << 22
}; /* channels that share a row's coordinates; elements */
enum { FLOOR, ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, CEIL };

/* The line whose floor is the rounded coordinate. */
static struct resize_line line_rounded(struct resize_line l, int rounding)
{
    switch (rounding) {
    case CEIL:
        return (struct resize_line){l.mul, l.add + l.div - 1, l.div};
    case ROUND_PREFER_CEIL: /* floor(x + 1/2) */
        return (struct resize_line){2 * l.mul, 2 * l.add + l.div, 2 * l.div};
    case ROUND_PREFER_FLOOR: /* ceil(x - 1/2) */
        return (struct resize_line){2 * l.mul, 2 * l.add + l.div - 1, 2 * l.div};
    default:
        return l;
    }
}

static struct resize_args args_of(const struct problem *p)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2;
    struct resize_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .div = {1, 1, 1},
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        const int d = 3 - dims + i;
        a.in[d] = x->shape.dim[2 + i];
        a.out[d] = y->shape.dim[2 + i];
        struct resize_line l = resize_line_of(attrs, i, dims, a.in[d], a.out[d]);
        if (attrs->mode == RESIZE_NEAREST)
            l = line_rounded(l, attrs->nearest_rounding);
        a.mul[d] = l.mul;
        a.add[d] = l.add;
        a.div[d] = l.div;
    }
    a.block = cpu_device(p->device) ? CPU_BLOCK : shape_count(&y->shape) >= LARGE ? GPU_BLOCK : 1;
    a.rows = (int64_t)x->shape.dim[0] * ((a.c + a.block - 1) / a.block) * a.out[0] * a.out[1];
    return a;
}

/* Whether coordinates can be worked out in 32 bits, in which division is far faster. */
static bool fits_int(const struct resize_args *a)
{
    for (int d = 0; d < 3; d++)
        if (a->mul[d] * a->out[d] + llabs(a->add[d]) + a->div[d] > INT32_MAX)
            return false;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct resize_attrs *attrs = p->attrs;
    if (attrs->mode == RESIZE_CUBIC || (attrs->mode == RESIZE_LINEAR && attrs->antialias) ||
        attrs->coordinates == RESIZE_TF_CROP_AND_RESIZE) {
        emit_resize_taps(p, e);
        return;
    }
    struct resize_args a = args_of(p);
    struct step *s = rows_step(e, p, "resize_ref", "main", a.rows, a.out[2], &a.pieces);
    step_define(s, "LINEAR", attrs->mode == RESIZE_LINEAR);
    step_define(s, "DIMS", p->in[0].shape.rank - 2);
    step_define_id(s, "COORD", fits_int(&a) ? "int" : "long");
    s->alone = true; /* not measured in chains */
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_resize_ref = {
    .name = "ref",
    .doc = "each output by itself, at exact coordinates",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
