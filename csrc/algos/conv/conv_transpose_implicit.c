/* conv_transpose_implicit: matrix products of the phases of a transposed convolution, whose columns are gathered on the way to
 * local memory, their depth split where tiles are too few for the device; see kernels/conv/conv_transpose_implicit.cl. */
#include "algos/conv/conv_implicit.h"
#include "algos/conv/conv_transpose_common.h"
#include "algos/cost/cost.h"

struct choice {
    const struct implicit_tile *tile;
    int split_k;
};

static struct conv_packing packing_of(const struct conv_args *a, const struct implicit_tile *t)
{
    return conv_transpose_packing(a, t->filters, IMPLICIT_CHUNK);
}

/* Of the largest phase. */
static size_t pixel_tiles(const struct conv_args *a, const struct implicit_tile *t)
{
    return ceil_div((size_t)a->n * conv_phase_pixels(a), (size_t)t->pixels);
}

static size_t group_count(const struct conv_args *a, const struct implicit_tile *t)
{
    const struct conv_phases f = conv_phases_of(a);
    return (size_t)conv_blocks(a, t->filters) * (size_t)f.count[0] * (size_t)f.count[1] * pixel_tiles(a, t);
}

/* Of the phase that has most. */
static size_t chunks_of(const struct conv_args *a)
{
    return ceil_div((size_t)(a->c / a->groups), IMPLICIT_CHUNK) * (size_t)conv_phase_taps(a);
}

/* The model of conv_implicit, as if all phases had the taps of the largest one. */
static float time_of(const struct problem *p, const struct conv_args *a, const struct implicit_tile *t,
                     int split_k)
{
    const size_t share = ceil_div(chunks_of(a), (size_t)split_k);
    return implicit_tile_time(p, a, t, group_count(a, t) * (size_t)split_k, split_k, share);
}

static size_t bytes_of(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    return conv_packing_workspace(p, a, packing_of(a, c->tile)) + conv_split_k_bytes(a, c->split_k);
}

static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {&implicit_tiles[0], 1};
    float least = time_of(p, a, best.tile, 1);
    for (int i = 0; i < IMPLICIT_TILES; i++) {
        const struct implicit_tile *t = &implicit_tiles[i];
        for (int split_k = 1; split_k <= IMPLICIT_MAX_SPLIT_K && implicit_tile_fits(t, p->device);
             split_k++) {
            const struct choice c = {t, split_k};
            if (split_k > 1 && (chunks_of(a) / (size_t)split_k < GPU_PART_LEAST_CHUNKS ||
                                bytes_of(p, a, &c) > p->workspace_limit))
                break;
            const float time = time_of(p, a, c.tile, split_k);
            if (time < least) {
                least = time;
                best = c;
            }
        }
    }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_transpose_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D transposed convolutions are left to ref");
    REQUIRE(why, a.c / a.groups % IMPLICIT_CHUNK == 0, "a chunk of the depth is 16 channels of a group");
    const struct choice c = choose(p, &a);
    DECIDE(p, c);
    PREFER(why, a.k / a.groups > 32, "32 filters a group or fewer leave half of the tile empty");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct choice c;
    DECIDED(p, c);
    return bytes_of(p, &a, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct choice c;
    DECIDED(p, c);
    const bool split = c.split_k > 1;
    const struct conv_transpose_args args = conv_transpose_block(&a, pixel_tiles(&a, c.tile), c.split_k);
    const int packed = emit_conv_packed(e, p, &a, packing_of(&a, c.tile));
    const int out = split ? emit_workspace(e, conv_split_k_bytes(&a, c.split_k)) : p->out[0].view;
    struct step *s = emit_step(e, "conv_transpose_implicit", "main",
                               group_count(&a, c.tile) * (size_t)c.split_k, GROUP_SIZE);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->pixels);
    step_define(s, "SPLIT", split);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    conv_transpose_cost(s, p);
    emit_conv_split_k(e, s, p, &a, c.split_k, out, &args, sizeof args);
}

const struct algo_def algo_conv_transpose_implicit = {
    .name = "implicit",
    .doc = "implicit GEMM of each phase: columns gathered on the way to local memory",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
