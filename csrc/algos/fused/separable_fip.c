/* separable_fip: depthwise, then 1x1 by the fast inner product, a few tiles at a time; see kernels/fused/separable_fip.cl. */
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_fip.h"
#include "algos/fused/separable_common.h"
#include "fused/separable_products_args.h"

struct scheme {
    struct separable parts;
    struct conv_args dw, pw;
    struct fip_cut cut;
};

static void scheme_of(const struct problem *p, struct scheme *s)
{
    separable_parts(p, &s->parts);
    s->dw = conv_args_of(&s->parts.dw);
    s->pw = conv_args_of(&s->parts.pw);
    s->cut = fip_cut_of(&s->parts.pw, &s->pw);
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct scheme s;
    scheme_of(p, &s);
    REQUIRE(why, s.cut.groups > 0, FIP_TOO_LARGE);
    PREFER(why, fip_pays(p), NO_ADDERS);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    PREFER(why, s.pw.k >= FIP_FEWEST_FILTERS, FEW_FILTERS);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct scheme s;
    scheme_of(p, &s);
    return depthwise_packing_workspace(&s.parts.dw, &s.dw) + fip_filter_workspace(&s.parts.pw, &s.pw, &s.cut);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct scheme s;
    scheme_of(p, &s);
    struct separable_fip_args args = {
        .middle = separable_args_of(p),
        .shape = fip_shape_of(&s.parts.pw, &s.pw, &s.cut),
    };
    const int packed = emit_depthwise_packed(e, &s.parts.dw, &s.dw);
    const struct scaled_filters filters = emit_fip_filters(e, &s.parts.pw, &s.pw, &s.cut);
    struct step *step = emit_step(e, "separable_fip", "main", s.cut.groups, 1);
    blocked_middle(step, &s.parts, packed, &args.middle);
    if (s.pw.out[2] % s.cut.t == 0)
        step_define(step, "EDGE", depthwise_edge(&s.dw));
    fip_define(step, p, &s.cut);
    step_read(step, filters.gains);
    step_read(step, filters.packed);
    blocked_step_epilogue(step, p, &s.parts.pw_in[2]);
    step_write(step, p->out[0].slot);
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
    .src = FORM_BLOCKED,
    .dst = FORM_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
