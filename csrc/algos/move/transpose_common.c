/* transpose_common.c: transposes that move the innermost dimension, as planes of two dimensions; see transposes.h. */
#include "algos/move/transposes.h"
#include "algos/common/walk.h"

struct strided_args transpose_view(const struct problem *p)
{
    const struct axes_attrs *attrs = p->attrs;
    int64_t from[CLCNN_MAX_RANK];
    struct strided_args a = {.rank = p->out[0].shape.rank};
    operand_strides(&p->in[0], from);
    operand_strides(&p->out[0], a.stride[1].of);
    for (int d = 0; d < a.rank; d++) {
        a.size[d] = p->out[0].shape.dim[d];
        a.stride[0].of[d] = from[attrs->axes.v[d]];
    }
    strided_merge(&a, 2);
    return a;
}

bool transpose_fits(const struct problem *p, const struct strided_args *a, struct why *why)
{
    const int last = a->rank - 1;
    REQUIRE(why, strided_contiguous_dim(a) != last && a->stride[1].of[last] == 1,
            "the innermost dimension stays in place");
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "the elements are no floats");
    return true;
}

struct transpose_args transpose_args_of(const struct strided_args *v, int tall, int broad, size_t *tiles)
{
    const int last = v->rank - 1, high = strided_contiguous_dim(v);
    struct transpose_args a = {
        .x_step = v->stride[0].of[last],
        .y_step = v->stride[1].of[high],
        .tiles = {(i32)ceil_div((size_t)v->size[high], (size_t)tall),
                  (i32)ceil_div((size_t)v->size[last], (size_t)broad)},
        .high = v->size[high],
        .wide = v->size[last],
    };
    for (int d = last - 1; d >= 0; d--) {
        if (d == high)
            continue;
        a.x[a.rank] = v->stride[0].of[d];
        a.y[a.rank] = v->stride[1].of[d];
        a.tiles[2 + a.rank++] = v->size[d];
    }
    *tiles = 1;
    for (int d = 0; d < 2 + a.rank; d++) {
        *tiles *= (size_t)a.tiles[d];
        walk_division(a.tiles[d], &a.factor[d], &a.shift[d]);
    }
    return a;
}

void transpose_finish(struct step *s, const struct problem *p, const struct transpose_args *a)
{
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}
