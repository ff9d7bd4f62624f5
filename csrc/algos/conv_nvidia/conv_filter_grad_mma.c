/* conv_filter_grad_mma: the gradient of filters as an implicit matrix product on NVIDIA's tensor cores, either float32 as
 * sums of two tf32 values (mma) or operands rounded to tf32 (tf32); see kernels/conv_nvidia/conv_filter_grad_mma.cl. */
#include "algos/common/rows.h"
#include "algos/conv/conv_filter_grad.h"
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv_nvidia/mma_tiles.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

#define HOPPER_GROUP 384 /* two warpgroups that multiply, one that loads */
/* Tiles of Hopper's kernel; times as those of wgmma's in conv_mma_common.c. */
static const struct mma_tile_shape hopper_tiles[] = {
    {128, 128, HOPPER_GROUP, 1, 16, 1, 700.0f, 700.0f, 3300.0f},
    {64, 128, HOPPER_GROUP, 1, 16, 1, 560.0f, 560.0f, 2800.0f},
};
#define MAX_SPLIT_K 512 /* filters are few, and pixels many */
#define LEAST_FILTERS 8 /* of a group: half of a fragment */

struct choice {
    const struct mma_tile_shape *tile;
    int split_k, share; /* chunks of each group */
    float time;         /* that is expected, in ns */
};

static int positions_of(const struct conv_args *a)
{
    return a->c / a->groups * conv_taps(a);
}

static size_t tile_count(const struct conv_args *a, const struct mma_tile_shape *t)
{
    return (size_t)conv_blocks(a, t->rows) * ceil_div((size_t)positions_of(a), (size_t)t->columns);
}

static size_t parts_bytes(const struct conv_args *a, int split_k)
{
    return split_k == 1 ? 0 : sizeof(float) * (size_t)split_k * (size_t)a->k * (size_t)positions_of(a);
}

/* Parts are written, and read by a step of their own. */
static float join_time(const struct conv_args *a, int split_k)
{
    return split_k == 1 ? 0.0f
                        : MMA_SUM_LAUNCH_NS + 2.0f * (float)parts_bytes(a, split_k) / MMA_SUM_BYTES_PER_NS;
}

/* The best split for a tile. */
static struct choice choose_split(const struct problem *p, const struct conv_args *a,
                                  const struct mma_tile_shape *t)
{
    struct choice best = {NULL, 1, 0, 0.0f};
    const int chunks = (int)ceil_div(conv_pixels(a), (size_t)t->chunk);
    for (int split_k = 1; split_k <= MAX_SPLIT_K; split_k++) {
        const int share = (int)ceil_div((size_t)chunks, (size_t)split_k);
        const size_t bytes = parts_bytes(a, split_k);
        if (split_k > 1 && (share * t->chunk < MMA_PART_LEAST_DEPTH || bytes > p->workspace_limit))
            break;
        if ((split_k - 1) * share >= chunks)
            continue; /* the last share would be empty */
        const float time = mma_tiles_time(p, t, tile_count(a, t) * (size_t)split_k, share) +
                           join_time(a, split_k) + mma_memory_price(p, bytes, 0);
        if (best.tile == NULL || time < best.time)
            best = (struct choice){t, split_k, share, time};
    }
    return best;
}

static struct choice choose(const struct problem *p, const struct conv_args *a,
                            const struct mma_tile_shape *tiles, int count)
{
    struct choice best = choose_split(p, a, &tiles[0]);
    for (int i = 1; i < count; i++) {
        const struct choice other = choose_split(p, a, &tiles[i]);
        if (other.time < best.time)
            best = other;
    }
    return best;
}

/* As kernels/conv_nvidia/filter_grad.clh wants maps. */
static bool fits_words(const struct conv_args *a)
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
    REQUIRE(why, fits_words(&a), "windows with a depth, and very large maps, are left to others");
    const struct choice c = choose(p, &a, mma_tile_shapes, MMA_TILE_SHAPES);
    DECIDE(p, c);
    PREFER(why, a.k / a.groups >= LEAST_FILTERS,
           "fewer than 8 filters a group leave most of a fragment empty");
    return true;
}

