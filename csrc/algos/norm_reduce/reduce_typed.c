/* reduce_typed: reductions of elements that are no floats, and products; see kernels/norm_reduce/reduce_typed.cl. */
#include "algos/common/reduction.h"

void emit_reduce_typed(const struct problem *p, struct emit *e, const char *red)
{
    const struct reduce_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct typed_reduce_args a = {.count = 1, .walk.rank = x->shape.rank};
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    operand_strides(y, ys);
    for (int d = 0, out = 0; d < x->shape.rank; d++) {
        const bool reduced = reduce_drops(attrs, d);
        a.walk.size[d] = reduced ? 1 : x->shape.dim[d];
        a.walk.stride[0].of[d] = xs[d];
        a.walk.stride[1].of[d] = reduced ? 0 : ys[out];
        out += !reduced || attrs->keepdims;
        if (!reduced)
            continue;
        a.x[a.rank] = xs[d];
        a.size[a.rank++] = x->shape.dim[d];
        a.count *= x->shape.dim[d];
    }
    struct step *s = strided_step(e, p, "reduce_typed", &a.walk, 2);
    step_define_type(s, "T", x->shape.dtype);
    step_define_id(s, "RED", red);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&x->shape));
}

static void emit_prod(const struct problem *p, struct emit *e)
{
    emit_reduce_typed(p, e, p->in[0].shape.dtype == CLCNN_FLOAT32 ? "bin_mul" : "int_mul");
}

const struct algo_def algo_reduce_prod_ref = {
    .name = "ref",
    .doc = "output by output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_prod,
};
