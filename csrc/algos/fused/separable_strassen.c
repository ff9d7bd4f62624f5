/* separable_strassen: the depthwise convolution makes the right factors of Strassen's products, which are the 1x1 convolution, a few
 * pairs of tiles at a time; see kernels/fused/separable_strassen.cl. */
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_strassen.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"
#include "algos/fused/separable_common.h"
#include "fused/separable_products_args.h"


enum {
    MOST_PAIRS = 16, /* of a group: the kernel keeps their sums */
};

/* Small tiles: rows of few pixels are whole ones, and an odd one at the end of an image is a small part. */
static struct strassen_tile tile_of(const struct problem *p)
{
    return p->block == 16 ? (struct strassen_tile){7, 2} : (struct strassen_tile){6, 2};
}

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

struct scheme {
    struct strassen_cut cut;
    size_t held;   /* bytes of right factors */
    size_t groups; /* 0: none keeps its factors in so many bytes */
};

/* As few groups as keep their factors. */
static size_t groups_of(const struct problem *p, const struct scheme *s)
{
    size_t most = 0;
    while (most < MOST_PAIRS && strassen_factor_bytes(p, &s->cut, most + 1) <= s->held)
        most++;
    return most ? blocked_even_groups(p, s->cut.all, s->cut.k_blocks, most) : 0;
}

static struct scheme scheme_of(const struct problem *p, const struct convs *c)
{
    const size_t local = (size_t)p->device->local_mem_bytes;
    struct scheme s = {.held = local < SEPARABLE_STRASSEN_HELD_BYTES ? local : SEPARABLE_STRASSEN_HELD_BYTES};
    s.cut = strassen_cut_of(&c->parts.pw, &c->pw, tile_of(p));
    s.groups = groups_of(p, &s);
    return s;
}

/* The time of the products and of all that is done for them alone. */
static double cost_of(const struct problem *p, const struct scheme *s, const struct conv_args *pw)
{
    /* pairs whose factors several groups make */
    const size_t again = s->groups * blocked_most_items(s->cut.all, s->cut.k_blocks, s->groups) - s->cut.all;
    const double all =
        strassen_cost(&s->cut, pw, SEPARABLE_STRASSEN_SUM_MACS) +
        strassen_factors(&s->cut, pw, again) * SEPARABLE_STRASSEN_SPREAD_MACS +
        (double)conv_pixels(pw) * (SEPARABLE_STRASSEN_PIXEL_MACS + SEPARABLE_STRASSEN_CHANNEL_MACS * pw->c);
    return all * profile_factor(p->device, PROFILE_strassen_small, conv_macs(pw));
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct convs c;
    convs_of(p, &c);
    REQUIRE(why, strassen_halves(p, &c.pw, tile_of(p)), NO_HALVES);
    const struct scheme s = scheme_of(p, &c);
    REQUIRE(why, c.pw.out[2] % s.cut.tile.t == 0,
            "rows must be whole tiles of 7 pixels (6 with vectors of 8)");
    REQUIRE(why, s.groups > 0, "the right factors of a pair of tiles must fit local memory");
    DECIDE(p, s);
    PREFER(why, !p->fresh_filters, SUMS_OF_FILTERS);
    PREFER(why, 2 * s.cut.all * (size_t)s.cut.tile.t >= SEPARABLE_STRASSEN_FEWEST_PIXELS * s.groups,
           "few pixels: each core would read all sums of the weights for them");
    PREFER(why, cost_of(p, &s, &c.pw) < SEPARABLE_STRASSEN_WORTH_RATIO * blocked_direct_cost(&c.pw),
           "sums cost as much as an eighth of the products");
    return true;
}

static double effort_of(const struct problem *p)
{
    struct convs c;
    struct scheme s;
    convs_of(p, &c);
    DECIDED(p, s);
    return separable_effort(&c.dw, &c.pw, cost_of(p, &s, &c.pw));
}

static size_t workspace(const struct problem *p)
{
    struct convs c;
    struct scheme s;
    convs_of(p, &c);
    DECIDED(p, s);
    return depthwise_packing_workspace(&c.parts.dw, &c.dw) +
           strassen_filter_workspace(&c.parts.pw, &c.pw, &s.cut);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct convs c;
    struct scheme s;
    convs_of(p, &c);
    DECIDED(p, s);
    struct separable_strassen_args args = {
        .middle = separable_args_of(p),
        .shape = strassen_shape_of(&c.parts.pw, &c.pw, &s.cut),
        .all = (i32)s.cut.all,
        .groups = (i32)s.groups,
    };
    const int packed = emit_depthwise_packed(e, &c.parts.dw, &c.dw);
    const struct scaled_filters filters = emit_strassen_filters(e, &c.parts.pw, &c.pw, &s.cut);
    struct step *step = emit_step(e, "separable_strassen", "main", s.groups, 1);
    blocked_middle(step, &c.parts, packed, &args.middle);
    step_define(step, "EDGE", depthwise_edge(&c.dw));
    step_define(step, "FACTORS_HELD", (int)(s.held / sizeof(float)));
    strassen_define(step, p, &s.cut, MOST_PAIRS);
    step_read(step, filters.gains);
    step_read(step, filters.packed);
    blocked_step_epilogue(step, p, &c.parts.pw_in[2]);
    step_write(step, p->out[0].view);
    step_args(step, &args, sizeof args);
    separable_cost(step, p, &args.middle);
}

const struct algo_def algo_separable_strassen = {
    .name = "strassen",
    .doc = "depthwise, then 1x1 by seven products of halves instead of eight, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = STRASSEN_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
