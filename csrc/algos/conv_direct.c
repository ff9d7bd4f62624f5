/* conv_direct: register tiles straight from global memory, on any device; see kernels/conv_direct.cl. */
#include "algos/conv_common.h"

static const struct tile {
    int pixels, per_item; /* pixels side by side in a group, and of a work-item */
} wide = {32, 4}, few_pixels = {32, 1}, few_filters = {128, 4};

static struct tile tile_of(const struct problem *p, const struct conv_args *a)
{
    const size_t pixels = (size_t)a->n * (size_t)a->out[1] * (size_t)a->out[2];
    if (a->k / a->groups <= 16)
        return few_filters;
    /* Groups to give every compute unit two of the wide tiles. */
    const size_t groups = ceil_div(pixels, 128) * (size_t)conv_blocks(a, 64);
    return groups < 2 * (size_t)p->device->compute_units ? few_pixels : wide;
}

static struct conv_packing packing_of(const struct tile *tile)
{
    return (struct conv_packing){.block = GROUP_SIZE / tile->pixels * 8, .tap_major = true};
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to ref");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    const struct tile tile = tile_of(p, &a);
    return conv_packing_workspace(p, &a, packing_of(&tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const struct tile tile = tile_of(p, &a);
    const struct conv_packing packing = packing_of(&tile);
    const int packed = emit_conv_packed(e, p, &a, packing);
    const size_t pixels = (size_t)a.n * (size_t)a.out[1] * (size_t)a.out[2];
    const size_t groups = (size_t)conv_blocks(&a, packing.block) *
                          ceil_div(pixels, (size_t)tile.pixels * (size_t)tile.per_item);
    struct step *s = emit_step(e, "conv_direct", "main", groups, GROUP_SIZE);
    step_define(s, "PL", tile.pixels);
    step_define(s, "TP", tile.per_item);
    step_read(s, p->in[0].slot);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_direct = {
    .name = "direct",
    .doc = "register tiles of pixels x filters from global memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
