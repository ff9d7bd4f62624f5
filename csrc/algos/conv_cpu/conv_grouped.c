/* conv_grouped: groups of 2, 4 or 8 channels that share a channel block; see kernels/conv_cpu/conv_grouped.cl. */
#include "algos/common/blocked.h"
#include "conv_cpu/conv_cpu_args.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    const int each = a.c / a.groups;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, a.k == a.c && (each == 2 || each == 4 || each == 8) && each < p->block,
            "groups must have 2, 4 or 8 channels, less than a block, and as many filters");
    PREFER(why, a.c * 2 >= p->block, FEW_CHANNELS);
    return true;
}

/* One group of filters, each with the channels of its own. */
static struct conv_args filters_of(const struct conv_args *a)
{
    struct conv_args filters = *a;
    filters.c = a->c / a->groups;
    filters.groups = 1;
    return filters;
}

static struct conv_packing packing_of(const struct problem *p, const struct conv_args *filters)
{
    return (struct conv_packing){.block = p->block, .c_block = filters->c};
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    return conv_packing_workspace(p, &filters, packing_of(p, &filters));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    const size_t planes = (size_t)a.n * (size_t)blocked_count(p, a.c), rows = (size_t)a.out[1];
    const struct depthwise_args args = depthwise_args_of(p, &a, blocked_run(p, planes, rows, 1));
    const int packed = emit_conv_packed(e, p, &filters, packing_of(p, &filters));
    struct step *s = emit_step(e, "conv_grouped", "main", planes * ceil_div(rows, (size_t)args.rows), 1);
    define_depthwise(s, p, &a);
    step_define(s, "G", filters.c);
    step_define(s, "DT", a.out[2] > 7 ? 14 : 7);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_grouped = {
    .name = "grouped",
    .doc = "groups of 2, 4 or 8 channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .turned = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
