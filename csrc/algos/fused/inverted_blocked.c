/* inverted_blocked: a 1x1, a depthwise and a 1x1 convolution on channel blocks, of the wide map only the rows under a window, in
 * a core's cache; see kernels/fused/inverted_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"

struct scheme {
    struct separable_tile tile;
    int channels; /* of the wide map, at most */
    int held;     /* floats of its rows, at most; 0: they do not fit */
    int rows;     /* of the output, of a work-item */
};

/* The tile that computes least beyond the edges of a row; the first of equals. */
static struct separable_tile tile_of(const struct problem *p, const struct separable_args *a)
{
    int count;
    const struct separable_tile *tiles = separable_tiles(p, &count);
    struct separable_tile best = {0};
    size_t least = 0;
    for (int i = 0; i < count; i++) {
        const struct separable_tile *t = &tiles[i];
        const size_t pixels = (size_t)a->in[0] * round_up((size_t)a->in[1], (size_t)t->t) +
                              (size_t)a->out[0] * round_up((size_t)a->out[1], (size_t)t->t);
        if (a->in[1] >= t->t && (!best.t || pixels < least)) {
            least = pixels;
            best = *t;
        }
    }
    return best;
}

/* Few sizes, so that few variants are built. */
static int held_of(const struct problem *p, const struct separable_args *a, const struct scheme *s)
{
    const size_t floats = round_up((size_t)a->c, (size_t)p->block) * (size_t)(a->ker[0] * a->in[1]);
    for (size_t held = 16384; held <= 131072; held *= 2)
        if (floats <= held)
            return sizeof(float) * (held + (size_t)(s->channels * s->tile.t)) <= p->device->local_mem_bytes
                       ? (int)held
                       : 0;
    return 0;
}

/* Rows of the wide map that the next work-item shares, since their windows overlap. */
static int shared_rows(const struct separable_args *a)
{
    return a->ker[0] > a->stride[0] ? a->ker[0] - a->stride[0] : 0;
}

/* Rows that the core with most work-items makes, when an image has so many of them. */
static size_t rows_of_busiest(const struct problem *p, const struct separable_args *a, size_t runs)
{
    const size_t rows = ceil_div((size_t)a->out[0], runs) * (size_t)a->stride[0] + (size_t)shared_rows(a);
    return ceil_div((size_t)a->n * runs, device_units(p->device)) * rows;
}

static int rows_of(const struct problem *p, const struct separable_args *a)
{
    size_t best = 1;
    for (size_t runs = 2; runs <= device_units(p->device) && runs <= (size_t)a->out[0]; runs++)
        if (rows_of_busiest(p, a, runs) < rows_of_busiest(p, a, best))
            best = runs;
    return (int)ceil_div((size_t)a->out[0], best);
}

static struct conv_packing packing_of(const struct problem *p, const struct separable_tile *tile)
{
    return (struct conv_packing){.block = tile->kv * p->block};
}

/* They are read anew for every row. */
static bool rows_stay_near(const struct problem *p, const struct scheme *s)
{
    const double bytes = sizeof(float) * ((double)shape_count(&p->in[1].shape) +
                                          (double)shape_count(&p->in[5].shape) + (double)s->held);
    return bytes <= INVERTED_CACHE_RATIO * (double)device_traits(p->device).core_cache_bytes;
}

/* Whether work-items make few rows that another one makes, too. */
static bool rows_made_once(const struct separable_args *a, const struct scheme *s)
{
    const int seams = (int)ceil_div((size_t)a->out[0], (size_t)s->rows) - 1;
    return shared_rows(a) * seams <= INVERTED_AGAIN_RATIO * a->in[0];
}

