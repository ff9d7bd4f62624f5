/* separable_split: the two convolutions one after the other, each by its own best algorithm, the middle row-major or in channel
 * blocks. */
#include "algos/fused/separable_common.h"

static void emit_parts(struct emit *e, struct separable *parts)
{
    emit_middle(e, &parts->mid);
    parts->pw_in[0] = parts->mid;
    emit_sub(e, &parts->dw);
    emit_sub(e, &parts->pw);
}

static unsigned fp16_of(const struct problem *p)
{
    struct separable parts;
    separable_parts(p, &parts);
    return (preferred_fp16(&parts.dw) & FP16_SRC) | (preferred_fp16(&parts.pw) & (FP16_DST | FP16_ADD));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    separable_parts(p, &parts);
    parts.mid.fp16 = p->fp16_activations && (preferred_fp16(&parts.dw) & FP16_DST) &&
                     (preferred_fp16(&parts.pw) & FP16_SRC);
    emit_parts(e, &parts);
}

/* The parts, all of whose maps are in channel blocks. */
static void blocked_parts(const struct problem *p, struct separable *parts)
{
    separable_parts(p, parts);
    operand_set_layout(&parts->mid, p->block);
    parts->pw_in[0] = parts->mid;
}

static void blocked_emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    blocked_parts(p, &parts);
    emit_parts(e, &parts);
}

const struct algo_def algo_separable_split_blocked = {
    .name = "split_blocked",
    .doc = "a depthwise, then a 1x1 convolution, both on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = blocked_parts_applicable,
    .emit = blocked_emit,
};

const struct algo_def algo_separable_split = {
    .name = "split",
    .doc = "a depthwise, then a 1x1 convolution, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = parts_applicable,
    .emit = emit,
};
