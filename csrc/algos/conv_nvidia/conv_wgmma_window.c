/* conv_wgmma_window: 3x3 convolutions of few filters on Hopper's tensor cores, whose taps share what lies in local memory; see
 * kernels/conv_nvidia/conv_wgmma_window.cl. */
#include <stdio.h>

#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    GROUP = 384,
    MAX_WIDTH = WINDOW_HALO / 2 - 2,
    MAX_POSITIONS = 1 << 30,
};

/* What a group computes, and in ns, measured on an H200 with three products: what a chunk of channels costs a multiprocessor
 * that has enough groups (`busy`), or a single one (`alone`); `resident` groups fit one; `start` is what a group costs beside. */
struct tile {
    short filters, positions, resident;
    float busy, alone, start;
};
static const struct tile tiles[] = {
    {32, 128, 2, 1750.0f, 2300.0f, 500.0f},
    {32, 64, 2, 1000.0f, 1200.0f, 500.0f},
    {64, 128, 2, 2750.0f, 3300.0f, 500.0f},
    {64, 64, 2, 1700.0f, 1900.0f, 500.0f},
};

struct choice {
    const struct tile *tile;
    size_t groups;
    float time;
};

/* Pixels of all images and the zeros between them. */
static int64_t positions_of(const struct conv_args *a)
{
    return (int64_t)a->n * (a->in[1] + 1) * (a->in[2] + 1);
}

static struct choice choose(const struct problem *p, const struct conv_args *a, enum mma_products products)
{
    struct choice best = {NULL, 0, 0.0f};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct tile *t = &tiles[i];
        const size_t groups =
            (size_t)conv_blocks(a, t->filters) * ceil_div((size_t)positions_of(a), (size_t)t->positions);
        const size_t each = ceil_div(groups, p->device->compute_units);
        const float busy = (float)each * t->busy,
                    alone = (float)ceil_div(each, (size_t)t->resident) * t->alone;
        const float products_of = products == MMA_FLOAT32 ? 1.0f : WGMMA_WINDOW_ONE_PRODUCT_RATIO;
        const float time = MMA_START_NS + (float)each * t->start +
                           (float)(a->c / WINDOW_CHANNELS) * products_of * (busy > alone ? busy : alone);
        if (best.tile == NULL || time < best.time)
            best = (struct choice){t, groups, time};
    }
    return best;
}

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to mma, wgmma");
    for (int d = 1; d < 3; d++)
        REQUIRE(why,
                a.ker[d] == 3 && a.stride[d] == 1 && a.dil[d] == 1 && a.pad[d] == 1 && a.out[d] == a.in[d],
                "windows of 3x3 at stride 1 and dilation 1, padded by one all around, are needed");
    REQUIRE(why, a.groups == 1 && a.c % WINDOW_CHANNELS == 0,
            "one group of channels that are a multiple of 16 is needed");
    REQUIRE(why, a.in[2] <= MAX_WIDTH && positions_of(&a) <= MAX_POSITIONS,
            "rows of at most 58 pixels, and 2^30 pixels in all, are needed");
    const struct choice c = choose(p, &a, products);
    DECIDE(p, c);
    PREFER(why, a.k >= WGMMA_WINDOW_LEAST_FILTERS && a.k <= WGMMA_WINDOW_MOST_FILTERS,
           "24 to 64 filters leave little of a block empty");
    const enum mma_products others = products == MMA_FLOAT32 ? products : mma_cheapest(p);
    PREFER(why, c.time < mma_shortest(p, &a, others), "the tiles of mma and wgmma are expected to be faster");
    return true;
}

static size_t packed_bytes(const struct conv_args *a, const struct tile *t, enum mma_products products)
{
    const size_t parts = products == MMA_FLOAT32 ? 2 : 1;
    return sizeof(float) * parts * 9 * (size_t)a->c * (size_t)(conv_blocks(a, t->filters) * t->filters);
}

static size_t bytes_of(const struct problem *p, struct mma_form form)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    return p->in[1].constant ? 0 : packed_bytes(&a, c.tile, form.products);
}

static int emit_pack(struct emit *e, const struct problem *p, const struct conv_args *a, const struct tile *t,
                     enum mma_products products)
{
    const struct conv_window_pack_args args = {.w_k = a->w_k, .k = a->k, .c = a->c};
    const size_t bytes = packed_bytes(a, t, products);
    const size_t values = bytes / sizeof(float) / (products == MMA_FLOAT32 ? 2 : 1);
    char name[96];
    snprintf(name, sizeof name, "conv_wgmma_window_pack k%d c%d b%d p%d", a->k, a->c, t->filters,
             (int)products);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "conv_wgmma_window_pack", "main",
                                 ceil_div(values, GROUP_SIZE), GROUP_SIZE, &setup);
    if (setup) {
        step_define(setup, "BM", t->filters);
        step_define(setup, "PRODUCTS", (int)products);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

static void emit_form(const struct problem *p, struct emit *e, struct mma_form form)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    const struct conv_window_args args = {
        .conv = a, .positions = (int32_t)positions_of(&a), .chunks = a.c / WINDOW_CHANNELS};
    const int packed = emit_pack(e, p, &a, c.tile, form.products);
    struct step *s = emit_step(e, "conv_wgmma_window", "main", c.groups, GROUP);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "PRODUCTS", (int)form.products);
    conv_step(s, p, packed, &args, sizeof args);
}

static bool may_float32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_FLOAT32);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_TF32);
}

MMA_FORM(float32, {MMA_HOPPER, MMA_FLOAT32, 0})
MMA_FORM(tf32, {MMA_HOPPER, MMA_TF32, 0})

const struct algo_def algo_conv_wgmma_window = {
    .name = "wgmma_window",
    .doc =
        "3x3 with few filters on Hopper's tensor cores, windows in local memory, three tf32 products for one "
        "of float32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = may_float32,
    .workspace = bytes_float32,
    .emit = emit_float32,
};

const struct algo_def algo_conv_wgmma_window_tf32 = {
    .name = "wgmma_window_tf32",
    .doc = "3x3 with few filters on Hopper's tensor cores, windows in local memory, operands rounded to tf32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = may_tf32,
    .workspace = bytes_tf32,
    .emit = emit_tf32,
};
