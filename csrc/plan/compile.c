/* compile.c: graph -> rewrite -> layouts -> views -> fp16 activations, cores -> select and emit -> commits -> arena -> programs -> weights -> warm. Data goes one way. */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum clcnn_status bind_io(struct blueprint *bp, const struct value_views *views, struct clcnn_err *err)
{
    const struct clcnn_graph *g = bp->graph;
    bp->inputs = clcnn_calloc((size_t)g->n_inputs + 1, sizeof *bp->inputs);
    bp->outputs = clcnn_calloc((size_t)g->n_outputs + 1, sizeof *bp->outputs);
    if (!bp->inputs || !bp->outputs)
        return clcnn_fail_mem(err, (size_t)(g->n_inputs + g->n_outputs) * sizeof *bp->inputs);
    for (int i = 0; i < g->n_inputs; i++) {
        const struct operand *o = &views->operand[g->inputs[i]];
        bp->inputs[i] =
            (struct io_view){{g->values[g->inputs[i]].name, o->shape, 0}, o->view, o->batch_stride};
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const struct operand *o = &views->operand[g->outputs[i].value];
        if (g->outputs[i].use == OUTPUT_RESULT)
            bp->outputs[bp->n_outputs++] =
                (struct io_view){{g->outputs[i].name, o->shape, 0}, o->view, o->batch_stride};
    }
    bp->n_inputs = g->n_inputs;
    return CLCNN_OK;
}

/* Marks the constants that a step reads; of a setup step those that are packed themselves: raw ones are there while it runs. */
static void mark_read(struct blueprint *bp, const struct step *s, bool setup)
{
    for (int b = 0; b < s->n_buffers; b++) {
        const int view = s->buffer[b].view, packed = view >= 0 ? bp->views[view].packed : -1;
        if (packed >= 0 && (!setup || bp->packed[packed].setup))
            bp->packed[packed].used = true;
    }
}

/* A raw constant is kept only when a step of the run, or an output, reads it. */
static void mark_used(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps; i++)
        mark_read(bp, bp->steps[i], false);
    for (int i = 0; i < bp->n_outputs; i++)
        if (bp->views[bp->outputs[i].view].packed >= 0)
            bp->packed[bp->views[bp->outputs[i].view].packed].used = true;
    for (int i = bp->n_packed - 1; i >= 0; i--) /* what a setup step reads stands before what it makes */
        if (bp->packed[i].used && bp->packed[i].setup)
            mark_read(bp, bp->packed[i].setup, true);
    for (int i = 0; i < bp->n_packed; i++)
        if (bp->packed[i].used)
            bp->stats.weights_bytes += bp->packed[i].bytes;
}

static enum clcnn_status add_gemm_scratch(struct blueprint *bp, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    bp->gemm_scratch = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *bp->gemm_scratch);
    if (!bp->gemm_scratch)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *bp->gemm_scratch);
    for (int i = 0; i < bp->n_steps; i++) {
        size_t bytes = 0;
        bp->gemm_scratch[i] = VIEW_NONE;
        if (bp->steps[i]->file)
            continue;
        TRY(gemm_scratch_bytes(&bytes, bp->dev, &bp->steps[i]->gemm, err));
        if (!bytes)
            continue;
        const int storage = blueprint_storage(bp, bp->steps[i]->layer, 1,
                                              (int64_t)ceil_div(bytes, sizeof(float)), false, true);
        bp->gemm_scratch[i] = storage < 0 ? -1 : blueprint_view(bp, storage, -1, 0);
        if (bp->gemm_scratch[i] < 0)
            return clcnn_fail_mem(err, sizeof(struct storage));
    }
done:
    return st;
}

/* Weights from which on the host memory that folding and packing have freed is given back to the system: glibc would keep
 * it, as much as all weights take. */
#define TRIM_BYTES ((uint64_t)16 << 20)

