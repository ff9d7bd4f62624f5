/* separable_split: the two convolutions one after the other, each by its own best algorithm. */
#include "algos/separable_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    separable_parts(p, &parts);
    emit_middle(e, &parts.mid);
    parts.pw_in[0] = parts.mid;
    emit_sub(e, &parts.dw);
    emit_sub(e, &parts.pw);
}

const struct algo_def algo_separable_split = {
    .name = "split",
    .doc = "a depthwise, then a 1x1 convolution, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
