/* batch_norm_train_grad_blocked: all three gradients of batch norm on channel blocks; see
 * kernels/norm_reduce/batch_norm_train_grad_blocked.cl. */
#include "algos/norm_reduce/channel_parts.h"

static void emit(const struct problem *p, struct emit *e)
{
    channel_parts_emit(p, e, "batch_norm_train_grad_blocked", 2, p->n_in);
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