static void free_folded_weights(struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        free(g->values[i].owned);
        g->values[i].owned = NULL;
        g->values[i].data = NULL; /* borrowed ones may go away now */
    }
}

static enum clcnn_status rewrite(struct blueprint *bp, const struct clcnn_graph *graph,
                                 const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct device_traits traits = device_traits(&bp->dev->info);
    const struct rewrite_options rewrites = {
        .overrides = options->overrides,
        .override_count = options->override_count,
        .block = traits.channel_block,
        .gpu = !cpu_device(&bp->dev->info),
        .quick = options->quick,
        .byte_products = traits.byte_products,
        .arrivals = traits.tensor_cores,
        .keepers = traits.integrated_gpu ? 0 : bp->dev->info.max_group_size,
        .together = traits.waiting_groups ? device_units(&bp->dev->info) : 0,
    };
    TRY(graph_check(graph, err));
    TRY(graph_copy(&bp->graph, graph, err));
    TRY(graph_set_zeros(bp->graph, graph, options->zeros, options->zeros_count, err));
    if (options->fuse)
        TRY(graph_rewrite(bp->graph, &rewrites, &bp->notes, err));
    TRY(blueprint_take_apart(bp, options, err));
    graph_note_rectified(bp->graph);
    if (traits.channel_block)
        TRY(graph_note_few_bits(bp->graph, err));
    if (traits.warpgroups && plan_has_cores(options))
        graph_note_bounds(bp->graph);
done:
    return st;
}

/* Whether there are linear layers of several rows. */
static bool has_several_rows(const struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        if (n->dead || n->op != &op_linear)
            continue;
        const struct clcnn_shape *x = &g->values[n->in[0]].shape;
        if (shape_count(x) > x->dim[x->rank - 1])
            return true;
    }
    return false;
}

static enum clcnn_status make_blueprint(struct blueprint *bp, const struct clcnn_graph *graph,
                                        const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct value_views views = {0};
    bp->rows_elsewhere = options->quick && has_several_rows(bp->graph);
    TRY(blueprint_states(bp, options, err));
    blueprint_least_arena(bp);
    TRY(blueprint_batch_slices(bp, options->batch_part, err));
    TRY(layout_values(bp, options, err));
    TRY(blueprint_private_values(bp, err));
    find_in_commit(bp->graph);
    TRY(find_value_views(&views, bp, options, err));
    TRY(choose_fp16_activations(bp, &views, options, err));
    TRY(choose_cores(bp, &views, options, err));
    TRY(emit_layers(bp, &views, options, graph, err));
    TRY(emit_commits(bp, &views, options, err));
    TRY(bind_io(bp, &views, err));
    mark_used(bp);
    TRY(add_gemm_scratch(bp, err));
    TRY(blueprint_share_variants(bp, err));
    TRY(blueprint_variants(bp, err));
    TRY(blueprint_order(bp, err));
    TRY(arena_plan(bp, err));
    blueprint_waits(bp);
    blueprint_zero_copy(bp);
    blueprint_ready(bp);
    TRY(blueprint_describe_steps(bp, err));
    bp->stats.step_count = bp->n_steps;
done:
    value_views_free(&views);
    return st;
}

/* One without a graph; `chained`: its algorithms expect chains of groups. */
static struct blueprint *empty_blueprint(struct clcnn_device *dev, const struct clcnn_plan_options *options,
                                         struct blueprint *like, bool chained)
{
    struct blueprint *bp = clcnn_calloc(1, sizeof *bp);
    if (!bp)
        return NULL;
    pthread_mutex_init(&bp->lock, NULL);
    atomic_init(&bp->refs, 1);
    atomic_init(&bp->open, 1);
    bp->dev = dev;
    bp->device = dev->info;
    if (options->profile)
        bp->device.profile = *options->profile;
    bp->guard = options->guard;
    bp->chain = options->chain;
    bp->chained = chained;
    bp->like = like;
    if (like)
        blueprint_retain(like);
    return bp;
}

