/* batch_norm_train_grad_blocked: all three gradients of batch norm on channel blocks; see
 * kernels/norm_reduce/batch_norm_train_grad_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/norm_reduce/channel_parts.h"

#define FILE_NAME "batch_norm_train_grad_blocked"

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *dy = &p->in[0], *x = &p->in[1];
    struct channel_parts_args a = channel_parts_of(p, x);
    a.dy_n = dy->batch_stride;
    const size_t blocks = (size_t)blocked_count(p, a.c), parts = blocks * (size_t)a.parts;
    const bool whole = channel_parts_whole(p, &a, 2);
    const int sums = emit_workspace(e, channel_parts_workspace(p));
    struct step *s;

    if (!whole) {
        s = channel_parts_step(e, p, FILE_NAME, "sums", parts);
        step_read(s, dy->view);
        step_read(s, x->view);
        step_read(s, p->in[3].view); /* mean */
        step_write(s, sums);
        step_args(s, &a, sizeof a);
        step_cost(s, (double)shape_count(&x->shape), 2 * (double)shape_bytes(&x->shape));
    }
    s = channel_parts_step(e, p, FILE_NAME, whole ? "whole" : "apply", whole ? blocks : parts);
    for (int i = 0; i < 5; i++)
        step_read(s, p->in[i].view);
    if (whole)
        step_update(s, sums);
    else
        step_read(s, sums);
    for (int i = 0; i < 3; i++)
        step_write(s, p->out[i].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 3 * (double)shape_count(&x->shape));
}

const struct algo_def algo_batch_norm_train_grad_blocked = {
    .name = "blocked",
    .doc = "two sums, then the result, vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .second = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = channel_parts_applicable,
    .workspace = channel_parts_workspace,
    .emit = emit,
};
