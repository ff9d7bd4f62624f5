/* best_blueprint.c: rewritten graph -> layouts -> views -> fp16 activations, cores -> select and emit -> commits -> arena: a plan as
 * a description, before anything of the device is used. Data goes one way. */
#include "plan/plan.h"

#include <stdlib.h>

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
    TRY(blueprint_batch_slices(bp, options, err));
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
    blueprint_zero_copy(bp, options->frugal.lent_inputs);
    TRY(arena_plan(bp, err));
    blueprint_waits(bp);
    blueprint_ready(bp);
    TRY(blueprint_describe_steps(bp, err));
    bp->stats.step_count = bp->n_steps;
done:
    value_views_free(&views);
    return st;
}

struct blueprint *empty_blueprint(struct clcnn_device *dev, const struct clcnn_plan_options *options,
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

enum clcnn_status blueprint_of(struct blueprint **out, const struct blueprint *rewritten,
                               const struct clcnn_plan_options *options, bool chained, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = empty_blueprint(rewritten->dev, options, rewritten->like, chained);
    if (!bp)
        return clcnn_fail_mem(err, sizeof *bp);
    TRY(graph_copy(&bp->graph, rewritten->graph, err));
    for (int i = 0; i < rewritten->notes.n; i++)
        TRY(notes_add(&bp->notes, err, "%s", rewritten->notes.line[i]));
    *out = bp;
    bp = NULL;
done:
    blueprint_release(bp);
    return st;
}

static enum clcnn_status new_blueprint(struct blueprint **out, const struct subject *of,
                                       const struct clcnn_plan_options *options, bool chained,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = NULL;
    TRY(blueprint_of(&bp, of->rewritten, options, chained, err));
    TRY(make_blueprint(bp, of->original, options, err));
    *out = bp;
    bp = NULL;
done:
    blueprint_release(bp);
    return st;
}

enum clcnn_status best_blueprint(struct blueprint **out, const struct subject *of,
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
