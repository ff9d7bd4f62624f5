/* gemm_panels: matrix products by register tiles for CPU devices; see kernels/matmul/gemm_panels.cl. */
#include "algos/matmul/gemm_common.h"
#include "algos/cost/cost.h"

#include <math.h>
#include <stdio.h>

enum {
    /* as the kernel has them: */
    PANEL_VECTORS = 2,
    WIDE_ROWS = 14,  /* of a tile, with vectors of 16 floats, */
    NARROW_ROWS = 6, /* and of 8 */
    DEPTH = 256,     /* products that are added at a time, at most, */
    NEAR_DEPTH =
        32, /* and where a computed right operand comes from memory: as many rows of it as have pages at hand */
    WIDE_SUMS = 64, /* tiles of a chunk, when there are more, */
    NARROW_SUMS = 128,
    TOGETHER = 16, /* tiles of 8 lanes that take a panel one after the other */
    PACK_ROWS = 64,
    NARROW_ITEMS_PER_UNIT = 16, /* so that a core that is held up leaves its share to the others */
};

/* How a product is shared out, and how its panels lie. */
struct panels {
    struct gemm_args gemm; /* items of the batch that are rows of one product are one item */
    size_t columns;        /* of a panel */
    size_t rows;           /* of a tile */
    size_t panels, tiles;  /* of an item */
    size_t items;          /* of b that differ */
    bool in_place;
};

/* Of an item of b, with what lies between its rows. */
static size_t right_bytes(const struct gemm_args *a)
{
    const size_t columns = a->b_n == 1 && a->b_k > a->n ? (size_t)a->b_k : (size_t)a->n;
    return sizeof(float) * (size_t)a->k * columns;
}

static size_t item_floats(const struct panels *s)
{
    return s->panels * s->columns * (size_t)s->gemm.k;
}

static size_t packed_bytes(const struct panels *s)
{
    return sizeof(float) * s->items * item_floats(s);
}

static struct panels panels_of(const struct problem *p, const struct gemm_problem *g)
{
    struct panels s = {
        .gemm = g->args,
        .columns = (size_t)(PANEL_VECTORS * p->block),
        .rows = p->block == 16 ? WIDE_ROWS : NARROW_ROWS,
        .items = 1,
    };
    struct gemm_args *a = &s.gemm;
    gemm_merge_items(a, g->c != NULL, p->add.present);
    s.panels = ceil_div((size_t)a->n, s.columns);
    s.tiles = ceil_div((size_t)a->m, s.rows);
    for (int d = 0; d < COUNT_OF(a->batch); d++)
        s.items *= a->b_b[d] != 0 ? (size_t)a->batch[d] : 1;
    s.in_place = !p->in[1].constant && a->b_n == 1 && a->n >= p->block &&
                 (right_bytes(a) <= GEMM_PANELS_NEAR_BYTES || s.tiles < GEMM_PANELS_PACK_TILES ||
                  packed_bytes(&s) > p->workspace_limit);
    return s;
}

static size_t workspace(const struct problem *p, const struct gemm_problem *g)
{
    const struct panels s = panels_of(p, g);
    return p->in[1].constant || s.in_place ? 0 : packed_bytes(&s);
}

/* Panels of every item of b that differs, the first one at `at`, and their strides in place of b's own. */
static int emit_panels(struct emit *e, const struct problem *p, enum act act, int64_t at,
                       const struct panels *s, i64 b_b[6])
{
    struct gemm_args a = s->gemm;
    int64_t stride = (int64_t)item_floats(s);
    for (int d = COUNT_OF(a.batch) - 1; d >= 0; d--) {
        b_b[d] = a.b_b[d] != 0 ? stride : 0;
        if (a.b_b[d] == 0)
            a.batch[d] = 1;
        stride *= a.batch[d];
    }
    char name[96];
    snprintf(name, sizeof name, "gemm_panels v%d i%zu n%d k%d b%lldx%lld", p->block, s->items, a.n, a.k,
             (long long)a.b_k, (long long)a.b_n);
    const size_t groups = s->items * s->panels * ceil_div((size_t)a.k, PACK_ROWS);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, packed_bytes(s), "gemm_panels", "pack", groups, 1, &setup);
    if (setup) {
        step_define(setup, "V", p->block);
        if (!p->in[1].constant) /* a program with the product */
            step_define_id(setup, "EPI_ACT", act_identifier(act));
        step_read_at(setup, p->in[1].view, at);
        step_write(setup, view);
        step_args(setup, &a, sizeof a);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)packed_bytes(s));
    }
    return view;
}

