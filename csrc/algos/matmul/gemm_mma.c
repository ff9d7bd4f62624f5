/* gemm_mma: matrix products of two operands that lie anyhow, on NVIDIA's tensor cores; see kernels/matmul/gemm_mma.cl. */
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv_nvidia/mma_tiles.h"
#include "algos/cost/cost.h"
#include "algos/matmul/gemm_common.h"

#define MAX_SPLIT_K 16

/* What is chosen for a product: its tile, and between how many groups the depth is split. */
struct gemm_mma_choice {
    int tile, split_k, share; /* chunks of each group */
    float time;               /* that is expected, in ns */
};

static struct gemm_args product_of(const struct problem *p, const struct gemm_problem *g)
{
    struct gemm_args a = g->args;
    gemm_merge_items(&a, g->c != NULL, p->add.present);
    return a;
}

static size_t tile_count(const struct gemm_args *a, const struct mma_tile_shape *t)
{
    return gemm_items(a) * ceil_div((size_t)a->m, (size_t)t->rows) *
           ceil_div((size_t)a->n, (size_t)t->columns);
}

static size_t split_k_bytes(const struct gemm_args *a, const struct mma_tile_shape *t, int split_k)
{
    return split_k == 1 ? 0 : sizeof(float) * (size_t)(t->rows * t->columns * split_k) * tile_count(a, t);
}

static float time_of(const struct problem *p, const struct gemm_args *a, const struct mma_tile_shape *t,
                     int split_k, int share)
{
    const float joined = sizeof(float) * (float)(t->rows * t->columns * split_k);
    return mma_tiles_time(p, t, mma_cheapest(p), tile_count(a, t) * (size_t)split_k, share) +
           (split_k > 1 ? MMA_FIXUP_NS + joined / MMA_FIXUP_BYTES_PER_NS : 0.0f);
}

static struct gemm_mma_choice choose(const struct problem *p, const struct gemm_args *a)
{
    struct gemm_mma_choice best = {-1, 1, 0, 0.0f};
    for (int i = 0; i < MMA_TILE_SHAPES; i++) {
        const struct mma_tile_shape *t = &mma_tile_shapes[i];
        const int chunks = (int)ceil_div((size_t)a->k, (size_t)t->chunk);
        for (int split_k = 1; split_k <= MAX_SPLIT_K; split_k++) {
            const int share = (int)ceil_div((size_t)chunks, (size_t)split_k);
            const size_t bytes = split_k_bytes(a, t, split_k);
            if (split_k > 1 && (share * t->chunk < MMA_PART_LEAST_DEPTH || bytes > p->workspace_limit))
                break;
            if ((split_k - 1) * share >= chunks)
                continue; /* the last share would be empty */
            const float time = time_of(p, a, t, split_k, share) + mma_memory_price(p, bytes, 0);
            if (best.tile < 0 || time < best.time)
                best = (struct gemm_mma_choice){i, split_k, share, time};
        }
    }
    return best;
}

static bool applicable(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    const struct gemm_args a = product_of(p, g);
    const struct gemm_mma_choice c = choose(p, &a);
    DECIDE(p, c);
    PREFER(why, p->op != &op_linear || !p->in[1].constant, "constant weights are packed once");
    PREFER(why, p->op != &op_linear || a.m <= MMA_UNPACKED_MOST_ROWS,
           "with so many rows packing weights pays");
    return true;
}

static size_t workspace(const struct problem *p, const struct gemm_problem *g)
{
    const struct gemm_args a = product_of(p, g);
    struct gemm_mma_choice c;
    DECIDED(p, c);
    return split_k_bytes(&a, &mma_tile_shapes[c.tile], c.split_k);
}

static void emit_product(struct emit *e, const struct problem *p, const struct gemm_problem *g,
                         enum mma_products products)
{
    const struct gemm_args a = product_of(p, g);
    struct gemm_mma_choice c;
    DECIDED(p, c);
    const struct mma_tile_shape *t = &mma_tile_shapes[c.tile];
    const size_t each = tile_count(&a, t), groups = each * (size_t)c.split_k;
    const struct gemm_mma_args args = {
        .gemm = a, .share = c.share, .split_k = c.split_k, .each = (int32_t)each};
    const bool split = c.split_k > 1;
    const int partial = split ? emit_workspace(e, split_k_bytes(&a, t, c.split_k)) : VIEW_NONE;
    struct step *s = emit_step(e, "gemm_mma", "main", groups, (size_t)t->size);
    mma_tile_defines(s, t);
    step_define(s, "A_DEEP", a.a_k == 1);
    step_define(s, "B_DEEP", a.b_k == 1);
    step_define(s, "SPLIT", split);
    step_define(s, "PRODUCTS", (int)products);
    step_read_at(s, p->in[0].view, g->at[0]);
    step_read_at(s, p->in[1].view, g->at[1]);
    step_write(s, partial);
    step_update(s, split ? emit_counters(e, each) : VIEW_NONE);
    step_epilogue(s, p, g->c);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    gemm_cost(s, p, &g->args);
}

/* The algorithms of an operator differ by the products alone. */
#define MMA_FUNCTIONS(op)                                             \
    GEMM_LIMITS(op)                                                   \
    GEMM_EMIT(op##_emit_mma, op, emit_product(e, p, &g, MMA_FLOAT32)) \
    GEMM_EMIT(op##_emit_tf32, op, emit_product(e, p, &g, MMA_TF32))   \
    GEMM_EMIT(op##_emit_half, op, emit_product(e, p, &g, MMA_HALF))
MMA_FUNCTIONS(matmul)
MMA_FUNCTIONS(gemm)
GEMM_LIMITS(linear)
GEMM_EMIT(linear_emit_unpacked, linear, emit_product(e, p, &g, MMA_FLOAT32))
GEMM_EMIT(linear_emit_unpacked_tf32, linear, emit_product(e, p, &g, MMA_TF32))

#define MMA_ALGO(op, way, text, ...)            \
    const struct algo_def algo_##op##_##way = { \
        .name = #way,                           \
        .doc = text,                            \
        .devices = DEVICES_AMPERE,              \
        .deterministic = true,                  \
        .applicable = op##_fits,                \
        .workspace = op##_workspace,            \
        .emit = op##_emit_##way,                \
        __VA_ARGS__,                            \
    }
#define MMA_ALGOS(op)                                                                                  \
    MMA_ALGO(op, mma, "tiles on NVIDIA tensor cores, three tf32 products for one of float32",          \
             .error = ERROR_STRICT, .rounding = ROUNDING_TF32_PARTS);                                  \
    MMA_ALGO(op, tf32, "tiles on NVIDIA tensor cores, operands rounded to tf32", .error = ERROR_HIGH); \
    MMA_ALGO(op, half, "tiles on NVIDIA tensor cores, operands rounded to halves", .error = ERROR_MEDIUM)
MMA_ALGOS(matmul);
MMA_ALGOS(gemm);
MMA_ALGO(linear, unpacked, "tiles of weights that are not packed, three tf32 products for one of float32",
         .error = ERROR_STRICT, .rounding = ROUNDING_TF32_PARTS);
MMA_ALGO(linear, unpacked_tf32, "tiles of weights that are not packed, operands rounded to tf32",
         .error = ERROR_HIGH);
