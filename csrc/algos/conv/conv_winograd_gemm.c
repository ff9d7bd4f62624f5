/* conv_winograd_gemm: F(4x4, 3x3) on row-major maps for GPUs: transforms of their own (kernels/conv/conv_winograd_gemm.cl) around
 * a 1x1 convolution with 36 times the groups, on NVIDIA's tensor cores (winograd_mma) or anywhere (winograd_gemm). */
#include "algos/conv/conv_winograd_gemm.h"

#include "algos/conv/conv_implicit.h"
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/cost/cost.h"
#include "conv/conv_tile_args.h"

enum {
    M = 4,
    POINTS = 36,
    STEP_TILES = 128, /* tiles a step come in multiples of what the products take at once */
};

/* How a layer is cut. */
struct cut {
    struct conv_args conv;
    int high, wide; /* tiles of an image */
    size_t tiles;   /* of the batch */
    size_t slice;   /* tiles a step */
};

/* The products of a step: on tensor cores, or anywhere. */
union products {
    struct mma_choice mma;
    struct implicit_choice implicit;
};
struct scheme {
    size_t slice;
    union products each, last; /* of a whole slice, and of the last one */
};

static size_t tile_bytes(const struct conv_args *a)
{
    return sizeof(float) * POINTS * (size_t)(a->c + a->k);
}

static struct cut cut_at(const struct problem *p, size_t slice)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c = {.conv = a,
                    .high = (int)ceil_div((size_t)a.out[1], M),
                    .wide = (int)ceil_div((size_t)a.out[2], M),
                    .slice = slice};
    c.tiles = (size_t)a.n * (size_t)c.high * (size_t)c.wide;
    return c;
}

static struct cut cut_of(const struct problem *p)
{
    struct cut c = cut_at(p, 0);
    const size_t fit = p->workspace_limit / tile_bytes(&c.conv), step = fit >= STEP_TILES ? STEP_TILES : 4;
    const size_t most = fit >= step ? fit / step * step : step;
    c.slice = round_up(ceil_div(c.tiles, ceil_div(c.tiles, most)), step);
    return c;
}

/* The products of `tiles` tiles as a convolution: pixels are tiles, every point has the layer's groups. */
static struct conv_args products_of(const struct cut *c, size_t tiles)
{
    const int pitch = (int)round_up(tiles, 4);
    return (struct conv_args){
        .src_n = (int64_t)POINTS * c->conv.c * pitch,
        .dst_n = (int64_t)POINTS * c->conv.k * pitch,
        .w_k = c->conv.w_k,
        .n = 1,
        .c = POINTS * c->conv.c,
        .k = POINTS * c->conv.k,
        .groups = POINTS * c->conv.groups,
        .in = {1, 1, pitch},
        .out = {1, 1, pitch},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
    };
}

static size_t slices_of(const struct cut *c)
{
    return ceil_div(c->tiles, c->slice);
}

/* Tiles of the last step, which has what the others left. */
static size_t last_of(const struct cut *c)
{
    return c->tiles - (slices_of(c) - 1) * c->slice;
}

/* What the products see of the layer: their memory, and no epilogue. */
static struct problem products_problem(const struct problem *p, const struct cut *c, struct operand in[3],
                                       struct operand *out)
{
    struct problem q = *p;
    const size_t taken = tile_bytes(&c->conv) * c->slice;
    in[0] = (struct operand){.view = VIEW_NONE, .present = true};
    in[1] = p->in[1];
    in[2] = (struct operand){.view = VIEW_NONE};
    *out = (struct operand){.view = VIEW_NONE, .present = true};
    q.in = in;
    q.out = out;
    q.add.present = false;
    q.act = ACT_none;
    q.workspace_limit = p->workspace_limit > taken ? p->workspace_limit - taken : 0;
    q.spare = p->spare > taken ? p->spare - taken : 0;
    return q;
}

static union products choose_products(const struct problem *p, const struct cut *c, size_t tiles,
                                      bool tensor_cores)
{
    struct operand in[3], out;
    const struct problem q = products_problem(p, c, in, &out);
    const struct conv_args products = products_of(c, tiles);
    if (tensor_cores)
        return (union products){.mma = mma_choose_kernel(&q, &products, MMA_FLOAT32, POINTS)};
    return (union products){.implicit = implicit_choose(&q, &products, POINTS)};
}

