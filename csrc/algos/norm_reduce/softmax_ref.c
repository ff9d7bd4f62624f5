/* softmax_ref: softmax and log_softmax along any dimension; see kernels/norm_reduce/softmax_ref.cl. */
#include "algos/norm_reduce/rows_norm.h"

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_args a = softmax_rows_of(p);
    struct step *s;
    if (ROWS_ARE_CONTIGUOUS(&a))
        s = lanes_step(e, p, "softmax_ref", "rows", a.rows, a.length);
    else
        s = rows_step(e, p, "softmax_ref", "columns", a.rows, a.inner, &a.pieces);
    softmax_finish(p, s, &a, logarithm);
}

SOFTMAX_ALGOS(ref, .doc = "largest value taken off first", .applicable = rows_always);
