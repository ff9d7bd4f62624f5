/* conv_pool_stem: the register tiles of conv_stem, pooled row by row as they are finished; see
 * kernels/fused/conv_pool_stem.cl. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/fused/conv_pool_common.h"
#include "algos/conv_cpu/conv_stem.h"

enum {
    LINE = 8192,      /* floats of a work-item's private row */
    LEAST_ROWS = 7,   /* of a work-item: two neighbours compute the rows between them twice */
    ITEMS_A_UNIT = 8, /* wanted, so that a core that is held up leaves work to the others */
};

struct scheme {
    struct conv_tile tile;
    int columns; /* of a row of the map, those that the pooling adds included */
};

static int columns_of(const struct conv_args *a, const struct problem *p)
{
    const struct pool_attrs *at = &((const struct conv_pool_attrs *)p->attrs)->pool;
    const int pooled = (p->out[0].shape.dim[3] - 1) * at->stride.v[1] + at->kernel_size.v[1];
    const int computed = at->padding.v[1] + a->out[2];
    return pooled > computed ? pooled : computed;
}

static bool applicable(const struct problem *p, struct why *why)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    const struct conv_pool_attrs *at = p->attrs;
    if (!stem_possible(&parts.conv, why))
        return false;
    REQUIRE(why, !at->average, "the windows of a mean are left to other algorithms");
    const struct conv_args a = conv_args_of(&parts.conv);
    const struct scheme s = {stem_tile(p, &a), columns_of(&a, p)};
    const int width = (int)ceil_div((size_t)a.out[2], (size_t)s.tile.t) * s.tile.t;
    REQUIRE(why, conv_columns(&a, width) <= stem_columns(p, &a),
            "the input under a row must fit 8192 floats");
    REQUIRE(why, s.columns * s.tile.kv * p->block <= LINE,
            "the row of a tile's filters must fit 8192 floats");
    DECIDE(p, s);
    PREFER(why,
           p->little_scratch ||
               sizeof(float) * (size_t)shape_count(&parts.mid.shape) > CONV_POOL_STEM_NEAR_BYTES,
           "the map between the two stays in the caches");
    operand_set_layout(&parts.mid, p->block);
    PREFER(why, algo_preferred(&parts.conv) == &algo_conv_stem, CONVOLVED_FASTER);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct scheme s;
    DECIDED(p, s);
    return conv_pool_packing_workspace(p, stem_packing(p, &s.tile));
}

/* Rows of y that a work-item computes. */
static int rows_of(const struct problem *p, const struct conv_pool_args *a)
{
    const size_t items = device_units(p->device) * ITEMS_A_UNIT;
    const size_t rows = ceil_div((size_t)a->conv.n * (size_t)a->pooled[0], items);
    return (int)(rows < LEAST_ROWS ? LEAST_ROWS : rows);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    const struct pool_attrs *at = &((const struct conv_pool_attrs *)p->attrs)->pool;
    struct scheme scheme;
    DECIDED(p, scheme);
    const struct conv_tile tile = scheme.tile;
    const int packed = emit_conv_packed(e, p, &a.conv, stem_packing(p, &tile));
    const struct conv_pool_stem_args args = {
        .stem = stem_args(p, &a.conv, &tile, (int)ceil_div((size_t)a.conv.out[2], (size_t)tile.t)),
        .pooled = {a.pooled[0], a.pooled[1]},
        .lead = {at->padding.v[0], at->padding.v[1]},
        .window = at->kernel_size.v[0],
        .step = at->stride.v[0],
        .columns = scheme.columns,
        .rows = rows_of(p, &a),
    };
    const size_t bands = ceil_div((size_t)a.pooled[0], (size_t)args.rows);
    struct step *s = emit_step(e, "conv_pool_stem", "main", (size_t)a.conv.n * bands, 1);
    stem_define(s, p, &a.conv, &tile);
    step_define(s, "LINE", LINE);
    step_define(s, "PW", at->kernel_size.v[1]);
    step_define(s, "PS", at->stride.v[1]);
    blocked_step(s, p, packed, &args, sizeof args);
    conv_pool_cost(s, p);
}

const struct algo_def algo_conv_pool_stem = {
    .name = "stem",
    .doc = "register tiles from row-major maps of few channels, pooled, to channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_ROW_MAJOR,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
