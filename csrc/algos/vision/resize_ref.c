/* resize_ref: resampling with every rule of coordinates and rounding; see kernels/vision/resize_ref.cl. */
#include "algos/vision/resize.h"

#include <math.h>

enum {
    CPU_BLOCK = 16,
    GPU_BLOCK = 4,
    LARGE = 1 << 22
}; /* channels that share a row's coordinates; elements */

static struct resize_args args_of(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const struct resize_map map = resize_map_of(p);
    struct resize_args a = {.x_n = x->batch_stride, .y_n = y->batch_stride, .c = x->shape.dim[1]};
    for (int d = 0; d < 3; d++) {
        a.in[d] = map.in[d];
        a.out[d] = map.out[d];
        a.mul[d] = map.line[d].mul;
        a.add[d] = map.line[d].add;
        a.div[d] = map.line[d].div;
    }
    a.block = cpu_device(p->device) ? CPU_BLOCK : shape_count(&y->shape) >= LARGE ? GPU_BLOCK : 1;
    a.rows = (int64_t)x->shape.dim[0] * ((a.c + a.block - 1) / a.block) * a.out[0] * a.out[1];
    return a;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct resize_attrs *attrs = p->attrs;
    if (!resize_is_plain(attrs)) {
        emit_resize_taps(p, e);
        return;
    }
    struct resize_args a = args_of(p);
    struct step *s = rows_step(e, p, "resize_ref", "main", a.rows, a.out[2], &a.pieces);
    step_define(s, "LINEAR", attrs->mode == RESIZE_LINEAR);
    step_define(s, "DIMS", p->in[0].shape.rank - 2);
    step_define_id(s, "COORD", resize_fits_int(a.mul, a.add, a.div, a.in, a.out) ? "int" : "long");
    s->alone = !cpu_device(p->device); /* not measured in chains of groups */
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
