/* separable_split: the two convolutions one after the other, each by its own best algorithm. */
#include "algos/separable_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static size_t mid_bytes(const struct separable *parts)
{
    return sizeof(float) * (size_t)shape_count(&parts->mid.shape);
}

static size_t workspace(const struct problem *p)
{
    struct separable parts;
    separable_parts(p, &parts);
    return mid_bytes(&parts);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    separable_parts(p, &parts);
    parts.mid.slot = parts.pw_in[0].slot = emit_workspace(e, mid_bytes(&parts));
    emit_sub(e, &parts.dw);
    emit_sub(e, &parts.pw);
}

const struct algo_def algo_separable_split = {
    .name = "split",
    .doc = "a depthwise, then a 1x1 convolution, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