/* Panels and tiles of a chunk. */
struct chunk {
    size_t panels, tiles;
};

static size_t chunks_of(const struct panels *s, struct chunk c)
{
    return gemm_items(&s->gemm) * ceil_div(s->panels, c.panels) * ceil_div(s->tiles, c.tiles);
}

/* Parts of the time of a tile's products with a panel. */
struct shares {
    double rows, panel; /* copying the tile's rows, and bringing the panel's part near */
};

/* What a chunk brings near for each product of a tile and a panel, in parts of the time of such a product: the tiles' rows
 * for its panels, and the panels for its tiles. */
static double brought(struct shares s, struct chunk c)
{
    return 1.0 + s.rows / (double)c.panels + s.panel / (double)c.tiles;
}

/* All chunks take as long as a whole one, and the last ones may keep one core busy while others wait. */
static double wide_cost(const struct problem *p, const struct panels *s, struct chunk c)
{
    static const struct shares shares = {GEMM_PANELS_WIDE_ROWS_SHARE, GEMM_PANELS_WIDE_PANEL_SHARE};
    const size_t units = device_units(p->device), rounds = ceil_div(chunks_of(s, c), units);
    const double whole = (double)(rounds * units * c.tiles * c.panels);
    return brought(shares, c) * (whole + GEMM_PANELS_WIDE_WAIT_SHARE * (double)(units * c.tiles * c.panels));
}

/* Chunks that do not fill the last row or column of chunks cost time too. */
static double narrow_cost(const struct problem *p, const struct panels *s, struct chunk c)
{
    static const struct shares shares = {GEMM_PANELS_ROWS_SHARE, GEMM_PANELS_PANEL_SHARE};
    const size_t chunks = chunks_of(s, c), wanted = NARROW_ITEMS_PER_UNIT * device_units(p->device);
    const double each = brought(shares, c);
    return chunks >= wanted
               ? each
               : each * (1.0 + GEMM_PANELS_WAIT_SHARE * (double)(wanted - chunks) / (double)wanted);
}

/* The cheapest one of at most so many tiles, panels, and sums of both. */
static struct chunk cheapest(const struct problem *p, const struct panels *s, struct chunk most, size_t sums)
{
    struct chunk best = {1, 1};
    double least = INFINITY;
    for (size_t tiles = 1; tiles <= most.tiles && tiles <= s->tiles; tiles++)
        for (size_t panels = 1; panels <= most.panels && panels <= s->panels && panels * tiles <= sums;
             panels++) {
            const struct chunk c = {panels, tiles};
            const double cost = p->block == 16 ? wide_cost(p, s, c) : narrow_cost(p, s, c);
            if (cost < least) {
                least = cost;
                best = c;
            }
        }
    return best;
}

/* On vectors of 16 as many panels as stay in a core's second cache serve a tile, whose rows are copied once for them; on vectors of 8
 * a panel that stays in the first cache serves as many tiles as take turns. */
static struct chunk most_of(const struct problem *p, const struct panels *s, size_t depth)
{
    const size_t near = GEMM_PANELS_CHUNK_BYTES / (sizeof(float) * depth * s->columns);
    if (p->block == 16)
        return (struct chunk){near > 1 ? near : 1, SIZE_MAX};
    return (struct chunk){SIZE_MAX, TOGETHER};
}

static void share_out(const struct problem *p, const struct panels *s, struct gemm_panels_args *args)
{
    const bool streams = s->in_place && right_bytes(&s->gemm) > GEMM_PANELS_FRESH_BYTES;
    args->depth = streams ? NEAR_DEPTH : DEPTH;
    const size_t deepest = (size_t)args->depth,
                 depth = (size_t)s->gemm.k < deepest ? (size_t)s->gemm.k : deepest;
    const bool wide = p->block == 16, waits = s->gemm.k > args->depth;
    const size_t sums = wide ? WIDE_SUMS : NARROW_SUMS, most = waits ? sums : 4 * sums;
    const struct chunk c = cheapest(p, s, most_of(p, s, depth), most);
    const size_t across = ceil_div(s->panels, c.panels);
    args->across = (i32)across;
    args->panels = (i32)ceil_div(s->panels, across);
    args->down = (i32)ceil_div(s->tiles, c.tiles);
    args->tiles = (i32)ceil_div(s->tiles, (size_t)args->down);
}

