/* conv_pool_split: the convolution, then the pooling, each by its own best algorithm, the middle row-major or in channel
 * blocks. */
#include "algos/common/blocked.h"
#include "algos/fused/conv_pool_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit_parts(const struct problem *p, struct emit *e, int block)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    operand_set_layout(&parts.mid, block);
    parts.mid.fp16 = p->fp16_activations && (preferred_fp16(&parts.conv) & FP16_DST) &&
                     (preferred_fp16(&parts.pool) & FP16_SRC);
    emit_middle(e, &parts.mid);
    emit_sub(e, &parts.conv);
    emit_sub(e, &parts.pool);
}

static unsigned fp16_of(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return (preferred_fp16(&parts.conv) & (FP16_SRC | FP16_ADD)) | (preferred_fp16(&parts.pool) & FP16_DST);
}

static void emit(const struct problem *p, struct emit *e)
{
    emit_parts(p, e, 0);
}

static bool blocked_applicable(const struct problem *p, struct why *why)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    operand_set_layout(&parts.mid, p->block);
    const struct algo_def *conv = algo_preferred(&parts.conv);
    PREFER(why, conv && conv->src == LAYOUT_BLOCKED && conv->dst == LAYOUT_BLOCKED,
           "the convolution is expected to be faster on row-major maps");
    return true;
}

static bool stem_applicable(const struct problem *p, struct why *why)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    operand_set_layout(&parts.mid, p->block);
    const struct algo_def *conv = algo_preferred(&parts.conv);
    REQUIRE(why, conv && conv->src == LAYOUT_ROW_MAJOR && conv->dst == LAYOUT_BLOCKED,
            "the convolution must make channel blocks");
    return true;
}

static void blocked_emit(const struct problem *p, struct emit *e)
{
    emit_parts(p, e, p->block);
}

const struct algo_def algo_conv_pool_split_blocked = {
    .name = "split_blocked",
    .doc = "a convolution, then a pooling, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = blocked_applicable,
    .emit = blocked_emit,
};

const struct algo_def algo_conv_pool_split_stem = {
    .name = "split_stem",
    .doc = "a convolution from row-major maps to channel blocks, then a pooling",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_ROW_MAJOR,
    .dst = LAYOUT_BLOCKED,
    .applicable = stem_applicable,
    .emit = blocked_emit,
};

const struct algo_def algo_conv_pool_split = {
    .name = "split",
    .doc = "a convolution, then a pooling, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = applicable,
    .emit = emit,
};
