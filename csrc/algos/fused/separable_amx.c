/* separable_amx: depthwise, then 1x1 by tiles of bfloat16; see kernels/fused/separable_amx.cl. */
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_amx.h"
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"
#include "fused/separable_products_args.h"

/* The two convolutions. */
struct convs {
    struct separable parts;
    struct conv_args dw;
    struct amx_cut cut;
};

static void convs_of(const struct problem *p, struct convs *c)
{
    separable_parts(p, &c->parts);
    c->dw = conv_args_of(&c->parts.dw);
    const struct conv_args pw = conv_args_of(&c->parts.pw);
    c->cut = amx_cut_of(&c->parts.pw, AMX_PARTS, &pw, 0, 0, 0);
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, p->block == 16, NARROW_LANES);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct convs c;
    convs_of(p, &c);
    return amx_pays(&c.parts.pw, &c.cut, AMX_FEWEST_CHANNELS, why);
}

static size_t workspace(const struct problem *p)
{
    struct convs c;
    convs_of(p, &c);
    return depthwise_packing_workspace(&c.parts.dw, &c.dw) + amx_workspace(&c.parts.pw, &c.cut);
}

static double effort_of(const struct problem *p)
{
    struct convs c;
    convs_of(p, &c);
    return amx_effort(&c.parts.pw, &c.cut);
}

struct source {
    const struct convs *convs;
    struct separable_args middle;
    int packed;
};

static struct step *begin(struct emit *e, void *of, size_t groups, bool reads)
{
    struct source *source = of;
    struct step *s = emit_step(e, "separable_amx", "main", groups, 1);
    step_read(s, reads ? source->convs->parts.dw_in[0].view : VIEW_NONE);
    blocked_middle_of(s, &source->convs->parts, source->packed, &source->middle);
    return s;
}

static void end(struct step *s, void *of, const struct conv_amx_args *a)
{
    const struct source *source = of;
    const struct separable_amx_args args = {source->middle, *a};
    step_args(s, &args, sizeof args);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct convs c;
    convs_of(p, &c);
    struct source of = {&c, separable_args_of(p), emit_depthwise_packed(e, &c.parts.dw, &c.dw)};
    const struct amx_source source = {&of, begin, end};
    separable_cost(emit_amx(e, &c.parts.pw, &c.cut, &source), p, &of.middle);
}

const struct algo_def algo_separable_amx = {
    .name = "amx",
    .doc = "depthwise, then 1x1 by tiles of bfloat16, three for each float, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_BF16_PARTS,
    .deterministic = true,
    .stores_in_place = true,
    .effort = AMX_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
