/* memory_limit.c: another plan where the fastest one takes more than memory_limit. Blueprints are made again, up to weights, with
 * less scratch, fewer items of the batch at a time, and filters that are made in every run but for those that save most time for
 * their bytes; of those that fit the one with the least expected time is taken. A plan that trains computes maps again in backward before that. */
#include "algos/cost/cost.h"
#include "plan/plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_WORKSPACE ((size_t)64 << 10) /* less saves nothing */
#define MOST_SLICES 64                     /* of a batch: each has steps of its own */
#define ALL_LEVELS INT_MAX                 /* of scratch, */
#define TAIL_LEVELS 2                      /* and as many when more layers compute all items; */
#define MOST_MISSES 3                      /* that did not fit, one after the other */
#define KEPT_TRIES 3                       /* of a plan, each with half the bytes */
#define MOST_SEGMENTS 32                   /* of forward, and so many */
#define SHARES 8                           /* of the maps that backward may compute again */

static uint64_t memory_of(const struct blueprint *bp)
{
    return bp->stats.arena_bytes + bp->stats.weights_bytes;
}

/* What a step is expected to take, as multiply-adds of a plain product. */
static double step_effort(const struct step *s)
{
    const double computing = s->macs * s->effort / 100, moving = s->bytes * PLAN_BYTE_MACS;
    return PLAN_STEP_MACS + (computing > moving ? computing : moving);
}

