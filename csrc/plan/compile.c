/* compile.c: graph -> rewrite -> blueprint -> programs -> weights -> warm. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
