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

/* Whether the value is, or is a part of, a state. */
static bool comes_from_state(const struct clcnn_graph *g, int value)
{
    while (value >= 0 && g->values[value].kind == VALUE_NODE) {
        const struct node *n = &g->nodes[g->values[value].producer];
        if (!n->op->alias && n->op != &op_slice && n->op != &op_gather && n->op->role != ROLE_SPLIT)
            return false;
        value = n->in[0];
    }
    return value >= 0 && g->values[value].kind == VALUE_STATE;
}

/* Whether nothing becomes of a value but that `state` is assigned it. */
static bool is_only_assigned(const struct clcnn_graph *g, int value, int state)
{
    int assigned = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k <= n->n_in; k++)
            if (value == (k < n->n_in ? n->in[k] : n->epi.add))
                return false;
    }
    for (int i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i].value != value)
            continue;
        if (g->outputs[i].use != OUTPUT_ASSIGN || g->outputs[i].state != state)
            return false;
        assigned++;
    }
    return assigned == 1;
}

/* Whether all results are new values of states that the node reads, and it reads no other states, which may have changed. */
static bool fits_commit(const struct clcnn_graph *g, const struct node *n)
{
    unsigned own = 0;
    for (int i = 0; i < n->n_out; i++) {
        const int from = n->op->renews[i] - 1;
        if (from < 0 || g->values[n->in[from]].kind != VALUE_STATE ||
            !is_only_assigned(g, n->out[i], n->in[from]))
            return false;
        own |= 1u << from;
    }
    for (int i = 0; i < n->n_in; i++)
        if (!(own >> i & 1) && comes_from_state(g, n->in[i]))
            return false;
    return true;
}

void find_in_commit(struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && g->nodes[i].op->renews[0])
            g->nodes[i].in_commit = fits_commit(g, &g->nodes[i]);
}

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

/* Whether a node has written the output where it belongs. */
static bool in_commit(const struct clcnn_graph *g, int output)
{
    const struct value *v = &g->values[g->outputs[output].value];
    return v->kind == VALUE_NODE && g->nodes[v->producer].in_commit;
}

static enum clcnn_status commits_last(struct blueprint *bp, struct clcnn_err *err)
{
    struct step **commits = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *commits);
    int kept = 0;
    if (!commits)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *commits);
    for (int i = 0; i < bp->n_steps; i++)
        if (bp->steps[i]->commits)
            commits[bp->n_commits++] = bp->steps[i];
        else
            bp->steps[kept++] = bp->steps[i];
    memcpy(bp->steps + kept, commits, (size_t)bp->n_commits * sizeof *commits);
    free(commits);
    return CLCNN_OK;
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
        if (g->outputs[i].use != OUTPUT_RESULT && !in_commit(g, i))
            leave_state(&e, &from[i], g->outputs[i].name);
        if (g->outputs[i].use == OUTPUT_COMMIT_WHEN)
            when = &from[i];
    }
    for (int i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i].use != OUTPUT_ASSIGN || in_commit(g, i))
            continue;
        e.layer = g->outputs[i].name;
        commit_step(&e, &bp->device, when, &from[i], views->operand[g->outputs[i].state].view, false);
    }
    free(from);
    return e.status == CLCNN_OK ? commits_last(bp, err) : e.status;
}

enum clcnn_status plan_set_commit(struct clcnn_plan *plan, bool commit, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    for (int i = bp->n_steps - bp->n_commits; i < bp->n_steps; i++) {
        unsigned char args[MAX_STEP_ARGS];
        struct commit_gate gate;
        memcpy(args, bp->steps[i]->args, bp->steps[i]->args_bytes);
        memcpy(&gate, args, sizeof gate);
        gate.commit = commit;
        memcpy(args, &gate, sizeof gate);
        TRY(launch_set_args(&plan->launches[i], bp->dev, bp->steps[i], args, err));
    }
done:
    return st;
}
