/* attention_ref: attention by its definition; see kernels/attention/attention_ref.cl. */
#include "algos/attention/attention.h"
#include "algos/common/rows.h"

enum { ELEMS = 16 }; /* columns of a work-item */

static void emit(const struct problem *p, struct emit *e)
{
    const struct attention_args a = attention_args_of(p);
    const size_t items = (size_t)a.n * (size_t)a.heads * (size_t)a.l * ceil_div((size_t)a.e, ELEMS),
                 group = cpu_device(p->device) ? 4 : any_group_size(p);
    struct step *s = emit_step(e, "attention_ref", "main", ceil_div(items, group), group);
    step_define(s, "ELEMS", ELEMS);
    attention_finish(s, p, &a);
}

const struct algo_def algo_scaled_dot_product_attention_ref = {
    .name = "ref",
    .doc = "by the definition, scores computed twice",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
