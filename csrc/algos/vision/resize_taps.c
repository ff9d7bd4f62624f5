/* resize_taps: resampling by kernels of any width, and of crops; see kernels/vision/resize_taps.cl. */
#include "algos/vision/resize.h"

#include <math.h>

enum { CPU_BLOCK = 4 }; /* channels that share a column's taps */

int resize_span(const struct resize_taps_args *a, int kind)
{
    int most = 1;
    for (int d = 0; d < 3 && kind > 0; d++) {
        const int span = (int)ceilf(2.0f * (float)kind / a->scale[d]);
        most = span > most ? span : most;
    }
    return most;
}

struct resize_taps_args resize_taps_args_of(const struct problem *p)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2;
    struct resize_taps_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .div = {1, 1, 1},
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .exclude = attrs->exclude_outside,
        .rounding = attrs->nearest_rounding,
        .scale = {1.0f, 1.0f, 1.0f},
        .cubic = attrs->cubic_coeff_a,
        .outside = attrs->extrapolation_value,
    };
    for (int i = 0; i < dims; i++) {
        const int d = 3 - dims + i;
        a.in[d] = x->shape.dim[2 + i];
        a.out[d] = y->shape.dim[2 + i];
        const struct resize_line l = resize_line_of(attrs, i, dims, a.in[d], a.out[d]);
        const struct ratio r = resize_in_per_out(attrs, i, a.in[d], a.out[d]);
        a.mul[d] = l.mul;
        a.add[d] = l.add;
        a.div[d] = l.div;
        if (attrs->antialias && r.num > r.den)
            a.scale[d] = (float)((double)r.den / (double)r.num);
    }
    return a;
}

void resize_define_taps(struct step *s, const struct problem *p, const struct resize_taps_args *a)
{
    const struct resize_attrs *attrs = p->attrs;
    step_define(s, "DIMS", p->in[0].shape.rank - 2);
    step_define(s, "KIND", attrs->mode);
    step_define(s, "SPAN", resize_span(a, attrs->mode));
    step_define_id(s, "COORD", resize_fits_int(a->mul, a->add, a->div, a->in, a->out) ? "int" : "long");
}

void emit_resize_taps(const struct problem *p, struct emit *e)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int block = cpu_device(p->device) ? CPU_BLOCK : 1;
    struct resize_taps_args a = resize_taps_args_of(p);
    a.rows = x->shape.dim[0] * (int64_t)ceil_div((size_t)a.c, (size_t)block) * a.out[0] * a.out[1];
    struct step *s = rows_step(e, p, "resize_taps", "main", a.rows, a.out[2], &a.pieces);
    resize_define_taps(s, p, &a);
    step_define(s, "BLOCK", block);
    step_define(s, "CROP", attrs->coordinates == RESIZE_TF_CROP_AND_RESIZE);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}