/* What is compiled, rewritten once: folding overwrites constants that a compile may overwrite. Blueprints copy the graph of
 * `rewritten`, whose weights they read. */
struct subject {
    const struct clcnn_graph *original;
    struct blueprint *rewritten;
};

static enum clcnn_status new_blueprint(struct blueprint **out, const struct subject *of,
                                       const struct clcnn_plan_options *options, bool chained,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = empty_blueprint(of->rewritten->dev, options, of->rewritten->like, chained);
    if (!bp)
        return clcnn_fail_mem(err, sizeof *bp);
    TRY(graph_copy(&bp->graph, of->rewritten->graph, err));
    for (int i = 0; i < of->rewritten->notes.n; i++)
        TRY(notes_add(&bp->notes, err, "%s", of->rewritten->notes.line[i]));
    TRY(make_blueprint(bp, of->original, options, err));
    *out = bp;
    bp = NULL;
done:
    blueprint_release(bp);
    return st;
}

/* With chains where the device has them and the rules take them. */
static enum clcnn_status best_blueprint(struct blueprint **out, const struct subject *of,
                                        const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const bool chained = of->rewritten->chained;
    struct blueprint *bp = NULL;
    TRY(new_blueprint(&bp, of, options, chained, err));
    if (chained && bp->stats.chained_steps == 0) { /* for launches other forms of algorithms are better */
        blueprint_release(bp);
        bp = NULL;
        TRY(new_blueprint(&bp, of, options, false, err));
    }
    *out = bp;
done:
    return st;
}

/* ---- memory_limit ---------------------------------------------------------------------------------------------- */

#define LEAST_WORKSPACE ((size_t)64 << 10)           /* less saves nothing */
static const int fresh_filters[] = {0, 20, INT_MAX}; /* percent, as in the options */
#define MOST_SLICES 64                               /* of a batch: each has steps of its own */
#define MOST_SEGMENTS 32                             /* of forward, and so many */
#define SHARES 8                                     /* of the maps that backward may compute again */

static uint64_t memory_of(const struct blueprint *bp)
{
    return bp->stats.arena_bytes + bp->stats.weights_bytes;
}

/* What a run is expected to take, as multiply-adds of a plain product. */
static double effort_of(const struct blueprint *bp)
{
    double effort = 0.0;
    for (int i = 0; i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        const double computing = s->macs * s->effort / 100, moving = s->bytes * PLAN_BYTE_MACS;
        effort += PLAN_STEP_MACS + (computing > moving ? computing : moving);
    }
    return effort;
}

static void keep(struct blueprint **kept, struct blueprint *better)
{
    blueprint_retain(better);
    blueprint_release(*kept);
    *kept = better;
}

/* One more plan to choose from. Tells whether it fits. */
static bool consider(struct blueprint **fastest, struct blueprint **smallest, struct blueprint *tried,
                     uint64_t limit)
{
    const bool fits = memory_of(tried) <= limit;
    if (memory_of(tried) < memory_of(*smallest))
        keep(smallest, tried);
    if (fits && (!*fastest || effort_of(tried) < effort_of(*fastest)))
        keep(fastest, tried);
    return fits;
}

static size_t less_scratch(size_t limit)
{
    return limit > LEAST_WORKSPACE ? limit / 4 : 0;
}

/* The plan that is expected to be fastest among those that fit, and the smallest of those that were tried, at so many items at a time
 * with the most scratch that fits, since the more an algorithm may have, the faster is what the rules choose. */
static enum clcnn_status try_scratch(struct blueprint **fastest, struct blueprint **smallest,
                                     const struct subject *of, struct clcnn_plan_options options,
                                     struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (bool fits = false, last = false; !fits && !last;) {
        struct blueprint *tried;
        last = options.workspace_limit == 0;
        st = best_blueprint(&tried, of, &options, err);
        if (st == CLCNN_E_UNSUPPORTED)
            return CLCNN_OK; /* an algorithm that the caller asks for needs more */
        TRY(st);
        fits = consider(fastest, smallest, tried, options.memory_limit);
        blueprint_release(tried);
        options.workspace_limit = less_scratch(options.workspace_limit);
    }
done:
    return st;
}

