/* conv_fip: 1x1 convolutions by the fast inner product, for CPU devices; see kernels/conv_cpu/conv_fip.cl. */
#include "algos/cost/cost.h"
#include "algos/conv_cpu/conv_fip.h"

#include "algos/common/blocked.h"
#include "algos/cost/profile.h"

enum {
    MOST_CHANNELS = 4096,
};

double fip_ratio(const struct problem *p, const struct conv_args *a)
{
    const double ratio = device_traits(p->device).separate_adders ? FIP_BESIDE_RATIO : FIP_SHARED_RATIO;
    return ratio * profile_factor(p->device, PROFILE_fip_small, conv_macs(a));
}

bool fip_pays(const struct problem *p, const struct conv_args *a)
{
    return fip_ratio(p, a) < FIP_WORTH_RATIO;
}

static size_t tile_bytes(const struct problem *p, const struct fip_cut *c)
{
    return sizeof(float) * (size_t)p->block * (c->c_blocks * (size_t)c->t + 1);
}

static size_t filter_bytes(const struct problem *p, const struct fip_cut *c)
{
    const size_t block = (size_t)p->block;
    return sizeof(float) * c->k_blocks * (2 + c->c_blocks * block) * (size_t)c->kv * block;
}

/* As few groups as keep their tiles; where there are few pixels, one for each core. */
static size_t groups_of(const struct problem *p, const struct fip_cut *c)
{
    const size_t most = c->held / tile_bytes(p, c);
    if (most == 0 || c->c_blocks * (size_t)p->block > MOST_CHANNELS)
        return 0;
    return c->by_filters ? device_units(p->device) : blocked_even_groups(p, c->all, c->k_blocks, most);
}

struct fip_cut fip_cut_of(const struct problem *p, const struct conv_args *a)
{
    const size_t block = (size_t)p->block, local = (size_t)p->device->local_mem_bytes;
    struct fip_cut c = {.t = p->block == 16 ? 7 : 4, .kv = 2};
    c.c_blocks = ceil_div((size_t)a->c, block);
    c.k_blocks = ceil_div((size_t)a->k, (size_t)c.kv * block);
    c.across = ceil_div((size_t)a->out[2], (size_t)c.t);
    c.tiles = c.across * (size_t)a->out[1];
    c.all = c.tiles * (size_t)a->n;
    const size_t units = device_units(p->device);
    const size_t wanted = filter_bytes(p, &c) <= FIP_NEAR_FILTERS_BYTES ? FIP_NEAR_BYTES : FIP_HELD_BYTES;
    c.held = local < wanted ? local : wanted;
    c.by_filters = c.all * (size_t)c.t < FIP_FEWEST_PIXELS * units &&
                   c.k_blocks >= FIP_FEWEST_BLOCKS * units && c.all * tile_bytes(p, &c) <= c.held;
    c.groups = groups_of(p, &c);
    return c;
}

struct fip_shape fip_shape_of(const struct problem *p, const struct conv_args *a, const struct fip_cut *c)
{
    return (struct fip_shape){
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .c_blocks = (i32)c->c_blocks,
        .k = a->k,
        .k_blocks = (i32)c->k_blocks,
        .width = a->out[2],
        .across = (i32)c->across,
        .pixels = a->out[1] * a->out[2],
        .tiles = (i32)c->tiles,
        .all = (i32)c->all,
        .groups = (i32)c->groups,
        .by_filters = c->by_filters,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

static struct conv_fip_args args_of(const struct problem *p, const struct conv_args *a,
                                    const struct fip_cut *c)
{
    return (struct conv_fip_args){
        .shape = fip_shape_of(p, a, c),
        .src_n = a->src_n,
        .w_k = a->w_k,
        .in = {a->in[1], a->in[2]},
        .stride = {a->stride[1], a->stride[2]},
        .c = a->c,
    };
}

size_t fip_filter_workspace(const struct problem *p, const struct conv_args *a, const struct fip_cut *c)
{
    return scaled_filter_workspace(p, a, filter_bytes(p, c));
}

struct scaled_filters emit_fip_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                                       const struct fip_cut *c)
{
    const struct conv_fip_args args = args_of(p, a, c);
    const struct scaled_packing packing = {
        .file = "conv_fip",
        .args = &args,
        .arg_bytes = sizeof args,
        .kv = c->kv,
        .groups = c->k_blocks,
        .bytes = filter_bytes(p, c),
    };
    return emit_scaled_filters(e, p, a, &packing);
}

void fip_define(struct step *s, const struct problem *p, const struct fip_cut *c)
{
    step_define(s, "V", p->block);
    step_define(s, "T", c->t);
    step_define(s, "KV", c->kv);
    step_define_at_least(s, "FIP_HELD", (int)(c->held / sizeof(float)));
}

/* Rows are one when none has pixels between that y leaves out. */
static struct conv_args rows_of(const struct problem *p)
{
    struct conv_args a = conv_args_of_slices(p);
    if (a.stride[1] == 1 && a.stride[2] == 1) {
        a.in[2] = a.out[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = 1;
    }
    return a;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args whole = conv_args_of_slices(p), a = rows_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, !conv_is_volume(&whole) && conv_reads_inside(&whole) && a.groups == 1,
            "the fast inner product is for one group of 1x1 filters without padding");
    const struct fip_cut c = fip_cut_of(p, &a);
    REQUIRE(why, c.groups > 0, FIP_TOO_LARGE);
    DECIDE(p, c);
    PREFER(why, p->in[1].constant, "scaling filters in every run takes more than the products save");
    PREFER(why, fip_pays(p, &whole), NO_ADDERS);
    PREFER(why, a.c >= p->block, FEW_CHANNELS);
    PREFER(why, a.k >= FIP_FEWEST_FILTERS, FEW_FILTERS);
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of_slices(p);
    return BLOCKED_EFFORT_PERCENT * fip_ratio(p, &a);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    return fip_filter_workspace(p, &a, &c);
}

struct step *emit_fip_products(struct emit *e, const struct problem *p, const struct conv_args *a,
                               const struct fip_cut *c, int64_t x_row, int64_t y_row)
{
    struct conv_fip_args args = args_of(p, a, c);
    args.row = x_row;
    args.shape.row = y_row;
    const struct scaled_filters filters = emit_fip_filters(e, p, a, c);
    struct step *s = emit_step(e, "conv_fip", "main", c->groups, 1);
    fip_define(s, p, c);
    step_define(s, "ROWS", x_row > 0);
    step_read(s, p->in[0].view);
    step_read(s, filters.gains);
    step_read(s, filters.packed);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    return s;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    conv_cost(emit_fip_products(e, p, &a, &c, 0, 0), p);
}

const struct algo_def algo_conv_fip = {
    .name = "fip",
    .doc = "1x1 by the fast inner product, over channel blocks",
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
