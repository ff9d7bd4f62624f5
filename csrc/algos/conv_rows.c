/* conv_rows: a register tile of row pixels x filters per work-item, for CPU devices; see
 * kernels/conv_rows.cl. */
#include "algos/conv_common.h"

/* Register tiles. KV * T = 28 accumulators fill 32 registers of 16 floats; narrower machines split each in
 * two. */
static const struct tile {
    int t, kv;
} tiles[] = {{14, 2}, {7, 4}, {28, 1}}, narrow_tile = {7, 1};

#define MAX_COLUMNS 128 /* of the kernel's private row */

/* As conv_args_of, but a pointwise problem is one long row, so that small maps fill the tiles. */
static struct conv_args rows_args(const struct problem *p)
{
    struct conv_args a = conv_args_of(p);
    if (conv_is_pointwise(&a)) {
        a.in[2] = a.out[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = 1;
    }
    return a;
}

static int columns(const struct conv_args *a, const struct tile *tile)
{
    return (tile->t - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

/* The tile that computes least beyond the output's edges; the first of equals. */
static struct tile best_tile(const struct problem *p, const struct conv_args *a)
{
    if (p->device->float_width < 16)
        return narrow_tile;
    struct tile best = tiles[1]; /* the narrowest */
    double least = 0.0;
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct tile *tile = &tiles[i];
        if (columns(a, tile) > MAX_COLUMNS)
            continue;
        const double work = (double)ceil_div((size_t)a->out[2], (size_t)tile->t) * tile->t *
                            conv_blocks(a, tile->kv * 16) * tile->kv;
        if (least == 0.0 || work < least) {
            least = work;
            best = *tile;
        }
    }
    return best;
}

static struct conv_packing packing_of(const struct tile *tile)
{
    return (struct conv_packing){.block = tile->kv * 16, .tap_major = false};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, columns(&a, &narrow_tile) <= MAX_COLUMNS, "the input row of a tile must fit 128 columns");
    PREFER(why, conv_on_cpu(p), "float16 register tiles are meant for CPU devices");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = rows_args(p);
    const struct tile tile = best_tile(p, &a);
    return conv_packing_workspace(p, &a, packing_of(&tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = rows_args(p);
    const struct tile tile = best_tile(p, &a);
    const int packed = emit_conv_packed(e, p, &a, packing_of(&tile));
    const size_t groups = (size_t)conv_blocks(&a, tile.kv * 16) * (size_t)a.n * (size_t)a.out[1] *
                          ceil_div((size_t)a.out[2], (size_t)tile.t);
    struct step *s = emit_step(e, "conv_rows", "main", groups, 1);
    step_define(s, "T", tile.t);
    step_define(s, "KV", tile.kv);
    step_define(s, "ROW", columns(&a, &tile) <= 32 ? 32 : MAX_COLUMNS);
    step_read(s, p->in[0].slot);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_rows = {
    .name = "rows",
    .doc = "register tiles of row pixels x filters, one work-item each (CPU devices)",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
