/* conv_rows: a register tile of row pixels x filters per work-item, for CPU devices; see
 * kernels/conv_cpu/conv_rows.cl. */
#include "algos/cost/cost.h"
#include "algos/conv_cpu/conv_rows.h"

/* Register tiles. KV * T = 28 accumulators fill 32 registers of 16 floats; narrower machines split each in
 * two. */
static const struct row_tile tiles[] = {{14, 2}, {7, 4}, {28, 1}}, narrow_tile = {7, 1};

#define MAX_COLUMNS 128 /* of the kernel's private row */

/* As conv_args_of, but a pointwise problem is one long row, so that small maps fill the tiles. */
static struct conv_args row_tile_args(const struct problem *p)
{
    struct conv_args a = conv_args_of(p);
    if (conv_is_pointwise(&a)) {
        a.in[2] = a.out[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = 1;
    }
    return a;
}

static int columns(const struct conv_args *a, const struct row_tile *tile)
{
    return (tile->t - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

bool row_tile_fits(const struct conv_args *a)
{
    return columns(a, &narrow_tile) <= MAX_COLUMNS;
}

size_t row_tile_count(const struct conv_args *a, const struct row_tile *tile, int window)
{
    return ceil_div((size_t)(a->out[2] / window), (size_t)(tile->t / window));
}

static struct row_tile whole_windows(struct row_tile tile, int window)
{
    return (struct row_tile){.t = tile.t / window * window, .kv = tile.kv};
}

struct row_tile row_tile_best(const struct problem *p, const struct conv_args *a, int window)
{
    if (p->device->float_width < 16)
        return whole_windows(narrow_tile, window);
    struct row_tile best = whole_windows(tiles[1], window); /* the narrowest */
    double least = 0.0;
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct row_tile tile = whole_windows(tiles[i], window);
        if (columns(a, &tile) > MAX_COLUMNS)
            continue;
        const double work =
            (double)row_tile_count(a, &tile, window) * tile.t * conv_blocks(a, tile.kv * 16) * tile.kv;
        if (least == 0.0 || work < least) {
            least = work;
            best = tile;
        }
    }
    return best;
}

struct conv_packing row_tile_packing(const struct row_tile *tile)
{
    return (struct conv_packing){.block = tile->kv * 16, .tap_major = false};
}

void row_tile_define(struct step *s, const struct conv_args *a, const struct row_tile *tile)
{
    step_define(s, "T", tile->t);
    step_define(s, "KV", tile->kv);
    step_define(s, "ROW", columns(a, tile) <= 32 ? 32 : MAX_COLUMNS);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, row_tile_fits(&a), "the input row of a tile must fit 128 columns");
    const struct conv_args whole = row_tile_args(p);
    const struct row_tile tile = row_tile_best(p, &whole, 1);
    DECIDE(p, tile);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = row_tile_args(p);
    struct row_tile tile;
    DECIDED(p, tile);
    return conv_packing_workspace(p, &a, row_tile_packing(&tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = row_tile_args(p);
    struct row_tile tile;
    DECIDED(p, tile);
    const int packed = emit_conv_packed(e, p, &a, row_tile_packing(&tile));
    const size_t groups =
        (size_t)conv_blocks(&a, tile.kv * 16) * (size_t)a.n * (size_t)a.out[1] * row_tile_count(&a, &tile, 1);
    struct step *s = emit_step(e, "conv_rows", "main", groups, 1);
    row_tile_define(s, &a, &tile);
    conv_step(s, p, packed, &a, sizeof a);
}

const struct algo_def algo_conv_rows = {
    .name = "rows",
    .doc = "register tiles of row pixels x filters, one work-item each",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = ROWS_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
