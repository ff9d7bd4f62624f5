/* inverted_split: the 1x1 convolution that makes the channels more, then the separable one, each by its own best algorithm, the
 * wide map row-major or in channel blocks. */
#include "algos/fused/separable_common.h"

static void emit_parts(struct emit *e, struct inverted *parts)
{
    emit_middle(e, &parts->wide);
    parts->tail_in[0] = parts->wide;
    emit_sub(e, &parts->expand);
    emit_sub(e, &parts->tail);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct inverted parts;
    inverted_parts(p, &parts);
    emit_parts(e, &parts);
}

static void blocked_emit(const struct problem *p, struct emit *e)
{
    struct inverted parts;
    inverted_parts(p, &parts);
    operand_set_layout(&parts.wide, p->block);
    parts.tail_in[0] = parts.wide;
    emit_parts(e, &parts);
}

const struct algo_def algo_inverted_residual_split_blocked = {
    .name = "split_blocked",
    .doc = "a 1x1, then a separable convolution, both on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .apart = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = blocked_parts_applicable,
    .emit = blocked_emit,
};

const struct algo_def algo_inverted_residual_split = {
    .name = "split",
    .doc = "a 1x1, then a separable convolution, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .apart = true,
    .applicable = parts_applicable,
    .emit = emit,
};
