/* conv_implicit: a matrix product whose columns are gathered on the way to local memory, its depth split where tiles are
 * too few for the device; see kernels/conv/conv_implicit.cl. */
#include "algos/conv/conv_implicit.h"
#include "algos/cost/cost.h"
#include "conv/conv_tile_args.h"

const struct implicit_tile implicit_tiles[IMPLICIT_TILES] = {{64, 64}, {128, 64}, {64, 128}, {128, 128}};

bool implicit_tile_fits(const struct implicit_tile *t, const struct clcnn_device_info *device)
{
    /* Two tiles of each operand, a row of which is 4 floats longer than its tile. */
    return sizeof(float) * 2 * IMPLICIT_CHUNK * (size_t)(t->filters + t->pixels + 8) <=
           device->local_mem_bytes;
}

float split_k_time(const struct problem *p, const struct conv_args *a, int split_k)
{
    const size_t units = device_units(p->device);
    const float moved = (float)conv_split_k_bytes(a, split_k) / sizeof(float) * 2.0f / (float)units;
    return split_k == 1 ? 0.0f : GPU_LAUNCH_MACS + GPU_MOVED_FLOAT_MACS * moved;
}

float implicit_tile_time(const struct problem *p, const struct conv_args *a, const struct implicit_tile *t,
                         size_t groups, int split_k, size_t share)
{
    const float chunk = IMPLICIT_CHUNK * (float)(t->filters * t->pixels +
                                                 IMPLICIT_FLOAT_MACS * (float)(t->filters + t->pixels));
    const float each = (float)ceil_div(groups, device_units(p->device));
    const float busy = each > IMPLICIT_LONELY_RATIO ? each : IMPLICIT_LONELY_RATIO;
    return (float)share * chunk * busy + split_k_time(p, a, split_k);
}

static int channels_of(const struct conv_args *a)
{
    return a->c / a->groups;
}

static size_t chunks_of(const struct conv_args *a)
{
    return ceil_div((size_t)channels_of(a) * (size_t)a->ker[1] * (size_t)a->ker[2], IMPLICIT_CHUNK);
}

static struct conv_packing packing_of(const struct implicit_tile *t, int points)
{
    return (struct conv_packing){.block = t->filters, .tap_major = true, .points = points};
}

static size_t tile_count(const struct conv_args *a, const struct implicit_tile *t)
{
    return (size_t)conv_blocks(a, t->filters) * ceil_div(conv_pixels(a), (size_t)t->pixels);
}

static float time_of(const struct problem *p, const struct conv_args *a, const struct implicit_tile *t,
                     int split_k, int share)
{
    return implicit_tile_time(p, a, t, tile_count(a, t) * (size_t)split_k, split_k, (size_t)share);
}

static size_t bytes_of(const struct problem *p, const struct conv_args *a, const struct implicit_tile *t,
                       int points, int split_k)
{
    return conv_packing_workspace(p, a, packing_of(t, points)) + conv_split_k_bytes(a, split_k);
}

struct implicit_choice implicit_choose(const struct problem *p, const struct conv_args *a, int points)
{
    const size_t chunks = chunks_of(a);
    struct implicit_choice best = {&implicit_tiles[0], 1, (int)chunks, 0.0f};
    best.time = time_of(p, a, best.tile, best.split_k, best.share);
    for (int i = 0; i < IMPLICIT_TILES; i++) {
        const struct implicit_tile *t = &implicit_tiles[i];
        for (int split_k = 1; split_k <= IMPLICIT_MAX_SPLIT_K && implicit_tile_fits(t, p->device);
             split_k++) {
            const int share = (int)ceil_div(chunks, (size_t)split_k);
            if (split_k > 1 &&
                (share < GPU_PART_LEAST_CHUNKS || bytes_of(p, a, t, points, split_k) > p->workspace_limit))
                break;
            if ((size_t)(split_k - 1) * (size_t)share >= chunks)
                continue; /* the last share would be empty */
            const float time = time_of(p, a, t, split_k, share);
            if (time < best.time)
                best = (struct implicit_choice){t, split_k, share, time};
        }
    }
    return best;
}

size_t implicit_workspace(const struct problem *p, const struct conv_args *a, int points,
                          const struct implicit_choice *c)
{
    return bytes_of(p, a, c->tile, points, c->split_k);
}

float implicit_time(const struct problem *p, const struct conv_args *a)
{
    return implicit_choose(p, a, 0).time;
}

struct step *emit_implicit(struct emit *e, const struct problem *p, const struct conv_args *a, int points,
                           const struct implicit_choice *choice)
{
    const struct implicit_choice c = *choice;
    const bool split = c.split_k > 1;
    const struct conv_implicit_args args = {.conv = *a, .share = c.share};
    const int packed = emit_conv_packed(e, p, a, packing_of(c.tile, points));
    const int out = split ? emit_workspace(e, conv_split_k_bytes(a, c.split_k)) : p->out[0].view;
    struct step *s =
        emit_step(e, "conv_implicit", "main", tile_count(a, c.tile) * (size_t)c.split_k, GROUP_SIZE);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->pixels);
    step_define(s, "GATHER", channels_of(a) % IMPLICIT_CHUNK == 0);
    step_define(s, "SPLIT", split);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    emit_conv_split_k(e, s, p, a, c.split_k, out, &args, sizeof args);
    return s;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    const struct implicit_choice c = implicit_choose(p, &a, 0);
    DECIDE(p, c);
    PREFER(why, a.k / a.groups > 32 || conv_is_pointwise(&a),
           "32 filters a group or fewer leave half of the tile empty");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct implicit_choice c;
    DECIDED(p, c);
    return implicit_workspace(p, &a, 0, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct implicit_choice c;
    DECIDED(p, c);
    conv_cost(emit_implicit(e, p, &a, 0, &c), p);
}

const struct algo_def algo_conv_implicit = {
    .name = "implicit",
    .doc = "implicit GEMM: columns gathered on the way to local memory",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = IMPLICIT_EFFORT_PERCENT,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