static double effort_of(const struct blueprint *bp)
{
    double effort = 0.0;
    for (int i = 0; i < bp->n_steps; i++)
        effort += step_effort(bp->steps[i]);
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

/* ---- filters that are kept after all ---- */

/* Of a node: what its steps are expected to take, and bytes of its weights. */
struct node_cost {
    double effort;
    uint64_t weights;
};

static int node_of_layer(const struct clcnn_graph *g, const char *layer)
{
    int i = 0;
    while (i < g->n_nodes && g->nodes[i].name != layer)
        i++;
    return i;
}

/* Per node, and one more for all that belongs to none; malloc'd, NULL: no memory. */
static struct node_cost *node_costs_of(const struct blueprint *bp)
{
    const struct clcnn_graph *g = bp->graph;
    struct node_cost *costs = clcnn_calloc((size_t)g->n_nodes + 1, sizeof *costs);
    for (int i = 0; costs && i < bp->n_steps; i++)
        costs[node_of_layer(g, bp->steps[i]->layer)].effort += step_effort(bp->steps[i]);
    for (int i = 0; costs && i < bp->n_packed; i++)
        if (bp->packed[i].used)
            costs[node_of_layer(g, bp->packed[i].layer)].weights += bp->packed[i].bytes;
    return costs;
}

/* A node whose filters may be kept: bytes that it takes, and time that it saves. */
struct gain {
    int node;
    double bytes, effort;
};

static int most_for_its_bytes_first(const void *a, const void *b)
{
    const struct gain *x = a, *y = b;
    const double difference = x->effort * y->bytes - y->effort * x->bytes;
    return difference > 0.0 ? -1 : difference < 0.0 ? 1 : x->node - y->node;
}

/* Marks the nodes whose filters to keep in so many bytes, from what a plan takes that makes them in every run and one that does
 * not. Tells whether there are any. */
static bool choose_kept(bool *kept, struct gain *gains, const struct node_cost *fresh,
                        const struct node_cost *all, int nodes, double room)
{
    int n = 0;
    bool any = false;
    for (int i = 0; i < nodes; i++) {
        const double more = (double)all[i].weights - (double)fresh[i].weights;
        const struct gain g = {i, more > 0.0 ? more : 0.0, fresh[i].effort - all[i].effort};
        kept[i] = false;
        if (g.effort > 0.0)
            gains[n++] = g;
    }
    qsort(gains, (size_t)n, sizeof *gains, most_for_its_bytes_first);
    for (int i = 0; i < n; i++) {
        if (gains[i].bytes > room)
            continue;
        room -= gains[i].bytes;
        kept[gains[i].node] = any = true;
    }
    return any;
}

/* A plan like `tried`, which fits and makes all filters in every run, with those kept that save most time for their bytes. */
static enum clcnn_status try_kept(struct blueprint **fastest, struct blueprint **smallest,
                                  const struct subject *of, struct clcnn_plan_options options,
                                  const struct blueprint *tried, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const int nodes = tried->graph->n_nodes;
    struct blueprint *made = NULL;
    struct node_cost *fresh = node_costs_of(tried), *all = NULL;
    struct gain *gains = clcnn_calloc((size_t)nodes + 1, sizeof *gains);
    bool *kept = clcnn_calloc((size_t)nodes + 1, sizeof *kept);
    double room = (double)(options.memory_limit - memory_of(tried));
    if (!fresh || !gains || !kept)
        TRY(clcnn_fail_mem(err, (size_t)nodes * sizeof *gains));
    memset(kept, true, (size_t)nodes);
    options.frugal.kept = kept;
    TRY(best_blueprint(&made, of, &options, err));
    all = node_costs_of(made);
    if (!all)
        TRY(clcnn_fail_mem(err, (size_t)nodes * sizeof *all));
    bool fits = false;
    for (int i = 0; !fits && i < KEPT_TRIES && choose_kept(kept, gains, fresh, all, nodes, room); i++) {
        blueprint_release(made);
        made = NULL;
        TRY(best_blueprint(&made, of, &options, err));
        fits = consider(fastest, smallest, made, options.memory_limit);
        room /= 2.0; /* the arena has grown */
    }
done:
    blueprint_release(made);
    free(fresh);
    free(all);
    free(gains);
    free(kept);
    return st;
}

/* ---- scratch, and items at a time ---- */

/* The plan that is expected to be fastest among those that fit, and the smallest of those that were tried, at so many items at a time
 * with the most scratch that fits, since the more an algorithm may have, the faster is what the rules choose; of so many
 * levels of scratch. *fits: there is one, and then options have its scratch. */
static enum clcnn_status try_scratch(struct blueprint **fastest, struct blueprint **smallest,
                                     const struct subject *of, struct clcnn_plan_options *options, int levels,
                                     bool *fits, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    size_t scratch = options->workspace_limit;
    *fits = false;
    for (bool last = false; !*fits && !last && levels > 0; levels--) {
        struct blueprint *tried;
        struct clcnn_plan_options with = *options;
        with.workspace_limit = scratch;
        last = scratch == 0;
        st = best_blueprint(&tried, of, &with, err);
        if (st == CLCNN_E_UNSUPPORTED)
            return CLCNN_OK; /* an algorithm that the caller asks for needs more */
        TRY(st);
        *fits = consider(fastest, smallest, tried, options->memory_limit);
        if (*fits && with.frugal.fresh_filters)
            st = try_kept(fastest, smallest, of, with, tried, err);
        blueprint_release(tried);
        TRY(st);
        if (!*fits)
            scratch = less_scratch(scratch);
    }
    if (*fits)
        options->workspace_limit = scratch;
done:
    return st;
}

/* The same with a few items at a time, and then with all items in more and more of the layers at the end, whose maps are smaller and
 * whose weights each part of the batch reads. */
static enum clcnn_status try_tails(struct blueprint **fastest, struct blueprint **smallest,
                                   const struct subject *of, struct clcnn_plan_options options,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    bool fits;
    TRY(try_scratch(fastest, smallest, of, &options, ALL_LEVELS, &fits, err));
    for (int misses = fits ? 0 : MOST_MISSES; misses < MOST_MISSES; misses = fits ? 0 : misses + 1) {
        options.frugal.whole_below =
            batch_slices_longer_tail(of->rewritten->graph, options.frugal.whole_below);
        if (!options.frugal.whole_below)
            break;
        TRY(try_scratch(fastest, smallest, of, &options, TAIL_LEVELS, &fits, err));
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

/* The same with all items at a time, and with fewer where the caller leaves that open. */
static enum clcnn_status try_items(struct blueprint **fastest, struct blueprint **smallest,
                                   const struct subject *of, struct clcnn_plan_options options,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan_options whole = options;
    const struct clcnn_graph *g = of->original;
    const struct clcnn_shape *x = g->n_inputs ? &g->values[g->inputs[0]].shape : NULL;
    const int batch = options.batch_part == 0 && x && x->rank > 0 ? x->dim[0] : 1;
    bool fits;
    TRY(try_scratch(fastest, smallest, of, &whole, ALL_LEVELS, &fits, err));
    for (int slices = 2; slices <= batch && slices <= MOST_SLICES; slices++)
        if (batch % slices == 0) {
            options.batch_part = batch / slices;
            TRY(try_tails(fastest, smallest, of, options, err));
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
    TRY(try_items(fastest, smallest, of, options, err));
    options.frugal.fresh_filters = true;
    TRY(try_items(fastest, smallest, of, options, err));
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
    struct blueprint *bp = NULL;
    *out = NULL;
    TRY(blueprint_of(&bp, from, options, from->chained, err));
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

enum clcnn_status meet_memory_limit(struct blueprint **bp, const struct subject *of,
                                    const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *fastest = NULL, *smallest = NULL, *least = NULL;
    if (!options->memory_limit || memory_of(*bp) <= options->memory_limit)
        return CLCNN_OK;
    struct clcnn_plan_options frugal = *options;
    frugal.frugal = (struct clcnn_frugal){.little_scratch = true, .lent_inputs = true};
    keep(&smallest, *bp);
    keep(&least, of->rewritten);
    if (graph_assigns(of->original))
        TRY(try_recomputing(&fastest, &smallest, &least, of, options, err));
    if (!fastest)
        TRY(try_forms(&fastest, &smallest, &(struct subject){of->original, least}, frugal, err));
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
