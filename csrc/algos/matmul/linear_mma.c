/* linear_mma: a linear layer as a 1x1 convolution of one-pixel images on NVIDIA's tensor cores, in the forms of
 * conv_mma.c. Rows of x, which are all its leading dimensions, are images. */
#include "algos/conv_nvidia/conv_wgmma_halves.h"
#include "algos/conv_nvidia/conv_wgmma_local.h"
#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "algos/matmul/gemm_common.h"

/* Elements from a row to the next one of an operand whose rows follow each other. */
static int64_t row_stride(const struct operand *o)
{
    return o->shape.rank == 2 ? o->batch_stride : o->shape.dim[o->shape.rank - 1];
}

static bool rows_follow(const struct operand *o)
{
    return !o->present || o->shape.rank == 2 || operand_dense(o);
}

static struct conv_args args_of(const struct problem *p)
{
    const struct gemm_args g = linear_as_gemm(p).args;
    return (struct conv_args){
        .src_n = row_stride(&p->in[0]),
        .dst_n = row_stride(&p->out[0]),
        .add_n = p->add.present ? row_stride(&p->add) : 0,
        .w_k = p->in[1].batch_stride,
        .n = (int32_t)gemm_items(&g) * g.m,
        .c = g.k,
        .k = g.n,
        .groups = 1,
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
        .p0 = p->p0,
        .p1 = p->p1,
    };
}

static bool on_device(const struct problem *p, enum mma_kernel kernel, struct why *why)
{
    REQUIRE(why, kernel == MMA_HOPPER || mma_on_device(p, MMA_AMPERE),
            "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, mma_on_device(p, kernel), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, rows_follow(&p->in[0]) && rows_follow(&p->out[0]) && rows_follow(&p->add),
            "rows of all items must follow each other");
    return true;
}

static bool may(const struct problem *p, struct why *why, struct mma_form form)
{
    const bool hopper = form.kernel == MMA_HOPPER;
    const struct conv_args a = args_of(p);
    if (!on_device(p, form.kernel, why))
        return false;
    const struct mma_choice c = mma_choose(p, &a, form);
    DECIDE(p, c);
    PREFER(why, a.n > 4, "four rows or fewer: dot products read the weights as fast");
    PREFER(why, !hopper || c.time < mma_expected(p, &a, (struct mma_form){MMA_AMPERE, form.products, 0}),
           "the smaller tiles of mma are expected to be faster");
    return true;
}

/* Forms that have files of their own: may_<name>(), workspace_<name>() and emit_rows_<name>(). */
#define ROWS(name)                                                        \
    static bool may_##name(const struct problem *p, struct why *why)      \
    {                                                                     \
        const struct conv_args a = args_of(p);                            \
        return on_device(p, MMA_HOPPER, why) && name##_may(p, &a, why);   \
    }                                                                     \
    static size_t workspace_##name(const struct problem *p)               \
    {                                                                     \
        const struct conv_args a = args_of(p);                            \
        return name##_workspace(p, &a);                                   \
    }                                                                     \
    static void emit_rows_##name(const struct problem *p, struct emit *e) \
    {                                                                     \
        const struct conv_args a = args_of(p);                            \
        const struct gemm_problem g = linear_as_gemm(p);                  \
        gemm_cost(emit_##name(e, p, &a), p, &g.args);                     \
    }
ROWS(halves)
ROWS(local)
ROWS(scaled)

static bool may_pairs(const struct problem *p, struct why *why)
{
    const struct conv_args a = args_of(p);
    return on_device(p, MMA_HOPPER, why) && pairs_may(p, &a, why);
}

#define MAY(name, kernel, products)                                  \
    static bool may_##name(const struct problem *p, struct why *why) \
    {                                                                \
        return may(p, why, (struct mma_form){kernel, products, 0});  \
    }
MAY(mma, MMA_AMPERE, MMA_FLOAT32)
MAY(tf32, MMA_AMPERE, MMA_TF32)
MAY(half, MMA_AMPERE, MMA_HALF)
MAY(wgmma, MMA_HOPPER, MMA_FLOAT32)
MAY(wgmma_tf32, MMA_HOPPER, MMA_TF32)
MAY(wgmma_half, MMA_HOPPER, MMA_HALF)

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = args_of(p);
    struct mma_choice c;
    DECIDED(p, c);
    return mma_workspace(p, &a, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = args_of(p);
    const struct gemm_problem g = linear_as_gemm(p);
    struct mma_choice c;
    DECIDED(p, c);
    gemm_cost(emit_mma(e, p, &a, &c, NULL), p, &g.args);
}

const struct algo_def algo_linear_mma = {
    .name = "mma",
    .doc = "tiles on NVIDIA tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = may_mma,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_tf32 = {
    .name = "tf32",
    .doc = "tiles on NVIDIA tensor cores, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_half = {
    .name = "half",
    .doc = "tiles on NVIDIA tensor cores, weights stored as halves and rows rounded to them",
    .devices = DEVICES_AMPERE,
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .applicable = may_half,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_wgmma = {
    .name = "wgmma",
    .doc = "tiles on Hopper's tensor cores, three products of halves for one of float32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = may_wgmma,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "tiles on Hopper's tensor cores, operands rounded to tf32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_wgmma_tf32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_wgmma_half = {
    .name = "wgmma_half",
    .doc = "tiles on Hopper's tensor cores, weights stored as halves and rows rounded to them",
    .devices = DEVICES_HOPPER,
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .applicable = may_wgmma_half,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_linear_wgmma_scaled = {
    .name = "wgmma_scaled",
    .doc = "tiles on Hopper's tensor cores, operands rounded to scaled halves",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_scaled,
    .workspace = workspace_scaled,
    .emit = emit_rows_scaled,
};

const struct algo_def algo_linear_wgmma_local = {
    .name = "wgmma_local",
    .doc = "tiles on Hopper's tensor cores, operands rounded to tf32 in local memory",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_local,
    .workspace = workspace_local,
    .emit = emit_rows_local,
};

const struct algo_def algo_linear_wgmma_halves = {
    .name = "wgmma_halves",
    .doc = "tiles on Hopper's tensor cores, of scaled halves that the rows are, or become first",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .cores = CORES_SRC | CORES_DST,
    .deterministic = true,
    .applicable = may_halves,
    .workspace = workspace_halves,
    .emit = emit_rows_halves,
};

const struct algo_def algo_linear_wgmma_pairs = {
    .name = "wgmma_pairs",
    .doc = "tiles on Hopper's tensor cores, of pairs of scaled halves that the rows are",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGHEST,
    .cores = CORES_SRC | CORES_DST | CORES_PAIRS,
    .deterministic = true,
    .applicable = may_pairs,
    .workspace = workspace_halves,
    .emit = emit_rows_halves,
};
