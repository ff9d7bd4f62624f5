/* conv_filter_grad_depthwise_blocked: the gradient of depthwise filters, vectors of channels, over maps with channels in blocks; see
 * kernels/conv_cpu/conv_filter_grad_depthwise_blocked.cl. */
#include "algos/conv_cpu/conv_filter_grad_parts.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, conv_is_depthwise(&a) && a.k == a.c, "each group must have one channel and one filter");
    return true;
}

static size_t blocks_of(const struct problem *p, const struct conv_args *a)
{
    return (size_t)blocked_count(p, a->c);
}

/* Enough for every core, and lines enough for each. */
static struct filter_grad_args cut_of(const struct problem *p, const struct conv_args *a)
{
    struct filter_grad_args f = filter_grad_args_of(a);
    const size_t lines = filter_grad_lines(&f), wanted = ceil_div(filter_grad_items(p), blocks_of(p, a));
    f.parts = (i32)(wanted < lines ? wanted : lines);
    return f;
}

static size_t sums_bytes(const struct problem *p, const struct conv_args *a)
{
    const struct filter_grad_args f = cut_of(p, a);
    return sizeof(float) * (size_t)f.parts * blocks_of(p, a) * (size_t)(conv_taps(a) * p->block);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_filter_grad_args(p);
    return sums_bytes(p, &a);
}

/* Taps of a row that are added up at once. */
static int columns_of(const struct conv_args *a)
{
    static const int sizes[] = {3, 5, 7};
    for (int i = 0; i < COUNT_OF(sizes); i++)
        if (a->ker[2] == sizes[i])
            return sizes[i];
    return 1;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_filter_grad_args(p);
    const struct filter_grad_args f = cut_of(p, &a);
    const struct filter_grad_steps steps = {
        .file = "conv_filter_grad_depthwise_blocked",
        .items = (size_t)f.parts * blocks_of(p, &a),
        .joins = blocks_of(p, &a),
        .sums_bytes = sums_bytes(p, &a),
        .define = {{"COLUMNS", columns_of(&a)}},
    };
    emit_filter_grad(e, p, &f, &steps);
}

const struct algo_def algo_conv_filter_grad_depthwise_blocked = {
    .name = "depthwise_blocked",
    .doc = "one channel a group, on channel blocks, partial sums joined in their order: memory bound",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .second = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