static enum clcnn_status too_large(const struct blueprint *smallest, uint64_t limit, struct clcnn_err *err)
{
    return clcnn_fail(
        err, CLCNN_E_DEVICE_MEM,
        "the smallest plan needs %.1f KiB (arena %.1f + weights %.1f), more than memory_limit %.1f KiB",
        (double)memory_of(smallest) / 1024.0, (double)smallest->stats.arena_bytes / 1024.0,
        (double)smallest->stats.weights_bytes / 1024.0, (double)limit / 1024.0);
}

/* The same with all items at a time, and with fewer where the caller leaves that open. `known`: what all items take with all scratch
 * was tried before, and is *smallest. */
static enum clcnn_status try_items(struct blueprint **fastest, struct blueprint **smallest,
                                   const struct subject *of, struct clcnn_plan_options options, bool known,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan_options whole = options;
    const struct clcnn_graph *g = of->original;
    const struct clcnn_shape *x = g->n_inputs ? &g->values[g->inputs[0]].shape : NULL;
    const int batch = options.batch_part == 0 && x && x->rank > 0 ? x->dim[0] : 1;
    if (known)
        whole.workspace_limit = less_scratch(options.workspace_limit);
    if (!known || options.workspace_limit > 0)
        TRY(try_scratch(fastest, smallest, of, whole, err));
    for (int slices = 2; slices <= batch && slices <= MOST_SLICES; slices++)
        if (batch % slices == 0) {
            options.batch_part = batch / slices;
            TRY(try_scratch(fastest, smallest, of, options, err));
        }
done:
    return st;
}

/* The same with filters that are not kept transformed. */
static enum clcnn_status try_forms(struct blueprint **fastest, struct blueprint **smallest,
                                   const struct subject *of, struct clcnn_plan_options options,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < COUNT_OF(fresh_filters); i++) {
        options.fresh_filters = fresh_filters[i];
        TRY(try_items(fastest, smallest, of, options, i == 0, err));
    }
done:
    return st;
}

/* What was rewritten, with a backward that computes maps again; *out: NULL where that is none. */
static enum clcnn_status recomputing(struct blueprint **out, const struct blueprint *from, double share,
                                     int segments, const struct clcnn_plan_options *options,
                                     struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    int repeated;
    struct blueprint *bp = empty_blueprint(from->dev, options, from->like, from->chained);
    *out = NULL;
    if (!bp)
        return clcnn_fail_mem(err, sizeof *bp);
    TRY(graph_copy(&bp->graph, from->graph, err));
    for (int i = 0; i < from->notes.n; i++)
        TRY(notes_add(&bp->notes, err, "%s", from->notes.line[i]));
    TRY(graph_recompute(bp->graph, share, segments, &repeated, err));
    TRY(notes_add(&bp->notes, err, "memory_limit: %d nodes are computed again in backward", repeated));
    if (repeated) {
        *out = bp;
        bp = NULL;
    }
done:
    blueprint_release(bp);
    return st;
}

/* The same choice among plans whose backward computes maps again, with the algorithms and so the bits of the fastest one. *least: what
 * the smallest of them is made of. */
static enum clcnn_status try_recomputing(struct blueprint **fastest, struct blueprint **smallest,
                                         struct blueprint **least, const struct subject *of,
                                         const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *made = NULL, *tried = NULL;
    for (int share = 1; share <= SHARES; share++)
        for (int segments = 0; segments <= MOST_SEGMENTS; segments = segments ? 2 * segments : 2) {
            TRY(recomputing(&made, of->rewritten, (double)share / SHARES, segments, options, err));
            if (!made)
                continue;
            TRY(best_blueprint(&tried, &(struct subject){of->original, made}, options, err));
            if (memory_of(tried) < memory_of(*smallest))
                keep(least, made);
            consider(fastest, smallest, tried, options->memory_limit);
            blueprint_release(tried);
            blueprint_release(made);
            made = tried = NULL;
        }
done:
    blueprint_release(made);
    return st;
}

