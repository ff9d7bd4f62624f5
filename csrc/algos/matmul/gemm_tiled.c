/* gemm_tiled: matrix products through tiles in local memory, the depth split where tiles are too few for the device; see
 * kernels/matmul/gemm_tiled.cl. */
#include "algos/matmul/gemm_common.h"
#include "algos/cost/cost.h"

enum { CHUNK = 16, MAX_SPLIT_K = 16, CPU_TILE = 64 };

/* Rows and columns of a group's tile, and its work-items. */
struct gemm_tile {
    short side, size;
};
static const struct gemm_tile tiles[] = {{32, 64}, {CPU_TILE, GROUP_SIZE}, {128, GROUP_SIZE}};

struct tiled_choice {
    struct gemm_tile tile;
    int split_k, share; /* chunks of each group */
    float time;         /* that is expected, in multiply-adds of a compute unit */
};

static struct gemm_args product_of(const struct problem *p, const struct gemm_problem *g)
{
    struct gemm_args a = g->args;
    gemm_merge_items(&a, g->c != NULL, p->add.present);
    return a;
}

static size_t tile_count(const struct gemm_args *a, const struct gemm_tile *t)
{
    return gemm_items(a) * ceil_div((size_t)a->m, (size_t)t->side) * ceil_div((size_t)a->n, (size_t)t->side);
}

static size_t split_k_bytes(const struct gemm_args *a, int split_k)
{
    return split_k == 1 ? 0 : sizeof(float) * gemm_items(a) * (size_t)a->m * (size_t)a->n * (size_t)split_k;
}

/* As that of conv_implicit, whose tiles are alike. */
static float time_of(const struct problem *p, const struct gemm_args *a, const struct gemm_tile *t,
                     int split_k, int share)
{
    const size_t units = device_units(p->device);
    const float chunk = CHUNK * (float)t->side * ((float)t->side + 2.0f * IMPLICIT_FLOAT_MACS);
    const float each = (float)ceil_div(tile_count(a, t) * (size_t)split_k, units);
    const float moved = (float)split_k_bytes(a, split_k) / sizeof(float) * 2.0f / (float)units;
    const float extra = split_k == 1 ? 0.0f : GPU_LAUNCH_MACS + GPU_MOVED_FLOAT_MACS * moved;
    return (float)share * chunk * (each > IMPLICIT_LONELY_RATIO ? each : IMPLICIT_LONELY_RATIO) + extra;
}

static struct tiled_choice choose(const struct problem *p, const struct gemm_args *a)
{
    const size_t chunks = ceil_div((size_t)a->k, CHUNK);
    struct tiled_choice best = {{CPU_TILE, GROUP_SIZE}, 1, (int)chunks, 0.0f};
    if (cpu_device(p->device)) /* a group is one core's work: large tiles spill, small ones reuse less */
        return best;
    best.time = time_of(p, a, &best.tile, best.split_k, best.share);
    for (int i = 0; i < COUNT_OF(tiles); i++)
        for (int split_k = 1; split_k <= MAX_SPLIT_K; split_k++) {
            const int share = (int)ceil_div(chunks, (size_t)split_k);
            if (split_k > 1 &&
                (share < GPU_PART_LEAST_CHUNKS || split_k_bytes(a, split_k) > p->workspace_limit))
                break;
            if ((size_t)(split_k - 1) * (size_t)share >= chunks)
                continue; /* the last share would be empty */
            const float time = time_of(p, a, &tiles[i], split_k, share);
            if (time < best.time)
                best = (struct tiled_choice){tiles[i], split_k, share, time};
        }
    return best;
}

static bool applicable(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    const struct gemm_args a = product_of(p, g);
    const struct tiled_choice c = choose(p, &a);
    DECIDE(p, c);
    PREFER(why, p->op != &op_matmul || gemm_fills_tiles(p, &g->args), GEMM_EMPTY_TILES);
    return true;
}

static size_t workspace(const struct problem *p, const struct gemm_problem *g)
{
    const struct gemm_args a = product_of(p, g);
    struct tiled_choice c;
    DECIDED(p, c);
    return split_k_bytes(&a, c.split_k);
}

/* The last step of a product: what follows it, where it goes, and what it counts for. */
static void finish_step(struct step *s, const struct problem *p, const struct gemm_problem *g,
                        const struct gemm_tiled_args *args)
{
    step_epilogue(s, p, g->c);
    step_write(s, p->out[0].view);
    step_args(s, args, sizeof *args);
}

static void emit_product(struct emit *e, const struct problem *p, const struct gemm_problem *g)
{
    struct tiled_choice c;
    DECIDED(p, c);
    const struct gemm_args a = product_of(p, g);
    const struct gemm_tiled_args args = {
        .gemm = a, .items = (int64_t)gemm_items(&a), .share = c.share, .split_k = c.split_k};
    const bool split = c.split_k > 1;
    const size_t bytes = split_k_bytes(&args.gemm, c.split_k);
    struct step *s = emit_step(e, "gemm_tiled", "main", tile_count(&args.gemm, &c.tile) * (size_t)c.split_k,
                               (size_t)c.tile.size);
    step_define(s, "BM", c.tile.side);
    step_define(s, "BN", c.tile.side);
    step_read_at(s, p->in[0].view, g->at[0]);
    step_read_at(s, p->in[1].view, g->at[1]);
    gemm_cost(s, p, &g->args);
    if (!split) {
        finish_step(s, p, g, &args);
        return;
    }
    const int parts = emit_workspace(e, bytes);
    step_define(s, "SPLIT", 1);
    step_read(s, VIEW_NONE);
    step_read(s, VIEW_NONE);
    step_write(s, parts);
    step_args(s, &args, sizeof args);
    const size_t count = bytes / sizeof(float) / (size_t)c.split_k;
    struct step *sum =
        emit_step(e, "gemm_sum_parts", "main", ceil_div(count, any_group_size(p)), any_group_size(p));
    step_read(sum, parts);
    finish_step(sum, p, g, &args);
    step_cost(sum, 0.0, (double)bytes);
}

#define TILED(op)                                                                             \
    GEMM_LIMITS(op)                                                                           \
    GEMM_EMIT(op##_emit, op, emit_product(e, p, &g))                                          \
    const struct algo_def algo_##op##_tiled = {                                               \
        .name = "tiled",                                                                      \
        .doc = "tiles of both operands in local memory, the depth split where tiles are few", \
        .error = ERROR_STRICT,                                                                \
        .deterministic = true,                                                                \
        .applicable = op##_fits,                                                              \
        .workspace = op##_workspace,                                                          \
        .emit = op##_emit,                                                                    \
    }

TILED(gemm);
TILED(linear);
TILED(matmul);
