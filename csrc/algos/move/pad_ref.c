/* pad_ref: padding and cropping; see kernels/move/pad_ref.cl. */
#include "algos/move/pads.h"

/* Whether dimension d (of y) may join the one before it: nothing is padded or cropped inside, both operands are one
 * walk, and what is padded outside, if anything, is a value and no copy of single elements. */
static bool joins(const struct pad_args *a, int last, int64_t x_stride, int64_t y_stride, int x_size,
                  int y_size, int begin, bool constant)
{
    if (!constant && a->x_size[last] != a->y_size[last])
        return false;
    return begin == 0 && x_size == y_size && a->x[last] == x_stride * x_size &&
           a->y[last] == y_stride * y_size && (int64_t)a->y_size[last] * y_size <= INT32_MAX &&
           (int64_t)a->x_size[last] * x_size <= INT32_MAX;
}

struct pad_args pad_args_of(const struct problem *p, int64_t *offset)
{
    const struct pad_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int rank = y->shape.rank;
    const bool crops = attrs->mode != PAD_ROLL;
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    struct pad_args a = {.x_size = {1}, .y_size = {1}, .rank = 1, .value = attrs->value};
    operand_strides(x, xs);
    operand_strides(y, ys);
    int last = -1;
    *offset = 0;
    for (int d = 0; d < rank; d++) {
        const int before = attrs->pads.v[d], after = attrs->pads.v[rank + d];
        const int cropped = crops && before < 0 ? before : 0, y_size = y->shape.dim[d];
        const int x_size = x->shape.dim[d] + cropped + (crops && after < 0 ? after : 0);
        const int begin = before - cropped;
        *offset -= cropped * xs[d];
        if (last >= 0 && joins(&a, last, xs[d], ys[d], x_size, y_size, begin, attrs->mode == PAD_CONSTANT)) {
            a.x_size[last] *= x_size;
            a.y_size[last] *= y_size;
            a.begin[last] *= x_size;
        } else {
            last++;
            a.x_size[last] = x_size;
            a.y_size[last] = y_size;
            a.begin[last] = begin;
        }
        a.x[last] = xs[d];
        a.y[last] = ys[d];
    }
    a.rank = last < 0 ? 1 : last + 1;
    return a;
}

void pad_step(struct step *s, const struct problem *p, int64_t offset)
{
    static const char *const source[] = {NULL, "reflect", "edge", "wrap", "wrap"};
    const struct pad_attrs *attrs = p->attrs;
    step_define_type(s, "T", p->in[0].shape.dtype);
    if (source[attrs->mode])
        step_define_id(s, "SOURCE", source[attrs->mode]);
    step_read_at(s, p->in[0].view, offset);
    step_write(s, p->out[0].view);
    rows_cost(s, p, 0);
}

static void emit(const struct problem *p, struct emit *e)
{
    int64_t offset;
    struct pad_args a = pad_args_of(p, &offset);
    a.rows = shape_count(&p->out[0].shape) / a.y_size[a.rank - 1];
    struct step *s = rows_step(e, p, "pad_ref", "main", a.rows, a.y_size[a.rank - 1], &a.pieces);
    pad_step(s, p, offset);
    step_args(s, &a, sizeof a);
}

const struct algo_def algo_pad_ref = {
    .name = "ref",
    .doc = "one pass over the output",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
