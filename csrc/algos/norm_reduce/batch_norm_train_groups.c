/* batch_norm_train_groups: batch norm by its own statistics on GPUs; see kernels/norm_reduce/batch_norm_train_groups.cl. */
#include "algos/norm_reduce/channel_chunks.h"

static struct channel_chunks_args args_of(const struct problem *p)
{
    return channel_chunks_of(p, &p->in[0], NULL);
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
    const double elements = (double)shape_count(&p->in[0].shape);
    struct step *s = channel_chunks_step(e, p, "batch_norm_train_groups", "moments_of", &a);
    step_read(s, p->in[0].view);
    step_write(s, parts);
    step_args(s, &a, sizeof a);
    step_cost(s, 2.0 * elements, 4.0 * elements);
    s = channel_chunks_step(e, p, "batch_norm_train_groups", "main", &a);
    step_read(s, p->in[0].view);
    step_read(s, parts);
    for (int i = 1; i < 3; i++)
        step_read(s, p->in[i].view);
    norm_epilogue(s, p);
    for (int i = 0; i < 3; i++)
        step_write(s, p->out[i].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, elements);
}

const struct algo_def algo_batch_norm_train_groups = {
    .name = "groups",
    .doc = "chunks of a channel: their moments, put together, then the result",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