static struct scheme scheme_of(const struct problem *p, const struct cut *c, bool tensor_cores)
{
    return (struct scheme){
        .slice = c->slice,
        .each = choose_products(p, c, c->slice, tensor_cores),
        .last = choose_products(p, c, last_of(c), tensor_cores),
    };
}

/* Expected time on tensor cores in ns: of the layer by its definition, in as few products as the precision allows, and of
 * `tiles` tiles, which always take three (the transforms would multiply the error of one). */
static float direct_time(const struct problem *p, const struct conv_args *a)
{
    const enum mma_products products = mma_cheapest(p);
    const struct mma_form ampere = {MMA_AMPERE, products, 0}, hopper = {MMA_HOPPER, products, 0};
    const float one = mma_expected(p, a, ampere);
    const float other =
        mma_on_device(p, MMA_HOPPER) && !mma_few_channels(a) ? mma_expected(p, a, hopper) : one;
    return one < other ? one : other;
}

static float slice_time(const struct cut *c, size_t tiles, const struct mma_choice *products)
{
    const float maps = (float)(sizeof(float) * M * M * tiles * (size_t)(c->conv.c + c->conv.k));
    return products->time + 2.0f * WINOGRAD_MMA_LAUNCH_NS +
           (maps + (float)(tile_bytes(&c->conv) * tiles)) / WINOGRAD_MMA_BYTES_PER_NS;
}

static float winograd_time(const struct problem *p, const struct cut *c, const struct scheme *s)
{
    const size_t more =
        sizeof(float) * (POINTS - 9) * (size_t)c->conv.k * (size_t)(c->conv.c / c->conv.groups);
    return (float)(slices_of(c) - 1) * slice_time(c, c->slice, &s->each.mma) +
           slice_time(c, last_of(c), &s->last.mma) + (float)more / WINOGRAD_MMA_FILTER_BYTES_PER_NS +
           mma_memory_price(p, tile_bytes(&c->conv) * c->slice, more);
}

static bool fits(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.ker[1] == 3 && a.ker[2] == 3, "minimal filtering is for 3x3 filters");
    REQUIRE(why, conv_is_dense(&a), "minimal filtering is for stride 1 and dilation 1");
    REQUIRE(why, a.c / a.groups <= MOST_OF_F4, TOO_MANY_CHANNELS);
    return true;
}

static bool may_gemm(const struct problem *p, struct why *why)
{
    if (!fits(p, why))
        return false;
    const struct cut c = cut_of(p);
    const struct scheme s = scheme_of(p, &c, false);
    DECIDE(p, s);
    const int least = c.conv.c < c.conv.k ? c.conv.c : c.conv.k;
    PREFER(why, least / c.conv.groups >= WINOGRAD_GEMM_LEAST_CHANNELS && c.tiles >= WINOGRAD_GEMM_LEAST_TILES,
           "too few tiles, channels or filters to pay for the transforms");
    return true;
}

static bool may_mma(const struct problem *p, struct why *why)
{
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    if (!fits(p, why))
        return false;
    const struct cut c = cut_of(p);
    const struct scheme s = scheme_of(p, &c, true);
    DECIDE(p, s);
    PREFER(why, winograd_time(p, &c, &s) < direct_time(p, &c.conv),
           "the products by the definition are expected to be faster");
    return true;
}

static size_t products_bytes(const struct problem *p, const struct cut *c, size_t tiles,
                             const union products *chosen, bool tensor_cores)
{
    struct operand in[3], out;
    const struct problem q = products_problem(p, c, in, &out);
    const struct conv_args products = products_of(c, tiles);
    return tensor_cores ? mma_workspace(&q, &products, &chosen->mma)
                        : implicit_workspace(&q, &products, POINTS, &chosen->implicit);
}

bool winograd_gemm_applicable(const struct problem *p, struct why *why, bool tensor_cores)
{
    return tensor_cores ? may_mma(p, why) : may_gemm(p, why);
}

size_t winograd_gemm_workspace(const struct problem *p, bool tensor_cores)
{
    struct scheme s;
    DECIDED(p, s);
    const struct cut c = cut_at(p, s.slice);
    const size_t one = products_bytes(p, &c, c.slice, &s.each, tensor_cores);
    const size_t other = products_bytes(p, &c, last_of(&c), &s.last, tensor_cores);
    return tile_bytes(&c.conv) * c.slice + (one > other ? one : other);
}

