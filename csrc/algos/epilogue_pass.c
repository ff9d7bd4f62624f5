/* epilogue_pass: y = act(y + bias + add) in place, for producers that cannot fuse it; see
 * kernels/epilogue_pass.cl. */
#include "algos/rows.h"

void emit_epilogue_pass(struct emit *e, const struct problem *p, const struct operand *bias)
{
    /* Weights of rank 2 mean a matrix product: its features are the last dimension. */
    const bool matrix = p->n_in > 1 && p->in[1].shape.rank == 2;
    const int last = p->out[0].shape.rank - 1;
    struct channel_args a = channel_args_of(p, matrix || last < 1 ? last : 1);
    struct step *s = rows_step(e, p, "epilogue_pass", "main", a.rows, a.inner, &a.pieces);
    step_epilogue(s, p, bias);
    step_update(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}
