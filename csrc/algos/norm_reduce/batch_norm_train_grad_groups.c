/* batch_norm_train_grad_groups: all three gradients of batch norm on GPUs; see
 * kernels/norm_reduce/batch_norm_train_grad_groups.cl. */
#include "algos/norm_reduce/channel_chunks.h"

enum { DY, X, WEIGHT, MEAN, VAR, BIAS }; /* inputs */

static struct channel_chunks_args args_of(const struct problem *p)
{
    return channel_chunks_of(p, &p->in[X], &p->in[DY]);
}

static size_t workspace(const struct problem *p)
{
    const struct channel_chunks_args a = args_of(p);
    return channel_chunks_bytes(&a);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct channel_chunks_args a = args_of(p);
    const int parts = emit_workspace(e, channel_chunks_bytes(&a));
    const double elements = (double)shape_count(&p->in[X].shape);
    struct step *s = channel_chunks_step(e, p, "batch_norm_train_grad_groups", "sums_of", &a);
    step_read(s, p->in[DY].view);
    step_read(s, p->in[X].view);
    for (int i = WEIGHT; i <= BIAS; i++)
        step_read(s, p->in[i].view);
    step_write(s, parts);
    step_args(s, &a, sizeof a);
    step_cost(s, 2.0 * elements, 8.0 * elements);
    s = channel_chunks_step(e, p, "batch_norm_train_grad_groups", "main", &a);
    step_read(s, p->in[DY].view);
    step_read(s, p->in[X].view);
    step_read(s, parts);
    for (int i = WEIGHT; i <= BIAS; i++)
        step_read(s, p->in[i].view);
    for (int i = 0; i < 3; i++)
        step_write(s, p->out[i].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 2.0 * elements);
}

const struct algo_def algo_batch_norm_train_grad_groups = {
    .name = "groups",
    .doc = "chunks of a channel: their sums, added up, then the result",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
