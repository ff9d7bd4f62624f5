/* commits.c: the arrays of the state that a graph reads, and the last steps of a plan, which change them. */
#include "algos/update/commit.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- states ---------------------------------------------------------------------------------------------------- */

/* All names of the state, for a message. */
static void list_arrays(char *out, size_t size, const struct clcnn_state *s)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < s->count && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", s->array[i].info.name);
}

static enum clcnn_status check_state(const struct blueprint *bp, const struct value *v,
                                     const struct clcnn_state *s, struct clcnn_err *err)
{
    char names[256], want[96], have[96];
    if (!s)
        return clcnn_fail(err, CLCNN_E_VALUE, "state %s: no state was given to compile for", v->name);
    if (s->dev != bp->dev)
        return clcnn_fail(err, CLCNN_E_VALUE,
                          "state %s: it is on another device than the plan: on '%s', the plan on '%s'",
                          v->name, s->dev->info.name, bp->dev->info.name);
    const int at = clcnn_state_find(s, v->name);
    if (at < 0) {
        list_arrays(names, sizeof names, s);
        return clcnn_fail(err, CLCNN_E_VALUE, "state %s: the state has no such array; it has: %s", v->name,
                          names);
    }
    const struct clcnn_shape *shape = &s->array[at].info.shape;
    if (shape->dtype != v->shape.dtype)
        return clcnn_fail(err, CLCNN_E_DTYPE, "state %s: the graph wants %s, the state's array is of %s",
                          v->name, clcnn_dtype_name(v->shape.dtype), clcnn_dtype_name(shape->dtype));
    if (!shape_equal(shape, &v->shape))
        return clcnn_fail(err, CLCNN_E_SHAPE, "state %s: the graph wants shape %s, the state's array has %s",
                          v->name, shape_text(&v->shape, want), shape_text(shape, have));
    return CLCNN_OK;
}

enum clcnn_status blueprint_states(struct blueprint *bp, const struct clcnn_plan_options *options,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < bp->graph->n_values; i++)
        if (bp->graph->values[i].kind == VALUE_STATE) {
            TRY(check_state(bp, &bp->graph->values[i], options->state, err));
            bp->state = options->state;
        }
done:
    return st;
}

/* ---- steps that change them ------------------------------------------------------------------------------------ */

static const struct op_def op_commit = {.name = "commit"};

/* What lies in a state is copied before any is changed. */
static void leave_state(struct emit *e, struct operand *o, const char *layer)
{
    if (e->bp->views[o->view].state < 0)
        return;
    struct operand copy = *o;
    copy.view = emit_workspace_of(e, o->shape.dtype, shape_count(&o->shape));
    copy.batch_stride = operand_item(&copy);
    e->layer = layer;
    commit_step(e, &e->bp->device, NULL, o, copy.view, true);
    *o = copy;
}

enum clcnn_status emit_commits(struct blueprint *bp, const struct value_views *views,
                               const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    struct clcnn_graph *g = bp->graph;
    struct emit e = {.bp = bp, .options = options, .err = err, .op = &op_commit, .only_if_view = VIEW_NONE};
    const struct operand *when = NULL;
    if (!graph_assigns(g))
        return CLCNN_OK;
    struct operand *from = clcnn_calloc((size_t)g->n_outputs, sizeof *from);
    if (!from)
        return clcnn_fail_mem(err, (size_t)g->n_outputs * sizeof *from);
    for (int i = 0; i < g->n_outputs; i++) {
        from[i] = views->operand[g->outputs[i].value];
        if (g->outputs[i].use != OUTPUT_RESULT)
            leave_state(&e, &from[i], g->outputs[i].name);
        if (g->outputs[i].use == OUTPUT_COMMIT_WHEN)
            when = &from[i];
    }
    for (int i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i].use != OUTPUT_ASSIGN)
            continue;
        e.layer = g->outputs[i].name;
        commit_step(&e, &bp->device, when, &from[i], views->operand[g->outputs[i].state].view, false);
        bp->n_commits++;
    }
    free(from);
    return e.status;
}

enum clcnn_status plan_set_commit(struct clcnn_plan *plan, bool commit, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    for (int i = bp->n_steps - bp->n_commits; i < bp->n_steps; i++) {
        struct commit_args a;
        memcpy(&a, bp->steps[i]->args, sizeof a);
        a.commit = commit;
        TRY(launch_set_args(&plan->launches[i], bp->dev, bp->steps[i], &a, err));
    }
done:
    return st;
}
