/* conv_transpose_mma: transposed convolutions on NVIDIA's tensor cores, in the forms of conv_mma.c: all phases (conv_phases.h) at once,
 * each a convolution at stride 1 with filters of its own; see kernels/conv_nvidia/conv_mma_phases.clh. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/conv_nvidia/conv_mma_common.h"

enum { LEAST_CHANNELS = 8 };

/* Whether every phase reads the pixel of the input that it computes, and no other one. */
static bool pixel_by_pixel(const struct conv_args *a)
{
    for (int d = 1; d < 3; d++)
        for (int q = 0; q < a->stride[d] && q < a->out[d]; q++) {
            const struct conv_phase f = conv_phase_of(a, d, q);
            if (f.taps > 1 || f.from != 0 || f.outputs != a->in[d])
                return false;
        }
    return true;
}

/* The phases as groups of one convolution, which has the most pixels and taps that any of them has. */
static struct conv_args phases_as_groups(const struct conv_args *a)
{
    struct conv_args all = *a;
    const bool apart = pixel_by_pixel(a);
    int phases = 1;
    for (int d = 1; d < 3; d++) {
        const struct conv_phase f = conv_phase_of(a, d, 0);
        phases *= a->stride[d] < a->out[d] ? a->stride[d] : a->out[d];
        all.out[d] = f.outputs;
        all.ker[d] = (a->ker[d] + f.every - 1) / f.every;
        all.stride[d] = 1;
        all.dil[d] = f.step;
        all.pad[d] = apart ? 0 : 1; /* the kernel knows that of each phase */
    }
    all.groups *= phases;
    all.c *= phases;
    all.k *= phases;
    return all;
}

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_transpose_args_of(p), all = phases_as_groups(&a);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, conv_is_2d(p), "3-D transposed convolutions are left to ref");
    REQUIRE(why, !mma_few_channels(&all), "few channels: rounded up to 16 they would cost a third more");
    const struct mma_choice c = mma_choose(p, &all, (struct mma_form){MMA_AMPERE, products, 0});
    DECIDE(p, c);
    PREFER(why, a.c / a.groups >= LEAST_CHANNELS,
           "fewer than 8 channels a group leave most of a fragment empty");
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
    const struct conv_args a = conv_transpose_args_of(p), all = phases_as_groups(&a);
    struct mma_choice c;
    DECIDED(p, c);
    return mma_workspace(p, &all, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p), all = phases_as_groups(&a);
    struct mma_choice c;
    DECIDED(p, c);
    conv_transpose_cost(emit_mma_phases(e, p, &all, &c, &a), p);
}

static unsigned fp16(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p), all = phases_as_groups(&a);
    return mma_fp16(&all);
}

const struct algo_def algo_conv_transpose_mma = {
    .name = "mma",
    .doc = "all phases at once on NVIDIA tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .fp16_of = fp16,
    .applicable = may_float32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_transpose_tf32 = {
    .name = "tf32",
    .doc = "all phases at once on NVIDIA tensor cores, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16_of = fp16,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_transpose_half = {
    .name = "half",
    .doc = "all phases at once on NVIDIA tensor cores, filters stored as halves and pixels rounded to them",
    .devices = DEVICES_AMPERE,
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .fp16_of = fp16,
    .applicable = may_half,
    .workspace = workspace,
    .emit = emit,
};
