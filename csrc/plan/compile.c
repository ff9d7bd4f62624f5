/* compile.c: graph -> rewrite -> layouts -> views -> fp16 activations -> select and emit -> arena -> programs -> weights -> warm. Data goes one way. */
#include "plan/plan.h"

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
        bp->inputs[i] = (struct io_view){{g->values[g->inputs[i]].name, o->shape}, o->view, o->batch_stride};
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const struct operand *o = &views->operand[g->outputs[i].value];
        bp->outputs[i] = (struct io_view){{g->outputs[i].name, o->shape}, o->view, o->batch_stride};
    }
    bp->n_inputs = g->n_inputs;
    bp->n_outputs = g->n_outputs;
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

static enum clcnn_status check_memory(const struct blueprint *bp, const struct clcnn_plan_options *options,
                                      struct clcnn_err *err)
{
    const uint64_t need = bp->stats.arena_bytes + bp->stats.weights_bytes;
    if (options->memory_limit && need > options->memory_limit)
        return clcnn_fail(
            err, CLCNN_E_DEVICE_MEM,
            "the plan needs %.1f KiB (arena %.1f + weights %.1f), more than memory_limit %.1f KiB",
            need / 1024.0, bp->stats.arena_bytes / 1024.0, bp->stats.weights_bytes / 1024.0,
            options->memory_limit / 1024.0);
    return CLCNN_OK;
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
    const struct rewrite_options rewrites = {options->overrides, options->override_count,
                                             device_traits(&bp->dev->info).channel_block,
                                             !cpu_device(&bp->dev->info)};
    TRY(graph_check(graph, err));
    TRY(graph_copy(&bp->graph, graph, err));
    if (options->fuse)
        TRY(graph_rewrite(bp->graph, &rewrites, &bp->notes, err));
    blueprint_least_arena(bp);
    TRY(blueprint_take_apart(bp, options, err));
    bp->n_rewrites = bp->notes.n;
done:
    return st;
}

/* The rewritten graph of a blueprint that is given up: folding overwrites constants that a compile may overwrite, so it is done once.
 * Without channel blocks nothing that follows changes it. */
static void take_rewritten(struct blueprint *bp, struct blueprint *from)
{
    while (from->notes.n > from->n_rewrites)
        free(from->notes.line[--from->notes.n]);
    for (int i = 0; i < from->graph->n_nodes; i++)
        from->graph->nodes[i].choice = 0;
    bp->graph = from->graph;
    bp->notes = from->notes;
    bp->n_rewrites = from->n_rewrites;
    from->graph = NULL;
    from->notes = (struct notes){NULL, 0, 0};
}

static enum clcnn_status make_blueprint(struct blueprint *bp, const struct clcnn_graph *graph,
                                        const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct value_views views = {0};
    blueprint_least_arena(bp);
    TRY(blueprint_batch_slices(bp, options->batch_part, err));
    TRY(layout_values(bp, options, err));
    TRY(blueprint_private_values(bp, err));
    TRY(find_value_views(&views, bp, options, err));
    TRY(choose_fp16_activations(bp, &views, options, err));
    TRY(emit_layers(bp, &views, options, graph, err));
    TRY(bind_io(bp, &views, err));
    mark_used(bp);
    TRY(add_gemm_scratch(bp, err));
    TRY(blueprint_share_variants(bp, err));
    TRY(blueprint_variants(bp, err));
    TRY(blueprint_order(bp, err));
    TRY(arena_plan(bp, err));
    blueprint_waits(bp);
    blueprint_zero_copy(bp);
    TRY(check_memory(bp, options, err));
    TRY(blueprint_describe_steps(bp, err));
    bp->stats.step_count = bp->n_steps;
done:
    value_views_free(&views);
    return st;
}

/* A blueprint whose algorithms expect chains of groups, or none. `instead`: of one that is given up, NULL: it is the first. */
static enum clcnn_status new_blueprint(struct blueprint **out, struct clcnn_device *dev,
                                       const struct clcnn_graph *graph,
                                       const struct clcnn_plan_options *options, bool chained,
                                       struct blueprint *instead, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = clcnn_calloc(1, sizeof *bp);
    if (!bp)
        return clcnn_fail_mem(err, sizeof *bp);
    pthread_mutex_init(&bp->lock, NULL);
    atomic_init(&bp->refs, 1);
    atomic_init(&bp->open, 1);
    bp->dev = dev;
    bp->guard = options->guard;
    bp->chain = options->chain;
    bp->chained = chained;
    if (instead)
        take_rewritten(bp, instead);
    else
        TRY(rewrite(bp, graph, options, err));
    TRY(make_blueprint(bp, graph, options, err));
    *out = bp;
    bp = NULL;
done:
    blueprint_release(bp);
    return st;
}

enum clcnn_status clcnn_plan_compile(struct clcnn_plan **out, struct clcnn_device *dev,
                                     const struct clcnn_graph *graph,
                                     const struct clcnn_plan_options *options,
                                     const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan *plan = NULL;
    struct blueprint *bp = NULL, *chains = NULL;
    TRY(device_enter(dev, err));
    const double start = clcnn_clock_ms();
    const bool chained = options->chain != CLCNN_CHAIN_OFF && device_chains_groups(&dev->info);
    TRY(new_blueprint(&bp, dev, graph, options, chained, NULL, err));
    if (chained && bp->stats.chained_steps == 0) { /* for launches other forms of algorithms are better */
        chains = bp;
        bp = NULL;
        TRY(new_blueprint(&bp, dev, graph, options, false, chains, err));
    }
    const double selected = clcnn_clock_ms();
    TRY(blueprint_programs(bp, patience, err));
    const double built = clcnn_clock_ms();
    TRY(blueprint_weights(bp, patience, err));
    free_folded_weights(bp->graph);
    if (bp->stats.weights_bytes >= TRIM_BYTES)
        alloc_trim();
    const double packed = clcnn_clock_ms();
    TRY(plan_instantiate(&plan, bp, err));
    TRY(plan_warm(plan, patience, err));
    bp->stats.select_ms = selected - start;
    bp->stats.build_ms = built - selected;
    bp->stats.weights_ms = packed - built;
    bp->stats.warm_ms = clcnn_clock_ms() - packed;
    *out = plan;
    plan = NULL;
done:
    clcnn_plan_free(plan);
    blueprint_release(chains);
    blueprint_close(bp); /* the plan holds its own share */
    blueprint_release(bp);
    return st;
}
