/* conv_filter_grad_mma: the gradient of filters as an implicit matrix product on NVIDIA's tensor cores, either float32 as
 * sums of two tf32 values (mma) or operands rounded to tf32 (tf32); see kernels/filter_grad_nvidia/conv_filter_grad_mma.cl. */
#include "algos/common/rows.h"
#include "algos/filter_grad_nvidia/conv_filter_grad_mma.h"
#include "algos/cost/cost.h"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"

#define MAX_SPLIT_K 512 /* filters are few, and pixels many */

static int positions_of(const struct conv_args *a)
{
    return a->c / a->groups * conv_taps(a);
}

static size_t tile_count(const struct conv_args *a, const struct mma_tile_shape *t)
{
    return (size_t)conv_blocks(a, t->rows) * ceil_div((size_t)positions_of(a), (size_t)t->columns);
}

size_t filter_grad_parts_bytes(const struct conv_args *a, int split_k)
{
    return split_k == 1 ? 0 : sizeof(float) * (size_t)split_k * (size_t)a->k * (size_t)positions_of(a);
}

size_t filter_grad_groups(const struct conv_args *a, const struct filter_grad_choice *c)
{
    return tile_count(a, c->tile) * (size_t)c->split_k;
}

/* Parts are written, and read by a step of their own. */
static float join_time(const struct conv_args *a, int split_k)
{
    return split_k == 1
               ? 0.0f
               : MMA_SUM_LAUNCH_NS + 2.0f * (float)filter_grad_parts_bytes(a, split_k) / MMA_SUM_BYTES_PER_NS;
}

/* The best split for a tile. */
static struct filter_grad_choice choose_split(const struct problem *p, const struct conv_args *a,
                                              const struct mma_tile_shape *t, int chunks, size_t scratch)
{
    struct filter_grad_choice best = {NULL, 1, 0, 0.0f};
    for (int split_k = 1; split_k <= MAX_SPLIT_K; split_k++) {
        const int share = (int)ceil_div((size_t)chunks, (size_t)split_k);
        const size_t bytes = scratch + filter_grad_parts_bytes(a, split_k);
        if (split_k > 1 && (share * t->chunk < MMA_PART_LEAST_DEPTH || bytes > p->workspace_limit))
            break;
        if ((split_k - 1) * share >= chunks)
            continue; /* the last share would be empty */
        const float time = mma_tiles_time(p, t, MMA_FLOAT32, tile_count(a, t) * (size_t)split_k, share) +
                           join_time(a, split_k) + mma_memory_price(p, bytes, 0);
        if (best.tile == NULL || time < best.time)
            best = (struct filter_grad_choice){t, split_k, share, time};
    }
    return best;
}

struct filter_grad_choice filter_grad_choose(const struct problem *p, const struct conv_args *a,
                                             const struct mma_tile_shape *tiles, int count, size_t chunks,
                                             size_t scratch)
{
    struct filter_grad_choice best = choose_split(p, a, &tiles[0], (int)chunks, scratch);
    for (int i = 1; i < count; i++) {
        const struct filter_grad_choice other = choose_split(p, a, &tiles[i], (int)chunks, scratch);
        if (other.time < best.time)
            best = other;
    }
    return best;
}

struct filter_grad_choice filter_grad_choose_mma(const struct problem *p, const struct conv_args *a)
{
    struct filter_grad_choice best = {.tile = NULL};
    for (int i = 0; i < MMA_TILE_SHAPES; i++) {
        const struct mma_tile_shape *t = &mma_tile_shapes[i];
        const struct filter_grad_choice other =
            filter_grad_choose(p, a, t, 1, ceil_div(conv_pixels(a), (size_t)t->chunk), 0);
        if (best.tile == NULL || other.time < best.time)
            best = other;
    }
    return best;
}

struct filter_grad_mma_args filter_grad_mma_args(const struct conv_args *a,
                                                 const struct filter_grad_choice *c)
{
    const int64_t positions = positions_of(a);
    return (struct filter_grad_mma_args){
        .conv = *a,
        .apart = c->split_k > 1 ? positions : a->w_k,
        .part = c->split_k > 1 ? positions * a->k : 0,
        .share = c->share,
    };
}

bool filter_grad_fits(const struct conv_args *a)
{
    const double image = (double)a->c * a->in[1] * a->in[2];
    bool small = !conv_is_volume(a) && image < INT32_MAX;
    for (int d = 1; d < 3; d++)
        small &= a->in[d] + a->pad[d] < INT16_MAX && (a->ker[d] - 1) * a->dil[d] < INT16_MAX;
    return small;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, filter_grad_fits(&a), "windows with a depth, and very large maps, are left to others");
    const struct filter_grad_choice c = filter_grad_choose_mma(p, &a);
    DECIDE(p, c);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct filter_grad_choice c;
    DECIDED(p, c);
    return filter_grad_parts_bytes(&a, c.split_k);
}

static void emit(const struct problem *p, struct emit *e, enum mma_products products)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct filter_grad_choice c;
    DECIDED(p, c);
    const struct mma_tile_shape *t = c.tile;
    const int map = (int)conv_map(&a);
    const int parts = c.split_k > 1 ? emit_workspace(e, filter_grad_parts_bytes(&a, c.split_k)) : VIEW_NONE;
    struct filter_grad_mma_args args = filter_grad_mma_args(&a, &c);
    args.depth = (int64_t)conv_pixels(&a);
    args.map = map;
    args.plane = a.in[1] * a.in[2];
    args.step_n = t->chunk / map;
    args.step_p = t->chunk % map;
    struct step *s =
        emit_step(e, "conv_filter_grad_mma", "main", filter_grad_groups(&a, &c), (size_t)t->size);
    mma_tile_defines(s, t);
    step_define(s, "DY_WIDE", map % 4 == 0 && a.dst_n % 4 == 0);
    step_define(s, "X_WIDE", conv_is_pointwise(&a) && map % 4 == 0 && a.src_n % 4 == 0);
    step_define(s, "PRODUCTS", (int)products);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, c.split_k > 1 ? parts : p->out[0].view);
    step_args(s, &args, sizeof args);
    rows_cost(s, p, conv_macs(&a));
    if (c.split_k > 1)
        emit_filter_grad_sum(e, p, &a, c.split_k, parts);
}

static void emit_float32(const struct problem *p, struct emit *e)
{
    emit(p, e, MMA_FLOAT32);
}

static void emit_one(const struct problem *p, struct emit *e)
{
    emit(p, e, MMA_TF32);
}

const struct algo_def algo_conv_filter_grad_mma = {
    .name = "mma",
    .doc = "implicit GEMM on NVIDIA tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit_float32,
};

const struct algo_def algo_conv_filter_grad_tf32 = {
    .name = "tf32",
    .doc = "implicit GEMM on NVIDIA tensor cores, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit_one,
};