static void emit_product(struct emit *e, const struct problem *p, const struct gemm_problem *g)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    const struct panels s = panels_of(p, g);
    struct gemm_panels_args args = {
        .gemm = s.gemm,
        .b_panel = (int64_t)(s.columns * (size_t)s.gemm.k),
        .b_row = s.in_place ? s.gemm.b_k : (int64_t)s.columns,
        .in_place = s.in_place,
        .c = g->c != NULL,
        .add = epilogue_add(p),
    };
    args.gemm.p0 = clipped.p0;
    args.gemm.p1 = clipped.p1;
    share_out(p, &s, &args);
    const int b = s.in_place ? p->in[1].view : emit_panels(e, p, clipped.act, g->at[1], &s, args.gemm.b_b);
    const size_t groups = gemm_items(&s.gemm) * (size_t)args.across * (size_t)args.down;
    struct step *step = emit_step(e, "gemm_panels", "main", groups, 1);
    step_define(step, "V", p->block);
    if (p->quick)
        step_define(step, "SMALL_CODE", 1);
    step_define_id(step, "EPI_ACT", act_identifier(clipped.act));
    step_read_at(step, p->in[0].view, g->at[0]);
    step_read_at(step, b, s.in_place ? g->at[1] : 0);
    step_read(step, g->c ? g->c->view : VIEW_NONE);
    step_read_added(step, p);
    step_write(step, p->out[0].view);
    step_args(step, &args, sizeof args);
    gemm_cost(step, p, &g->args);
}

/* So few that to pack the right operand takes longer than what is gained. */
static bool few_rows(const struct gemm_args *a)
{
    return a->m <=
           (right_bytes(a) > GEMM_PANELS_FRESH_BYTES ? GEMM_PANELS_FRESH_ROWS : GEMM_PANELS_FRESH_NEAR_ROWS);
}

static bool applicable(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    REQUIRE(why, p->block > 0, "register tiles are for CPU devices with vectors of 8 or 16 floats");
    const struct panels s = panels_of(p, g);
    const bool shallow =
        p->in[1].constant && s.gemm.k <= GEMM_PANELS_ROW_ELEMENTS && (size_t)s.gemm.n >= s.columns;
    PREFER(why, p->op != &op_linear || s.gemm.m > 1 || shallow || p->rows_elsewhere,
           "one row: dot products read the weights where they lie");
    PREFER(why, p->op != &op_linear || p->in[1].constant || s.in_place || !few_rows(&s.gemm),
           "few rows: dot products read weights that every run changes where they lie");
    const double macs = (double)gemm_items(&s.gemm) * s.gemm.m * s.gemm.n * s.gemm.k;
    const bool viewed = p->op == &op_matmul && ((const struct matmul_attrs *)p->attrs)->viewed;
    /* a view is packed in place of a transpose */
    PREFER(why, s.in_place || p->in[1].constant || viewed || macs >= GEMM_PANELS_PACK_MACS,
           "few products: a step that packs the right operand would take longer");
    return true;
}

#define PANELS_ALGO(op)                                                                 \
    GEMM_LIMITS(op)                                                                     \
    GEMM_EMIT(op##_emit, op, emit_product(e, p, &g))                                    \
    const struct algo_def algo_##op##_panels = {                                        \
        .name = "panels",                                                               \
        .doc = "register tiles of rows by panels of columns, packed or where they lie", \
        .devices = DEVICES_CPU,                                                         \
        .vectors = true,                                                                \
        .error = ERROR_STRICT,                                                          \
        .deterministic = true,                                                          \
        .stores_in_place = true,                                                          \
        .applicable = op##_fits,                                                        \
        .workspace = op##_workspace,                                                    \
        .emit = op##_emit,                                                              \
    }

PANELS_ALGO(linear);
PANELS_ALGO(matmul);
PANELS_ALGO(gemm);
