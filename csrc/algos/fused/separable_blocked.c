/* separable_blocked: both convolutions on channel blocks, the middle of a row tile in the first-level cache; see
 * kernels/fused/separable_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"

/* The tile that computes least beyond the edges of the output; the first of equals. */
static struct separable_tile tile_of(const struct problem *p)
{
    const struct clcnn_shape *y = &p->out[0].shape;
    const size_t q = (size_t)y->dim[y->rank - 1], k = (size_t)y->dim[1];
    int count;
    const struct separable_tile *tiles = separable_tiles(p, &count);
    struct separable_tile best = tiles[0];
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const size_t t = (size_t)tiles[i].t, filters = (size_t)(tiles[i].kv * p->block);
        const double work = tiles[i].cost * (double)(ceil_div(q, t) * t * ceil_div(k, filters) * filters);
        if (i == 0 || work < least) {
            least = work;
            best = tiles[i];
        }
    }
    return best;
}

struct scheme {
    struct separable_tile tile;
    int channels; /* of the middle, at most */
    size_t tiles; /* of an image */
};

static size_t tiles_of(const struct problem *p, const struct separable_tile *tile)
{
    const struct clcnn_shape *y = &p->out[0].shape;
    const size_t width = (size_t)y->dim[y->rank - 1];
    return (size_t)shape_count_from(y, 2) / width * ceil_div(width, (size_t)tile->t);
}

/* Two sizes of the middle, so that few variants are built; 0: it does not fit. */
static int channels_of(const struct problem *p, const struct separable_tile *tile)
{
    const int mid = p->in[1].shape.dim[0], channels = mid <= 512 ? 512 : 2048;
    return mid <= channels && p->device->local_mem_bytes >= sizeof(float) * (size_t)(tile->t * channels)
               ? channels
               : 0;
}

static struct scheme scheme_of(const struct problem *p)
{
    const struct separable_tile tile = tile_of(p);
    return (struct scheme){tile, channels_of(p, &tile), tiles_of(p, &tile)};
}

static struct conv_packing packing_of(const struct problem *p, const struct separable_tile *tile)
{
    return (struct conv_packing){.block = tile->kv * p->block};
}

/* The 1x1 weights are read anew for every tile. */
static bool weights_stay_near(const struct problem *p)
{
    const double share =
        p->block == 16 ? SEPARABLE_BLOCKED_WIDE_CACHE_RATIO : SEPARABLE_BLOCKED_NARROW_CACHE_RATIO;
    const double bytes = sizeof(float) * (double)shape_count(&p->in[3].shape);
    return bytes <= share * (double)device_traits(p->device).core_cache_bytes;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    const struct scheme s = scheme_of(p);
    REQUIRE(why, s.channels > 0, "a row tile of up to 2048 middle channels must fit local memory");
    DECIDE(p, s);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    PREFER(why, weights_stay_near(p),
           "the 1x1 weights are beyond a core's cache: two kernels read them less often");
    PREFER(why,
           (size_t)p->out[0].shape.dim[0] * s.tiles >=
               SEPARABLE_BLOCKED_FEWEST_TILES * (size_t)p->device->compute_units,
           "few pixels: two kernels share the work better among the cores");
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct separable parts;
    struct scheme s;
    separable_parts(p, &parts);
    DECIDED(p, s);
    const struct conv_args dw = conv_args_of(&parts.dw);
    return depthwise_packing_workspace(&parts.dw, &dw) +
           separable_packing_workspace(p, packing_of(p, &s.tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    struct scheme s;
    separable_parts(p, &parts);
    DECIDED(p, s);
    const struct conv_args dw = conv_args_of(&parts.dw), pw = conv_args_of(&parts.pw);
    struct separable_blocked_args a = {.shape = separable_args_of(p),
                                       .epi = blocked_epilogue_of(p, &parts.pw_in[2])};
    const size_t n = (size_t)a.shape.n;
    a.tiles = blocked_run(p, n, s.tiles, 1);
    const int dw_packed = emit_depthwise_packed(e, &parts.dw, &dw);
    const int pw_packed = emit_conv_packed(e, &parts.pw, &pw, packing_of(p, &s.tile));
    struct step *step = emit_step(e, "separable_blocked", "main", n * ceil_div(s.tiles, (size_t)a.tiles), 1);
    blocked_middle(step, &parts, dw_packed, &a.shape);
    step_define(step, "DT", s.tile.dt);
    step_define(step, "T", s.tile.t);
    step_define(step, "KV", s.tile.kv);
    step_define_at_least(step, "CHANNELS", s.channels);
    step_read(step, pw_packed);
    blocked_step_epilogue(step, p, &parts.pw_in[2]);
    step_write(step, p->out[0].view);
    step_args(step, &a, sizeof a);
    separable_cost(step, p, &a.shape);
}

const struct algo_def algo_separable_blocked = {
    .name = "blocked",
    .doc = "one kernel on channel blocks, the middle of a row tile in the cache",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .stores_in_place = true,
    .effort = BLOCKED_EFFORT_PERCENT,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
