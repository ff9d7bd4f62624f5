/* linear_mma: a linear layer as a 1x1 convolution of one-pixel images on NVIDIA's tensor cores, in the forms of
 * conv_mma.c. */
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/matmul/gemm_common.h"

/* Rows of x are images. */
static struct conv_args args_of(const struct problem *p)
{
    return (struct conv_args){
        .src_n = p->in[0].batch_stride,
        .dst_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .w_k = p->in[1].batch_stride,
        .n = p->in[0].shape.dim[0],
        .c = p->in[1].shape.dim[1],
        .k = p->in[1].shape.dim[0],
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

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, p->in[0].shape.rank == 2, "x must have two dimensions");
    const struct mma_choice c = mma_choose(p, &a, (struct mma_form){MMA_AMPERE, products, 0});
    DECIDE(p, c);
    PREFER(why, p->in[0].shape.dim[0] > 4, "four rows or fewer: dot products read the weights as fast");
    return true;
}

static bool may_float32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_FLOAT32);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_TF32);
}

static bool may_half(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_HALF);
}

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
    .applicable = may_float32,
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
