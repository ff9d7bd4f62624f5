/* conv_ecr: lists of what is not zero in the windows of output pixels, on any device; see kernels/conv/conv_ecr.cl. */
#include "algos/conv/ecr.h"
#include "algos/cost/cost.h"

#include <float.h>

enum { GROUP = 128, TEAM_PIXELS = 4, MOST_LANES = 32 };

/* Blocks of filters, and what one of their filters takes beside one of the widest blocks, where all are full. */
static const struct {
    int lanes, vectors;
    float time;
} BLOCKS[] = {{16, 2, 1.0f}, {8, 2, ECR_BLOCK_64_RATIO}, {8, 1, ECR_BLOCK_32_RATIO}};

static int block_of(int filters)
{
    int best = COUNT_OF(BLOCKS) - 1;
    float least = FLT_MAX;
    for (int i = 0; i < (int)COUNT_OF(BLOCKS); i++) {
        const size_t width = (size_t)(4 * BLOCKS[i].lanes * BLOCKS[i].vectors);
        const float time = (float)round_up((size_t)filters, width) * BLOCKS[i].time;
        if (time < least) {
            least = time;
            best = i;
        }
    }
    return best;
}

/* Fewer pixels a group, until each compute unit has one. */
static void shrink(struct ecr_cut *c, const struct problem *p, const struct conv_args *a)
{
    const size_t wanted = device_units(p->device), pixels = conv_pixels(a);
    while (ceil_div(pixels, (size_t)ecr_group_pixels(c)) * (size_t)conv_blocks(a, ecr_packing(c).block) <
           wanted) {
        if (c->vectors == 2) {
            c->lanes = c->lanes < MOST_LANES ? 2 * c->lanes : c->lanes;
            c->vectors = 1;
        } else if (c->pixels > 1) {
            c->pixels /= 2;
        } else {
            return;
        }
    }
}

struct ecr_cut ecr_cut_of(const struct problem *p, const struct conv_args *a, int pixels)
{
    const int block = block_of(a->k / a->groups);
    struct ecr_cut c = {
        .wg = any_group_size(p) < GROUP ? (int)any_group_size(p) : GROUP,
        .lanes = BLOCKS[block].lanes,
        .vectors = BLOCKS[block].vectors,
        .pixels = pixels ? pixels : TEAM_PIXELS,
    };
    if (pixels == 0)
        shrink(&c, p, a);
    while (c.lanes < 2 * (c.pixels - 1)) /* lists fit local memory */
        c.lanes *= 2;
    return c;
}

int ecr_group_pixels(const struct ecr_cut *cut)
{
    return cut->wg / cut->lanes * cut->pixels;
}

struct conv_packing ecr_packing(const struct ecr_cut *cut)
{
    return (struct conv_packing){.block = 4 * cut->lanes * cut->vectors, .c_block = 1};
}

struct step *emit_ecr(struct emit *e, const struct conv_args *a, const struct ecr_cut *cut, const char *file,
                      size_t pixels)
{
    const size_t blocks = (size_t)conv_blocks(a, ecr_packing(cut).block);
    struct step *s =
        emit_step(e, file, "main", blocks * ceil_div(pixels, (size_t)ecr_group_pixels(cut)), (size_t)cut->wg);
    step_define(s, "FL", cut->lanes);
    step_define(s, "KC", cut->vectors);
    step_define(s, "PT", cut->pixels);
    return s;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    const struct ecr_cut cut = ecr_cut_of(p, &a, 0);
    DECIDE(p, cut);
    PREFER(why, false, ZEROS_UNKNOWN);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct ecr_cut cut;
    DECIDED(p, cut);
    return conv_packing_workspace(p, &a, ecr_packing(&cut));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct ecr_cut cut;
    DECIDED(p, cut);
    const struct conv_ecr_args args = {.conv = a, .skip = conv_skips_zeros(p, e, FLT_MAX)};
    const int packed = emit_conv_packed(e, p, &a, ecr_packing(&cut));
    conv_step(emit_ecr(e, &a, &cut, "conv_ecr", conv_pixels(&a)), p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_ecr = {
    .name = "ecr",
    .doc = "lists of what is not zero in the windows of output pixels, in local memory, for all filters",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = ECR_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
