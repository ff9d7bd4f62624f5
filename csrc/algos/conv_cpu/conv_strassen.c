/* conv_strassen: 1x1 convolutions by Strassen's seven products, for CPU devices; see kernels/conv_cpu/conv_strassen.cl. */
#include "algos/conv_cpu/conv_strassen.h"

#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"


enum {
    PRODUCTS = 7,
    HALF_PRODUCTS = 4,    /* of a pair without a second tile */
    MOST_PAIRS = 8,       /* of a work-item: more would read the left factors again anyway */
    ITEMS_PER_UNIT = 4,   /* few: each reads a block's left factors */
    SPREADS_PER_UNIT = 2, /* parts of pairs: each measures whole pixels */
};

static struct strassen_tile tile_of(const struct problem *p)
{
    return p->block == 16 ? (struct strassen_tile){14, 2} : (struct strassen_tile){6, 2};
}

struct strassen_cut strassen_cut_of(const struct problem *p, const struct conv_args *a,
                                    struct strassen_tile tile)
{
    const size_t block = (size_t)p->block, pixels = (size_t)a->in[1] * (size_t)a->in[2];
    const size_t tiles = ceil_div(pixels, (size_t)tile.t);
    return (struct strassen_cut){
        .tile = tile,
        .c_blocks = (size_t)a->c / (2 * block),
        .k_blocks = (size_t)a->k / (2 * (size_t)tile.kv * block),
        .pairs = ceil_div(tiles, 2),
        .all = (size_t)a->n * ceil_div(tiles, 2),
        .products = (size_t)a->n * (PRODUCTS * (tiles / 2) + HALF_PRODUCTS * (tiles % 2)),
    };
}

