/* conv_ecr: lists of what is not zero in the windows of output pixels, on any device; see kernels/conv/conv_ecr.cl. */
#include "algos/conv/ecr.h"
#include "algos/cost/cost.h"

#include <float.h>

enum { LANES_MOST = 64, LANES_ENOUGH = 16, LANES_LEAST = 8 };

/* Few filters at a time, so that those of the places of one piece stay near while many pixels meet them, and as few as
 * possible past the last one. A window that is pooled belongs to one work-item. */
struct ecr_cut ecr_cut_of(const struct problem *p, const struct conv_args *a, int pixels)
{
    const int filters = a->k / a->groups;
    struct ecr_cut c = {
        .wg = (int)any_group_size(p), .lanes = LANES_LEAST, .vectors = 1, .pixels = pixels ? pixels : 1};
    while ((c.lanes < LANES_ENOUGH && 4 * c.lanes < filters) || (c.lanes < LANES_MOST && c.lanes < pixels))
        c.lanes *= 2;
    const size_t wide = (size_t)(8 * c.lanes), narrow = wide / 2;
    if (4 * c.lanes < filters && round_up((size_t)filters, wide) == round_up((size_t)filters, narrow))
        c.vectors = 2;
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
