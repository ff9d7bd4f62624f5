/* rotary_embedding_ref: rotary position embedding, element by element; see kernels/attention/rotary_embedding_ref.cl. */
#include "algos/common/rows.h"
#include "attention/attention_args.h"

#include <string.h>

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *y = &p->out[0];
    struct rotary_args a = {.walk = {.rank = y->shape.rank}, .columns = y->shape.dim[y->shape.rank - 1]};
    memcpy(a.walk.size, y->shape.dim, sizeof a.walk.size);
    for (int i = 0; i < 3; i++)
        operand_broadcast(&p->in[i], &y->shape, a.walk.stride[i].of);
    operand_strides(y, a.walk.stride[3].of);
    struct step *s = strided_step(e, p, "rotary_embedding_ref", &a.walk, 4);
    step_define(s, "INTERLEAVED", ((const struct rotary_attrs *)p->attrs)->interleaved);
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_rotary_embedding_ref = {
    .name = "ref",
    .doc = "element by element, dimensions merged where the strides allow",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