struct strassen_shape strassen_shape_of(const struct problem *p, const struct conv_args *a,
                                        const struct strassen_cut *c)
{
    return (struct strassen_shape){
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .c_blocks = (i32)c->c_blocks,
        .k_blocks = (i32)c->k_blocks,
        .pixels = a->in[1] * a->in[2],
        .pairs = (i32)c->pairs,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

double strassen_factors(const struct strassen_cut *c, const struct conv_args *a, size_t pairs)
{
    return (double)(PRODUCTS * pairs) * c->tile.t * a->c / 2.0;
}

/* See right_step and right_backs in the kernel. */
size_t strassen_factor_bytes(const struct problem *p, const struct strassen_cut *c, size_t pairs)
{
    const size_t block = (size_t)p->block, pixels = pairs * (size_t)c->tile.t;
    return sizeof(float) * (PRODUCTS * (pixels * c->c_blocks * block + 4 * block) + 2 * pixels);
}

static size_t filter_bytes(const struct problem *p, const struct strassen_cut *c)
{
    const size_t block = (size_t)p->block, filters = c->k_blocks * (size_t)c->tile.kv * block;
    return sizeof(float) * filters * (2 + PRODUCTS * c->c_blocks * block);
}

double strassen_cost(const struct strassen_cut *c, const struct conv_args *a, double sum)
{
    const double k = a->k / 2.0, channels = a->c / 2.0;
    return (double)c->products * c->tile.t * (k * channels / DIRECT_PEAK_RATIO + k * sum);
}

bool strassen_halves(const struct problem *p, const struct conv_args *a, struct strassen_tile tile)
{
    return a->c % (2 * p->block) == 0 && a->k % (2 * tile.kv * p->block) == 0;
}

struct strassen_scheme strassen_scheme_of(const struct problem *p, const struct conv_args *a)
{
    struct strassen_scheme s = {.cut = strassen_cut_of(p, a, tile_of(p))};
    const size_t all = s.cut.all,
                 slices = ceil_div(strassen_factor_bytes(p, &s.cut, all), STRASSEN_SLICE_BYTES);
    s.slice = ceil_div(all, slices < all ? slices : all);
    return s;
}

static double cost_of(const struct problem *p, const struct conv_args *a, const struct strassen_cut *c)
{
    const double all = strassen_cost(c, a, STRASSEN_SUM_MACS) +
                       strassen_factors(c, a, c->all) * STRASSEN_SPREAD_MACS +
                       STRASSEN_STEP_MACS * (double)device_units(p->device);
    return all * profile_factor(p->device, PROFILE_strassen_small, conv_macs(a));
}

bool strassen_can(const struct problem *p, const struct conv_args *a)
{
    return strassen_halves(p, a, tile_of(p));
}

static i32 parts_of(const struct problem *p, const struct strassen_cut *c, size_t pairs)
{
    const size_t parts = ceil_div(SPREADS_PER_UNIT * device_units(p->device), pairs);
    return (i32)(parts < c->c_blocks ? parts : c->c_blocks);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of_slices(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, !conv_is_volume(&a) && conv_is_pointwise(&a) && a.groups == 1,
            "Strassen's products are for one group of 1x1 filters at stride 1");
    REQUIRE(why, strassen_can(p, &a), NO_HALVES);
    const struct strassen_scheme s = strassen_scheme_of(p, &a);
    DECIDE(p, s);
    PREFER(why, !p->fresh_filters, SUMS_OF_FILTERS);
    PREFER(why,
           s.slice == s.cut.all && cost_of(p, &a, &s.cut) < STRASSEN_WORTH_RATIO * blocked_direct_cost(&a),
           "sums cost as much as an eighth of the products, or would leave the caches");
    return true;
}

size_t strassen_filter_workspace(const struct problem *p, const struct conv_args *a,
                                 const struct strassen_cut *c)
{
    return scaled_filter_workspace(p, a, filter_bytes(p, c));
}

size_t strassen_workspace(const struct problem *p, const struct conv_args *a, const struct strassen_scheme *s)
{
    return strassen_factor_bytes(p, &s->cut, s->slice) + strassen_filter_workspace(p, a, &s->cut);
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of_slices(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    return blocked_effort(&a, cost_of(p, &a, &s.cut));
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of_slices(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    return strassen_workspace(p, &a, &s);
}

struct scaled_filters emit_strassen_filters(struct emit *e, const struct problem *p,
                                            const struct conv_args *a, const struct strassen_cut *c)
{
    const struct conv_strassen_args args = {.shape = strassen_shape_of(p, a, c), .w_k = a->w_k};
    const struct scaled_packing packing = {
        .file = "conv_strassen",
        .args = &args,
        .arg_bytes = sizeof args,
        .kv = c->tile.kv,
        .groups = c->k_blocks,
        .bytes = filter_bytes(p, c),
    };
    return emit_scaled_filters(e, p, a, &packing);
}

static void emit_spread(struct emit *e, const struct problem *p, const struct strassen_cut *c, int gains,
                        int factors, const struct conv_strassen_args *args)
{
    const size_t count = (size_t)args->count;
    struct step *s = emit_step(e, "conv_strassen", "spread", count * (size_t)args->parts, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", c->tile.t);
    step_define(s, "ROWS", args->row > 0);
    step_read(s, p->in[0].view);
    step_read(s, gains);
    step_write(s, factors);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0,
              4.0 * (double)shape_count(&p->in[0].shape) * (double)count / (double)c->all +
                  (double)strassen_factor_bytes(p, c, count));
}

void strassen_define(struct step *s, const struct problem *p, const struct strassen_cut *c, int pairs)
{
    step_define(s, "V", p->block);
    step_define(s, "T", c->tile.t);
    step_define(s, "KV", c->tile.kv);
    step_define(s, "PAIRS", pairs);
}

static void emit_products(struct emit *e, const struct problem *p, const struct conv_args *a,
                          const struct strassen_cut *c, int filters, int factors,
                          const struct conv_strassen_args *args)
{
    const size_t count = (size_t)args->count;
    const double share = (double)count / (double)c->all;
    struct step *s =
        emit_step(e, "conv_strassen", "main", ceil_div(count, (size_t)args->per_item) * c->k_blocks, 1);
    strassen_define(s, p, c, MOST_PAIRS);
    step_define(s, "ROWS", args->row > 0);
    step_read(s, factors);
    step_read(s, filters);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, args, sizeof *args);
    conv_cost(s, p); /* of linear layers the bytes alone */
    step_cost(s, share * conv_macs(a), share * s->bytes);
}

void emit_strassen_steps(struct emit *e, const struct problem *p, const struct conv_args *a,
                         const struct strassen_scheme *s, int64_t x_row, int64_t y_row)
{
    const struct strassen_cut c = s->cut;
    const size_t slice = s->slice, wanted = ceil_div(ITEMS_PER_UNIT * device_units(p->device), c.k_blocks);
    const size_t least = ceil_div(slice, MOST_PAIRS);
    struct conv_strassen_args args = {
        .shape = strassen_shape_of(p, a, &c),
        .src_n = a->src_n,
        .row = x_row,
        .w_k = a->w_k,
        .per_item = (i32)ceil_div(slice, wanted > least ? wanted : least), /* evenly */
        .parts = parts_of(p, &c, slice),
    };
    args.shape.row = y_row;
    const struct scaled_filters filters = emit_strassen_filters(e, p, a, &c);
    const int factors = emit_workspace(e, strassen_factor_bytes(p, &c, slice));
    for (size_t first = 0; first < c.all; first += slice) {
        args.first = (i32)first;
        args.count = (i32)(c.all - first < slice ? c.all - first : slice);
        emit_spread(e, p, &c, filters.gains, factors, &args);
        emit_products(e, p, a, &c, filters.packed, factors, &args);
    }
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of_slices(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    emit_strassen_steps(e, p, &a, &s, 0, 0);
}

const struct algo_def algo_conv_strassen = {
    .name = "strassen",
    .doc = "1x1 by seven products of halves instead of eight, over channel blocks",
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