/* Whether each part would be computed by the same tiles, on its own: others take fewer products. */
static bool parts_by_tiles(const struct inverted *parts)
{
    return algo_preferred(&parts->expand) == &algo_conv_blocked &&
           algo_preferred(&parts->tail) == &algo_separable_blocked;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct inverted parts;
    inverted_parts(p, &parts);
    const struct separable_args a = separable_args_of(&parts.tail);
    REQUIRE(why, a.dil[0] == 1, "the rows under a window must be neighbours");
    struct scheme s = {.tile = tile_of(p, &a), .channels = a.c <= 512 ? 512 : 2048};
    REQUIRE(why, s.tile.t > 0, "rows of the wide map have fewer pixels than a tile");
    REQUIRE(why, a.c <= s.channels, "a row tile of up to 2048 middle channels must fit local memory");
    s.held = held_of(p, &a, &s);
    REQUIRE(why, s.held > 0,
            "the rows of the wide map that a window covers must fit local memory, and 512 KiB");
    s.rows = rows_of(p, &a);
    DECIDE(p, s);
    PREFER(why, rows_stay_near(p, &s), "weights and rows of the wide map are beyond a core's cache");
    PREFER(why, rows_made_once(&a, &s),
           "few rows for each core, of which neighbours would make too many twice");
    PREFER(why, parts_by_tiles(&parts), "a part of it has a faster algorithm of its own");
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct inverted parts;
    struct scheme s;
    inverted_parts(p, &parts);
    DECIDED(p, s);
    struct separable tail;
    separable_parts(&parts.tail, &tail);
    const struct conv_args expand = conv_args_of(&parts.expand), dw = conv_args_of(&tail.dw);
    return conv_packing_workspace(&parts.expand, &expand, packing_of(p, &s.tile)) +
           depthwise_packing_workspace(&tail.dw, &dw) +
           separable_packing_workspace(&parts.tail, packing_of(p, &s.tile));
}

/* Multiply-adds, and bytes with every operand but what lies between read or written once. */
static void cost_of(struct step *step, const struct problem *p, const struct inverted_args *a)
{
    const struct separable_args *tail = &a->tail.shape;
    const double in = (double)tail->in[0] * tail->in[1], out = (double)tail->out[0] * tail->out[1],
                 n = tail->n;
    const double expand = (double)a->c * tail->c;
    const double rest = (double)tail->c * tail->ker[0] * tail->ker[1] + (double)tail->c * tail->k;
    step_cost(step, n * (in * expand + out * rest),
              4.0 * (n * in * a->c + expand + rest + n * out * tail->k * (p->add.present ? 2.0 : 1.0)));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct inverted parts;
    struct scheme s;
    inverted_parts(p, &parts);
    DECIDED(p, s);
    struct separable tail;
    separable_parts(&parts.tail, &tail);
    const struct conv_args expand = conv_args_of(&parts.expand), dw = conv_args_of(&tail.dw),
                           pw = conv_args_of(&tail.pw);
    struct inverted_args a = {
        .tail = {.shape = separable_args_of(&parts.tail), .epi = blocked_epilogue_of(p, &tail.pw_in[2])},
        .expand = blocked_epilogue_of(&parts.expand, &parts.expand_in[2]),
        .c = expand.c,
        .rows = s.rows,
    };
    a.tail.shape.src_n = p->in[0].batch_stride;
    const int expand_packed = emit_conv_packed(e, &parts.expand, &expand, packing_of(p, &s.tile));
    const int dw_packed = emit_depthwise_packed(e, &tail.dw, &dw);
    const int pw_packed = emit_conv_packed(e, &tail.pw, &pw, packing_of(p, &s.tile));
    const size_t groups = (size_t)a.tail.shape.n * ceil_div((size_t)a.tail.shape.out[0], (size_t)s.rows);
    struct step *step = emit_step(e, "inverted_blocked", "main", groups, 1);
    float unused[2];
    step_define_id(step, "EXPAND_ACT", act_identifier(act_as_clip(parts.expand.act, &unused[0], &unused[1])));
    step_define(step, "DT", s.tile.dt);
    step_define(step, "T", s.tile.t);
    step_define(step, "KV", s.tile.kv);
    step_define_at_least(step, "CHANNELS", s.channels);
    step_define_at_least(step, "ROWS_HELD", s.held);
    step_read(step, p->in[0].view);
    step_read(step, expand_packed);
    step_read(step, p->in[2].present ? p->in[2].view : VIEW_NONE);
    blocked_middle_of(step, &tail, dw_packed, &a.tail.shape);
    step_read(step, pw_packed);
    blocked_step_epilogue(step, p, &tail.pw_in[2]);
    step_write(step, p->out[0].view);
    step_args(step, &a, sizeof a);
    cost_of(step, p, &a);
}

const struct algo_def algo_inverted_residual_blocked = {
    .name = "blocked",
    .doc = "one kernel on channel blocks, the rows of the wide map under a window in a core's cache",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = BLOCKED_EFFORT_PERCENT,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
