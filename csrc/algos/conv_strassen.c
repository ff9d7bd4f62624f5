/* conv_strassen: 1x1 convolutions by Strassen's seven products, for CPU devices; see kernels/conv_strassen.cl. */
#include "algos/conv_strassen.h"

#include <stdio.h>

#include "algos/blocked.h"

enum {
    PRODUCTS = 7,
    SLICE_BYTES = 6 * 1024 * 1024, /* right factors between two steps: they stay in the shared cache */
    MOST_PAIRS = 8,                /* of a work-item: more would read the left factors again anyway */
    ITEMS_PER_UNIT = 4,            /* few: each reads a block's left factors */
};

/* Times in multiply-adds at the peak, measured: the sums that a product adds to, for each of its own; making the right factors, for
 * each of theirs; a step more, and kernels to build. */
#define SUM_COST 12.0
#define SPREAD_COST 11.0
#define STEP_COST 2500000.0
#define WORTH 0.972 /* of the direct kernel's time */

struct strassen_cut strassen_cut_of(const struct problem *p, const struct conv_args *a)
{
    const size_t block = (size_t)p->block, pixels = (size_t)a->in[1] * (size_t)a->in[2];
    struct strassen_cut c = {.t = block == 16 ? 14 : 6, .kv = 2};
    c.c_blocks = (size_t)a->c / (2 * block);
    c.k_blocks = (size_t)a->k / (2 * (size_t)c.kv * block);
    c.pairs = ceil_div(ceil_div(pixels, (size_t)c.t), 2);
    c.all = (size_t)a->n * c.pairs;
    c.pair_bytes = sizeof(float) * PRODUCTS * c.c_blocks * block * (size_t)c.t;
    const size_t slices = ceil_div(c.all * c.pair_bytes, SLICE_BYTES);
    c.slice = ceil_div(c.all, slices < c.all ? slices : c.all);
    const size_t wanted = ceil_div(ITEMS_PER_UNIT * device_units(p->device), c.k_blocks);
    const size_t least = ceil_div(c.slice, MOST_PAIRS);
    c.per_item = ceil_div(c.slice, wanted > least ? wanted : least); /* evenly */
    return c;
}

/* Of the right factors of a step; see right_step in the kernel. */
static size_t factor_bytes(const struct problem *p, const struct strassen_cut *c)
{
    return c->slice * c->pair_bytes + sizeof(float) * PRODUCTS * 4 * (size_t)p->block;
}

static size_t filter_bytes(const struct problem *p, const struct strassen_cut *c)
{
    const size_t block = (size_t)p->block;
    return sizeof(float) * PRODUCTS * (c->c_blocks * block) * (c->k_blocks * (size_t)c->kv * block);
}

double strassen_cost(const struct strassen_cut *c, const struct conv_args *a)
{
    const double tiles = PRODUCTS * (double)c->all * c->t, k = a->k / 2.0, channels = a->c / 2.0;
    return tiles * (k * channels / 0.93 + k * SUM_COST + channels * SPREAD_COST);
}

bool strassen_halves(const struct problem *p, const struct conv_args *a)
{
    return a->c % (2 * p->block) == 0 && a->k % (4 * p->block) == 0;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, conv_is_2d(p) && conv_is_pointwise(&a) && a.groups == 1,
            "Strassen's products are for one group of 1x1 filters at stride 1");
    REQUIRE(why, strassen_halves(p, &a), NO_HALVES);
    const struct strassen_cut c = strassen_cut_of(p, &a);
    PREFER(why,
           c.slice == c.all && strassen_cost(&c, &a) + STEP_COST * (double)device_units(p->device) <
                                   WORTH * blocked_direct_cost(&a),
           "sums cost as much as an eighth of the products, or would leave the caches");
    return true;
}

size_t strassen_workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    const struct strassen_cut c = strassen_cut_of(p, &a);
    return factor_bytes(p, &c) + (p->in[1].constant ? 0 : filter_bytes(p, &c));
}

static int emit_filters(struct emit *e, const struct problem *p, const struct strassen_cut *c,
                        const struct conv_strassen_args *args)
{
    char name[96];
    snprintf(name, sizeof name, "conv_strassen k%d c%d b%d x %d", (int)c->k_blocks, (int)c->c_blocks, c->kv,
             p->block);
    struct step *setup;
    const size_t bytes = filter_bytes(p, c);
    const int slot =
        emit_packed(e, &p->in[1], name, bytes, "conv_strassen", "pack", c->k_blocks * PRODUCTS, 1, &setup);
    if (setup) {
        step_define(setup, "V", p->block);
        step_define(setup, "KV", c->kv);
        step_read(setup, p->in[1].slot);
        step_write(setup, slot);
        step_args(setup, args, sizeof *args);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)bytes);
    }
    return slot;
}

static void emit_spread(struct emit *e, const struct strassen_cut *c, int factors,
                        const struct conv_strassen_args *args, const void *with)
{
    const struct problem *p = with;
    const size_t count = (size_t)args->count;
    struct step *s = emit_step(e, "conv_strassen", "spread", count * c->c_blocks, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", c->t);
    step_read(s, p->in[0].slot);
    step_write(s, factors);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0,
              4.0 * (double)shape_count(&p->in[0].shape) * (double)count / (double)c->all +
                  (double)(count * c->pair_bytes));
}

static void emit_products(struct emit *e, const struct problem *p, const struct strassen_cut *c, int filters,
                          int factors, const struct conv_strassen_args *args)
{
    const size_t count = (size_t)args->count;
    const double share = (double)count / (double)c->all;
    struct step *s = emit_step(e, "conv_strassen", "main", ceil_div(count, c->per_item) * c->k_blocks, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", c->t);
    step_define(s, "KV", c->kv);
    step_define(s, "PAIRS", MOST_PAIRS);
    step_read(s, factors);
    step_read(s, filters);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, args, sizeof *args);
    conv_cost(s, p);
    step_cost(s, share * s->macs, share * s->bytes);
}

void emit_strassen(struct emit *e, const struct problem *p, strassen_spread *spread, const void *with)
{
    const struct conv_args a = conv_args_of(p);
    const struct strassen_cut c = strassen_cut_of(p, &a);
    struct conv_strassen_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .w_k = a.w_k,
        .c_blocks = (i32)c.c_blocks,
        .k_blocks = (i32)c.k_blocks,
        .pixels = a.in[1] * a.in[2],
        .pairs = (i32)c.pairs,
        .per_item = (i32)c.per_item,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    const int filters = emit_filters(e, p, &c, &args);
    const int factors = emit_workspace(e, factor_bytes(p, &c));
    for (size_t first = 0; first < c.all; first += c.slice) {
        args.first = (i32)first;
        args.count = (i32)(c.all - first < c.slice ? c.all - first : c.slice);
        spread(e, &c, factors, &args, with);
        emit_products(e, p, &c, filters, factors, &args);
    }
}

static void emit(const struct problem *p, struct emit *e)
{
    emit_strassen(e, p, emit_spread, p);
}

const struct algo_def algo_conv_strassen = {
    .name = "strassen",
    .doc = "1x1 by seven products of halves instead of eight, over channel blocks (CPU devices)",
    .error = ERROR_HIGHEST,
    .deterministic = true,
    .src = FORM_BLOCKED,
    .dst = FORM_BLOCKED,
    .applicable = applicable,
    .workspace = strassen_workspace,
    .emit = emit,
};
