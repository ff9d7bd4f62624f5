/* conv_few: few filters at stride 1, pixels through local memory, all filters in registers; see kernels/conv/conv_few.cl. */
#include "algos/conv/conv_common.h"
#include "algos/cost/cost.h"
#include "conv/conv_tile_args.h"

enum { WIDE = 32, SLICES = GROUP_SIZE / WIDE, MOST_FILTERS = 16, MAX_SPLIT_K = 16 };

/* Pixels of a work-item, and rows of a tile: the more filters there are, the fewer fit registers. */
static int pixels_of(const struct conv_args *a)
{
    return a->k / a->groups <= 6 ? 8 : 4;
}

static size_t chunks_of(const struct conv_args *a)
{
    return ceil_div((size_t)(a->c / a->groups), SLICES);
}

static struct conv_packing packing_of(const struct conv_args *a)
{
    return (struct conv_packing){.block = a->k / a->groups};
}

/* Of a chunk: a tile with its halo and the weights of each channel, or a slice's sums, as the kernel has them. */
static size_t local_bytes(const struct conv_args *a)
{
    const size_t rows = (size_t)(pixels_of(a) + a->ker[1] - 1);
    const size_t pitch = (ceil_div((size_t)(WIDE - 1 + a->ker[2]), 4) | 1) * 4;
    const size_t weights = round_up((size_t)a->ker[2] * (size_t)(a->k / a->groups), 4);
    const size_t held = round_up(rows * pitch, WIDE) + (size_t)a->ker[1] * weights;
    return sizeof(float) * SLICES * (held > GROUP_SIZE ? held : GROUP_SIZE);
}

static size_t tile_count(const struct conv_args *a)
{
    return (size_t)a->groups * (size_t)a->n * ceil_div((size_t)a->out[1], (size_t)pixels_of(a)) *
           ceil_div((size_t)a->out[2], WIDE);
}

struct choice {
    int split_k, share;
};

/* Shares of the channels, where tiles are too few for the device. */
static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    const size_t chunks = chunks_of(a), units = device_units(p->device);
    struct choice c = {1, (int)chunks};
    for (int split_k = 2; split_k <= MAX_SPLIT_K && tile_count(a) * (size_t)c.split_k < units; split_k++) {
        const int share = (int)ceil_div(chunks, (size_t)split_k);
        const size_t bytes = conv_packing_workspace(p, a, packing_of(a)) + conv_split_k_bytes(a, split_k);
        if (share < GPU_PART_LEAST_CHUNKS || bytes > p->workspace_limit)
            break;
        if ((size_t)(split_k - 1) * (size_t)share < chunks) /* else the last share would be empty */
            c = (struct choice){split_k, share};
    }
    return c;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.k / a.groups <= MOST_FILTERS, "the filters of a group must fit registers");
    REQUIRE(why, conv_is_dense(&a), "pixels that are neighbours must share taps that are neighbours");
    REQUIRE(why, local_bytes(&a) <= p->device->local_mem_bytes,
            "a tile and its weights must fit local memory");
    const struct choice c = choose(p, &a);
    DECIDE(p, c);
    PREFER(why, a.c / a.groups >= (conv_taps(&a) == 1 ? SLICES / 2 : SLICES),
           "few channels a group leave slices without work");
    PREFER(why, conv_pixels(&a) / (size_t)a.n >= WIDE, "smaller maps leave most of a tile empty");
    PREFER(why, a.k / a.groups < MOST_FILTERS || !device_traits(p->device).tensor_cores,
           "16 filters fill the fragments of tensor cores");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    return conv_packing_workspace(p, &a, packing_of(&a)) + conv_split_k_bytes(&a, c.split_k);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    const bool split = c.split_k > 1;
    const struct conv_implicit_args args = {.conv = a, .share = c.share};
    const int packed = emit_conv_packed(e, p, &a, packing_of(&a));
    const int out = split ? emit_workspace(e, conv_split_k_bytes(&a, c.split_k)) : p->out[0].view;
    struct step *s = emit_step(e, "conv_few", "main", tile_count(&a) * (size_t)c.split_k, GROUP_SIZE);
    step_define(s, "FR", a.ker[1]);
    step_define(s, "FS", a.ker[2]);
    step_define(s, "FK", a.k / a.groups);
    step_define(s, "FP", pixels_of(&a));
    step_define(s, "SPLIT", split);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    conv_cost(s, p);
    emit_conv_split_k(e, s, p, &a, c.split_k, out, &args, sizeof args);
}

const struct algo_def algo_conv_few = {
    .name = "few",
    .doc =
        "few filters at stride 1, all in registers: pixels through local memory, channels shared in a group",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
