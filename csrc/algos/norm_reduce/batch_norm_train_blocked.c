/* batch_norm_train_blocked: batch norm by its own statistics on channel blocks; see
 * kernels/norm_reduce/batch_norm_train_blocked.cl. */
#include "algos/norm_reduce/channel_parts.h"

static void emit(const struct problem *p, struct emit *e)
{
    channel_parts_emit(p, e, "batch_norm_train_blocked", 1, 1);
}

const struct algo_def algo_batch_norm_train_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, sums about a pivot each, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = channel_parts_applicable,
    .workspace = channel_parts_workspace,
    .emit = emit,
};
