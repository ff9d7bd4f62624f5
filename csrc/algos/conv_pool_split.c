/* conv_pool_split: the convolution, then the pooling, each by its own best algorithm. */
#include "algos/conv_pool_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    emit_middle(e, &parts.mid);
    emit_sub(e, &parts.conv);
    emit_sub(e, &parts.pool);
}

const struct algo_def algo_conv_pool_split = {
    .name = "split",
    .doc = "a convolution, then a pooling, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