/* One of the transforms; `map`: bytes of an element of the map that it reads or writes. */
static struct step *emit_transform(struct emit *e, const struct problem *p,
                                   const struct conv_winograd_gemm_args *args, const char *entry,
                                   int channels, size_t map)
{
    const size_t items = (size_t)channels * (size_t)args->pitch, wg = any_group_size(p);
    struct step *s = emit_step(e, "conv_winograd_gemm", entry, ceil_div(items, wg), wg);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, (double)channels * args->tiles * (4.0 * POINTS + (double)map * M * M));
    return s;
}

/* Where results go, and what of them: those of windows of 2x2 where `pool` is POOL_MAX or POOL_MEAN. */
struct results {
    const struct operand *y;
    int pool;
};

static void emit_slice(struct emit *e, const struct problem *p, const struct cut *c, struct problem *q,
                       struct results to, struct conv_winograd_gemm_args *args, const union products *chosen,
                       bool tensor_cores)
{
    const struct conv_args products = products_of(c, (size_t)args->tiles);
    args->pitch = products.in[2];
    struct step *s = emit_transform(e, p, args, "in", c->conv.c, operand_elem(&p->in[0]));
    step_read_map(s, &p->in[0]);
    step_write(s, q->in[0].view);

    s = tensor_cores ? emit_mma(e, q, &products, &chosen->mma, NULL)
                     : emit_implicit(e, q, &products, POINTS, &chosen->implicit);
    const double share = (double)args->tiles / (double)c->tiles;
    conv_cost(s, p);
    step_cost(s, share * s->macs, (double)tile_bytes(&c->conv) * args->tiles);

    s = emit_transform(e, p, args, "out", c->conv.k, operand_elem(to.y) / (to.pool ? 4 : 1));
    if (to.pool) {
        step_define(s, "POOLED", 1);
        step_define(s, "AVG", to.pool == POOL_MEAN);
    }
    step_read(s, q->out[0].view);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, to.y);
}

void emit_winograd_gemm(const struct problem *p, struct emit *e, const struct operand *y, int pool,
                        bool tensor_cores)
{
    struct scheme s;
    DECIDED(p, s);
    const struct cut c = cut_at(p, s.slice);
    const struct conv_args *a = &c.conv;
    struct conv_winograd_gemm_args args = {
        .src_n = a->src_n,
        .dst_n = y->batch_stride,
        .add_n = a->add_n,
        .c = a->c,
        .k = a->k,
        .in = {a->in[1], a->in[2]},
        .out = {a->out[1], a->out[2]},
        .pad = {a->pad[1], a->pad[2]},
        .tiles_high = c.high,
        .tiles_wide = c.wide,
        .p0 = a->p0,
        .p1 = a->p1,
    };
    struct operand in[3], out;
    struct problem q = products_problem(p, &c, in, &out);
    const size_t row = sizeof(float) * POINTS * c.slice;
    in[0].view = emit_workspace(e, row * (size_t)a->c);
    out.view = emit_workspace(e, row * (size_t)a->k);
    for (size_t first = 0; first < c.tiles; first += c.slice) {
        args.first_tile = (i32)first;
        const bool last = c.tiles - first <= c.slice;
        args.tiles = (i32)(last ? c.tiles - first : c.slice);
        emit_slice(e, p, &c, &q, (struct results){y, pool}, &args, last ? &s.last : &s.each, tensor_cores);
    }
}

static size_t gemm_bytes(const struct problem *p)
{
    return winograd_gemm_workspace(p, false);
}

static size_t mma_bytes(const struct problem *p)
{
    return winograd_gemm_workspace(p, true);
}

static void emit_gemm_form(const struct problem *p, struct emit *e)
{
    emit_winograd_gemm(p, e, &p->out[0], 0, false);
}

static void emit_mma_form(const struct problem *p, struct emit *e)
{
    emit_winograd_gemm(p, e, &p->out[0], 0, true);
}

const struct algo_def algo_conv_winograd_gemm = {
    .name = "winograd_gemm",
    .doc = "Winograd's F(4x4, 3x3) around implicit GEMM's tiles",
    .devices = DEVICES_GPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = WINOGRAD_GEMM_EFFORT_PERCENT,
    .fp16 = FP16_CONV,
    .applicable = may_gemm,
    .workspace = gemm_bytes,
    .emit = emit_gemm_form,
};

const struct algo_def algo_conv_winograd_mma = {
    .name = "winograd_mma",
    .doc = "Winograd's F(4x4, 3x3) around products on NVIDIA tensor cores, three of tf32 for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = may_mma,
    .workspace = mma_bytes,
    .emit = emit_mma_form,
};
