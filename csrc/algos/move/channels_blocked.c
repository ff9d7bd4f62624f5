/* channels_blocked: concat, split, slices and orders of channels on channel blocks, whole or cut short anywhere; see
 * kernels/move/channels_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/common/rows.h"
#include "move/move_args.h"

#define LEAST_PART 64 /* pixels of a work-item, at least */

/* A step that is being put together: it writes channels of y from `first` on. */
struct gathering {
    const struct problem *p;
    struct emit *e;
    const struct operand *y;
    int views[CHANNEL_SOURCES];
    struct channels_args a;
};

static struct gathering start(const struct problem *p, struct emit *e, const struct operand *y)
{
    return (struct gathering){
        .p = p, .e = e, .y = y, .a = {.y_n = y->batch_stride, .pixels = (i32)shape_count_from(&y->shape, 2)}};
}

/* Writes the step, if there is anything to do, and begins another one. */
static void finish(struct gathering *g)
{
    struct channels_args *a = &g->a;
    const size_t block = (size_t)g->p->block,
                 blocks = ceil_div((size_t)a->past, block) - (size_t)a->first / block;
    const size_t planes = (size_t)g->y->shape.dim[0] * blocks;
    if (a->runs == 0)
        return;
    a->part = blocked_run(g->p, planes, (size_t)a->pixels, LEAST_PART);
    struct step *s =
        emit_step(g->e, "channels_blocked", "main", planes * ceil_div((size_t)a->pixels, (size_t)a->part), 1);
    step_define(s, "V", g->p->block);
    for (int i = 0; i < CHANNEL_SOURCES; i++)
        step_read(s, i < a->sources ? g->views[i] : VIEW_NONE);
    if (a->first % g->p->block)
        step_update(s, g->y->view);
    else
        step_write(s, g->y->view);
    step_args(s, a, sizeof *a);
    step_cost(s, 0, 8.0 * (double)planes * (double)block * (double)a->pixels);
    a->runs = a->sources = 0;
}

static int source_of(struct gathering *g, const struct operand *x)
{
    struct channels_args *a = &g->a;
    for (int i = 0; i < a->sources; i++)
        if (g->views[i] == x->view)
            return i;
    if (a->sources == CHANNEL_SOURCES)
        finish(g);
    const int i = a->sources++;
    g->views[i] = x->view;
    a->x_n[i] = x->batch_stride;
    a->x_blocks[i] = blocked_count(g->p, x->of ? x->of : x->shape.dim[1]);
    return i;
}

/* Runs come in the order of `to`. */
static void add_run(struct gathering *g, const struct operand *x, int from, int from_step, int to, int count)
{
    struct channels_args *a = &g->a;
    if (a->runs == CHANNEL_RUNS)
        finish(g);
    const int source = source_of(g, x);
    if (a->runs == 0)
        a->first = to;
    a->past = to + count;
    a->run[a->runs++] = (struct channel_run){source, x->first + from, to, count, from_step, 1};
}

static bool map_of_blocks(const struct problem *p, struct why *why)
{
    const int rank = p->in[0].shape.rank;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32 && rank >= 3 && rank <= 5, "x is no map of floats");
    return true;
}

/* Where inputs lie is known when the planner comes to the node; forced, reorders see to it. */
static bool on_blocks(const struct problem *p, struct why *why)
{
    int64_t blocked = 0, all = 0;
    for (int i = 0; i < p->n_in; i++) {
        all += p->in[i].shape.dim[1];
        blocked += p->in[i].block ? p->in[i].shape.dim[1] : 0;
    }
    if (p->asked)
        *p->asked = true;
    PREFER(why, 2 * blocked >= all, "most channels do not lie on channel blocks");
    return true;
}

/* ---- concat and split ----------------------------------------------------------------------------------------- */

static bool concat_applicable(const struct problem *p, struct why *why)
{
    if (!map_of_blocks(p, why))
        return false;
    REQUIRE(why, ((const struct dim_attrs *)p->attrs)->dim == 1, "what is joined are no channels");
    return on_blocks(p, why);
}

static void emit_concat(const struct problem *p, struct emit *e)
{
    struct gathering g = start(p, e, &p->out[0]);
    int at = 0;
    for (int i = 0; i < p->n_in; i++) {
        const int count = p->in[i].shape.dim[1];
        if (p->in[i].in_place)
            finish(&g);
        else
            add_run(&g, &p->in[i], 0, 1, at, count);
        at += count;
    }
    finish(&g);
}

static bool split_applicable(const struct problem *p, struct why *why)
{
    if (!map_of_blocks(p, why))
        return false;
    REQUIRE(why, ((const struct split_attrs *)p->attrs)->dim == 1, "what is split are no channels");
    return on_blocks(p, why);
}

static void emit_split(const struct problem *p, struct emit *e)
{
    int at = 0;
    for (int i = 0; i < p->n_out; i++) {
        struct gathering g = start(p, e, &p->out[i]);
        if (!p->out[i].in_place)
            add_run(&g, &p->in[0], at, 1, 0, p->out[i].shape.dim[1]);
        finish(&g);
        at += p->out[i].shape.dim[1];
    }
}

/* ---- slices --------------------------------------------------------------------------------------------------- */

static bool slice_applicable(const struct problem *p, struct why *why)
{
    const struct slice_attrs *attrs = p->attrs;
    bool channels = true;
    if (!map_of_blocks(p, why))
        return false;
    for (int d = 0; d < p->in[0].shape.rank; d++)
        channels = channels &&
                   (d == 1 || (p->in[0].shape.dim[d] == p->out[0].shape.dim[d] && attrs->steps.v[d] == 1));
    REQUIRE(why, channels, "items or pixels are left out");
    return on_blocks(p, why);
}

static void emit_slice(const struct problem *p, struct emit *e)
{
    const struct slice_attrs *attrs = p->attrs;
    struct gathering g = start(p, e, &p->out[0]);
    add_run(&g, &p->in[0], attrs->starts.v[1], attrs->steps.v[1], 0, p->out[0].shape.dim[1]);
    finish(&g);
}

#define CHANNELS_ALGO(op, applies, emitter)                      \
    const struct algo_def algo_##op##_channels = {               \
        .name = "channels",                                      \
        .doc = "runs of channels by vectors, on channel blocks", \
        .devices = DEVICES_CPU,                                  \
        .error = ERROR_EXACT,                                    \
        .deterministic = true,                                   \
        .src = LAYOUT_BLOCKED,                                   \
        .dst = LAYOUT_BLOCKED,                                   \
        .applicable = applies,                                   \
        .emit = emitter,                                         \
    }
CHANNELS_ALGO(concat, concat_applicable, emit_concat);
CHANNELS_ALGO(split, split_applicable, emit_split);
CHANNELS_ALGO(slice, slice_applicable, emit_slice);
