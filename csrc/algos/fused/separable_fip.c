/* separable_fip: depthwise, then 1x1 by the fast inner product, a few tiles at a time; see kernels/fused/separable_fip.cl. */
#include "algos/cost/cost.h"
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_fip.h"
#include "algos/fused/separable_common.h"
#include "fused/separable_products_args.h"

/* The two convolutions. */
struct convs {
    struct separable parts;
    struct conv_args dw, pw;
};

static void convs_of(const struct problem *p, struct convs *c)
{
    separable_parts(p, &c->parts);
    c->dw = conv_args_of(&c->parts.dw);
    c->pw = conv_args_of(&c->parts.pw);
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct convs c;
    convs_of(p, &c);
    const struct fip_cut cut = fip_cut_of(&c.parts.pw, &c.pw);
    REQUIRE(why, cut.groups > 0, FIP_TOO_LARGE);
    DECIDE(p, cut);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    PREFER(why, c.pw.k >= FIP_FEWEST_FILTERS, FEW_FILTERS);
    PREFER(why, fip_pays(p, &c.pw), NO_ADDERS);
    return true;
}

static double effort_of(const struct problem *p)
{
    struct convs c;
    convs_of(p, &c);
    return separable_effort(&c.dw, &c.pw, fip_ratio(p, &c.pw) * blocked_direct_cost(&c.pw));
}

static size_t workspace(const struct problem *p)
{
    struct convs c;
    struct fip_cut cut;
    convs_of(p, &c);
    DECIDED(p, cut);
    return depthwise_packing_workspace(&c.parts.dw, &c.dw) + fip_filter_workspace(&c.parts.pw, &c.pw, &cut);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct convs c;
    struct fip_cut cut;
    convs_of(p, &c);
    DECIDED(p, cut);
    struct separable_fip_args args = {
        .middle = separable_args_of(p),
        .shape = fip_shape_of(&c.parts.pw, &c.pw, &cut),
    };
    const int packed = emit_depthwise_packed(e, &c.parts.dw, &c.dw);
    const struct scaled_filters filters = emit_fip_filters(e, &c.parts.pw, &c.pw, &cut);
    struct step *step = emit_step(e, "separable_fip", "main", cut.groups, 1);
    blocked_middle(step, &c.parts, packed, &args.middle);
    if (c.pw.out[2] % cut.t == 0)
        step_define(step, "EDGE", depthwise_edge(&c.dw));
    fip_define(step, p, &cut);
    step_read(step, filters.gains);
    step_read(step, filters.packed);
    blocked_step_epilogue(step, p, &c.parts.pw_in[2]);
    step_write(step, p->out[0].view);
    step_args(step, &args, sizeof args);
    separable_cost(step, p, &args.middle);
}

const struct algo_def algo_separable_fip = {
    .name = "fip",
    .doc = "depthwise, then 1x1 by the fast inner product, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .stores_in_place = true,
    .effort = FIP_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