/* Of the time of three products, moving operands takes the rest. */
static const float one_product[MMA_KERNELS] = {[MMA_AMPERE] = 0.65f, [MMA_HOPPER] = 0.85f};

static bool hopper(const struct problem *p, struct why *why, enum mma_products products)
{
    const bool one = products == MMA_TF32;
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, fits_words(&a), "windows with a depth, and very large maps, are left to others");
    REQUIRE(why, conv_map(&a) >= hopper_tiles[0].chunk, "maps of fewer than 16 pixels are left to mma");
    const struct choice c = choose(p, &a, hopper_tiles, COUNT_OF(hopper_tiles));
    DECIDE(p, c);
    const float mma = choose(p, &a, mma_tile_shapes, MMA_TILE_SHAPES).time;
    PREFER(why,
           c.time * (one ? one_product[MMA_HOPPER] : 1.0f) < mma * (one ? one_product[MMA_AMPERE] : 1.0f),
           "the smaller tiles of mma are expected to be faster");
    return true;
}

static bool may_wgmma(const struct problem *p, struct why *why)
{
    return hopper(p, why, MMA_FLOAT32);
}

static bool may_wgmma_tf32(const struct problem *p, struct why *why)
{
    return hopper(p, why, MMA_TF32);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct choice c;
    DECIDED(p, c);
    return parts_bytes(&a, c.split_k);
}

static void emit_form(const struct problem *p, struct emit *e, const char *file, enum mma_products products)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct choice c;
    DECIDED(p, c);
    const struct mma_tile_shape *t = c.tile;
    const int map = (int)conv_map(&a),
              parts = c.split_k > 1 ? emit_workspace(e, parts_bytes(&a, c.split_k)) : VIEW_NONE;
    const struct filter_grad_mma_args args = {
        .conv = a,
        .depth = (int64_t)conv_pixels(&a),
        .map = map,
        .share = c.share,
        .step_n = t->chunk / map,
        .step_p = t->chunk % map,
    };
    struct step *s = emit_step(e, file, "main", tile_count(&a, t) * (size_t)c.split_k, (size_t)t->size);
    step_define(s, "BM", t->rows);
    step_define(s, "BN", t->columns);
    step_define(s, "BK", t->chunk);
    if (t->size != HOPPER_GROUP)
        step_define(s, "WM", t->wm);
    step_define(s, "DY_WIDE", map % 4 == 0 && a.dst_n % 4 == 0);
    step_define(s, "X_WIDE", conv_is_pointwise(&a) && map % 4 == 0 && a.src_n % 4 == 0);
    step_define(s, "SPLIT", c.split_k > 1);
    step_define(s, "PRODUCTS", (int)products);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, c.split_k > 1 ? parts : p->out[0].view);
    step_args(s, &args, sizeof args);
    rows_cost(s, p, conv_macs(&a));
    if (c.split_k > 1)
        emit_filter_grad_sum(e, p, &a, c.split_k, parts);
}

#define EMIT(name, file, products)                                      \
    static void emit_by_##name(const struct problem *p, struct emit *e) \
    {                                                                   \
        emit_form(p, e, file, products);                                \
    }
EMIT(mma, "conv_filter_grad_mma", MMA_FLOAT32)
EMIT(tf32, "conv_filter_grad_mma", MMA_TF32)
EMIT(wgmma, "conv_filter_grad_wgmma", MMA_FLOAT32)
EMIT(wgmma_tf32, "conv_filter_grad_wgmma", MMA_TF32)

const struct algo_def algo_conv_filter_grad_mma = {
    .name = "mma",
    .doc = "implicit GEMM on NVIDIA tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit_by_mma,
};

const struct algo_def algo_conv_filter_grad_tf32 = {
    .name = "tf32",
    .doc = "implicit GEMM on NVIDIA tensor cores, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit_by_tf32,
};

const struct algo_def algo_conv_filter_grad_wgmma = {
    .name = "wgmma",
    .doc = "implicit GEMM on Hopper's tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = may_wgmma,
    .workspace = workspace,
    .emit = emit_by_wgmma,
};

const struct algo_def algo_conv_filter_grad_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "implicit GEMM on Hopper's tensor cores, operands rounded to tf32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_wgmma_tf32,
    .workspace = workspace,
    .emit = emit_by_wgmma_tf32,
};
