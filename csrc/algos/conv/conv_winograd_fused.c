/* conv_winograd_fused: F(2x2, 3x3) in one kernel for GPUs, the sum over channels split where tiles are too few for the device;
 * see kernels/conv/conv_winograd_fused.cl. */
#include "algos/conv/conv_implicit.h"
#include "algos/cost/cost.h"
#include "conv/conv_tile_args.h"

enum { M = 2, POINTS = 16, TILES = 32 /* of a group */ };

/* Filters of a group's tile, and channels between two barriers. The first one fits any device's 32 KiB of local memory; the
 * other has 128 sums in a work-item's registers, which the GPUs built into processors lack. */
struct tile {
    int filters, channels;
};
static const struct tile tiles[] = {{32, 8}, {64, 6}};

struct choice {
    const struct tile *tile;
    int split_k, share; /* share: chunks of each group */
    float time;
};

static size_t chunks_of(const struct conv_args *a, const struct tile *t)
{
    return ceil_div((size_t)(a->c / a->groups), (size_t)t->channels);
}

static size_t tiles_of(const struct conv_args *a)
{
    return (size_t)a->n * ceil_div((size_t)a->out[1], M) * ceil_div((size_t)a->out[2], M);
}

static bool fits(const struct tile *t, const struct clcnn_device_info *device)
{
    const size_t local = sizeof(float) * POINTS * (size_t)t->channels * (size_t)(t->filters + TILES);
    return t == tiles || (local <= device->local_mem_bytes && !device_traits(device).integrated_gpu);
}

static size_t groups_of(const struct conv_args *a, const struct tile *t)
{
    return (size_t)conv_blocks(a, t->filters) * ceil_div(tiles_of(a), TILES);
}

/* Transformed filters are packed as those of a window of 16 taps: [groups][blocks][chunks][16][channels][filters]. */
static struct conv_args transformed(const struct conv_args *a)
{
    struct conv_args t = *a;
    t.ker[1] = t.ker[2] = M + 2;
    return t;
}

static struct conv_packing packing_of(const struct tile *t)
{
    return (struct conv_packing){
        .block = t->filters, .c_block = t->channels, .tap_major = true, .points = POINTS};
}

static float time_of(const struct problem *p, const struct conv_args *a, const struct tile *t, int split_k,
                     int share)
{
    const float filters = (float)t->filters, sums = POINTS * TILES * filters;
    const float chunk =
        (float)t->channels *
        (sums + POINTS * (WINOGRAD_FUSED_PIXEL_MACS * TILES + WINOGRAD_FUSED_FILTER_MACS * filters));
    const float each = (float)ceil_div(groups_of(a, t) * (size_t)split_k, device_units(p->device));
    return ((float)share * chunk + WINOGRAD_FUSED_SUM_MACS * sums) * each + split_k_time(p, a, split_k);
}

static size_t bytes_of(const struct problem *p, const struct conv_args *a, const struct tile *t, int split_k)
{
    const struct conv_args filters = transformed(a);
    return conv_packing_workspace(p, &filters, packing_of(t)) + conv_split_k_bytes(a, split_k);
}

static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {NULL, 0, 0, 0.0f};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct tile *t = &tiles[i];
        const size_t chunks = chunks_of(a, t);
        for (int split_k = 1; split_k <= IMPLICIT_MAX_SPLIT_K && fits(t, p->device); split_k++) {
            const int share = (int)ceil_div(chunks, (size_t)split_k);
            if (split_k > 1 &&
                (share < GPU_PART_LEAST_CHUNKS || bytes_of(p, a, t, split_k) > p->workspace_limit))
                break;
            if ((size_t)(split_k - 1) * (size_t)share >= chunks)
                continue; /* the last share would be empty */
            const float time = time_of(p, a, t, split_k, share);
            if (!best.tile || time < best.time)
                best = (struct choice){t, split_k, share, time};
        }
    }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.ker[1] == 3 && a.ker[2] == 3, "minimal filtering is for 3x3 filters");
    REQUIRE(why, conv_is_dense(&a), "minimal filtering is for stride 1 and dilation 1");
    const struct choice c = choose(p, &a);
    DECIDE(p, c);
    PREFER(why, a.k / a.groups > 16, "16 filters a group or fewer leave half of the tile empty");
    PREFER(why, c.time < implicit_time(p, &a), "the products by the definition are expected to be faster");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    return bytes_of(p, &a, c.tile, c.split_k);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p), filters = transformed(&a);
    struct choice c;
    DECIDED(p, c);
    const bool split = c.split_k > 1;
    const struct conv_winograd_fused_args args = {
        .conv = a,
        .share = c.share,
        .tiles_high = (i32)ceil_div((size_t)a.out[1], M),
        .tiles_wide = (i32)ceil_div((size_t)a.out[2], M),
        .tiles = (i32)tiles_of(&a),
    };
    const int packed = emit_conv_packed(e, p, &filters, packing_of(c.tile));
    const int out = split ? emit_workspace(e, conv_split_k_bytes(&a, c.split_k)) : p->out[0].view;
    struct step *s =
        emit_step(e, "conv_winograd_fused", "main", groups_of(&a, c.tile) * (size_t)c.split_k, GROUP_SIZE);
    step_define(s, "BF", c.tile->filters);
    step_define(s, "SPLIT", split);
    step_read(s, p->in[0].view);
    step_read(s, packed);
    conv_cost(s, p);
    emit_conv_split_k(e, s, p, &a, c.split_k, out, &args, sizeof args);
}

const struct algo_def algo_conv_winograd_fused = {
    .name = "winograd_fused",
    .doc = "Winograd's F(2x2, 3x3) in one kernel, transforms in local memory",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = WINOGRAD_FUSED_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