/* Another plan instead of *bp, which needs more than memory_limit: where it trains, with maps that are computed again; with less
 * scratch, fewer items of the batch at a time, filters that are not kept transformed. */
static enum clcnn_status meet_memory_limit(struct blueprint **bp, const struct subject *of,
                                           const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *fastest = NULL, *smallest = NULL, *least = NULL;
    keep(&smallest, *bp);
    keep(&least, of->rewritten);
    if (graph_assigns(of->original))
        TRY(try_recomputing(&fastest, &smallest, &least, of, options, err));
    if (!fastest)
        TRY(try_forms(&fastest, &smallest, &(struct subject){of->original, least}, *options, err));
    if (!fastest)
        TRY(too_large(smallest, options->memory_limit, err));
    TRY(notes_add(&fastest->notes, err,
                  "memory_limit: %.1f instead of %.1f KiB, at %.2f times the expected time",
                  (double)memory_of(fastest) / 1024.0, (double)memory_of(*bp) / 1024.0,
                  effort_of(fastest) / effort_of(*bp)));
    blueprint_release(*bp);
    *bp = fastest;
    fastest = NULL;
done:
    blueprint_release(fastest);
    blueprint_release(smallest);
    blueprint_release(least);
    return st;
}

enum clcnn_status clcnn_plan_compile(struct clcnn_plan **out, struct clcnn_device *dev,
                                     const struct clcnn_graph *graph,
                                     const struct clcnn_plan_options *options,
                                     const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan *plan = NULL;
    struct blueprint *bp = NULL;
    struct subject of = {graph, NULL};
    struct clcnn_state *entered = NULL;
    TRY(device_enter(dev, err));
    const double start = clcnn_clock_ms();
    /* a run that commits is not repeated */
    const bool chained =
        options->chain != CLCNN_CHAIN_OFF && device_chains_groups(&dev->info) && !graph_assigns(graph);
    of.rewritten = empty_blueprint(dev, options, like_of(dev, options->like), chained);
    if (!of.rewritten)
        TRY(clcnn_fail_mem(err, sizeof *of.rewritten));
    TRY(rewrite(of.rewritten, graph, options, err));
    TRY(best_blueprint(&bp, &of, options, err));
    if (options->memory_limit && memory_of(bp) > options->memory_limit)
        TRY(meet_memory_limit(&bp, &of, options, err));
    const double selected = clcnn_clock_ms();
    TRY(blueprint_programs(bp, patience, err));
    programs_keep_list(dev);
    const double built = clcnn_clock_ms();
    TRY(blueprint_weights(bp, patience, err));
    free_folded_weights(bp->graph);
    free_folded_weights(of.rewritten->graph);
    if (bp->stats.weights_bytes >= TRIM_BYTES)
        alloc_trim();
    const double packed = clcnn_clock_ms();
    if (bp->state) /* warming reads it */
        TRY(state_enter(bp->state, false, patience, err));
    entered = bp->state;
    TRY(plan_instantiate(&plan, bp, err));
    if (bp->like && !bp->new_programs && bp->like->rate > 0)
        queue_expect(plan->queue, bp->rate = bp->like->rate);
    else
        TRY(plan_warm(plan, patience, err));
    bp->stats.select_ms = selected - start;
    bp->stats.build_ms = built - selected;
    bp->stats.weights_ms = packed - built;
    bp->stats.warm_ms = clcnn_clock_ms() - packed;
    *out = plan;
    plan = NULL;
done:
    clcnn_plan_free(plan);
    if (entered)
        state_leave(entered, NULL);
    blueprint_release(of.rewritten);
    blueprint_close(bp); /* the plan holds its own share */
    blueprint_release(bp);
    return st;
}
