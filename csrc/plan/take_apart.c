/* take_apart.c: merged layers become their parts again, where the user asks for an algorithm that cannot compute what was merged,
 * where a part of it is soon built, or where nothing is gained. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* Whether the override is meant for this part of a merged layer, and can be. */
static bool meant_for(const struct clcnn_override *o, const struct node *part)
{
    return (override_is_for_all(o) || strcmp(o->layer, part->name) == 0) &&
           op_algo_find(part->op, o->algo) >= 0;
}

static bool meant_for_part(const struct clcnn_override *o, const struct blueprint *bp,
                           const struct merged *parts)
{
    return meant_for(o, &bp->graph->nodes[parts->first]) || meant_for(o, &parts->last) ||
           (parts->last.merged && meant_for_part(o, bp, parts->last.merged));
}

/* Whether the user asks a part of n for an algorithm that cannot compute the whole. */
static bool asks_for_part(const struct blueprint *bp, const struct clcnn_plan_options *o,
                          const struct node *n, const struct problem *p)
{
    const int i = override_of(o, p);
    if (i < 0 || !meant_for_part(&o->overrides[i], bp, n->merged))
        return false;
    const int whole = op_algo_find(p->op, o->overrides[i].algo);
    return whole < 0 || algo_is_rejected(op_algos(p->op)[whole], p);
}

/* Whether the rules would compute it as they do its parts, or the plan that this one is to be like has these. */
static bool gains_nothing(const struct clcnn_plan_options *o, const struct problem *p)
{
    const struct algo_def *const *algos = op_algos(p->op), *last = NULL;
    while (*algos)
        last = *algos++;
    if (!last->apart || override_of(o, p) >= 0)
        return false;
    const struct algo_def *algo = algo_preferred(p);
    return (algo && algo->apart) || (p->like && !like_find(p));
}

/* Whether a part of n has an algorithm that is soon built. */
static bool has_quick_part(const struct blueprint *bp, const struct node *n)
{
    return quick_algo(bp->graph->nodes[n->merged->first].op) || quick_algo(n->merged->last.op);
}

enum clcnn_status blueprint_take_apart(struct blueprint *bp, const struct clcnn_plan_options *options,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    blueprint_least_arena(bp);
    for (int i = 0; i < bp->graph->n_nodes; i++) {
        struct node *n = &bp->graph->nodes[i];
        if (n->dead || !n->merged)
            continue;
        struct operand *ops = clcnn_calloc((size_t)(n->n_in + n->n_out), sizeof *ops);
        if (!ops)
            return clcnn_fail_mem(err, (size_t)(n->n_in + n->n_out) * sizeof *ops);
        const struct problem p = open_problem(ops, bp, options, n);
        const bool asked = asks_for_part(bp, options, n, &p), soon = options->quick && has_quick_part(bp, n);
        const bool vain = gains_nothing(options, &p);
        free(ops);
        if (!asked && !soon && !vain)
            continue;
        TRY(notes_add(&bp->notes, err, "take %s apart: %s", n->name,
                      asked  ? "a part of it has another algorithm"
                      : soon ? "a part of it has another algorithm, which is soon built"
                             : "it would be computed in parts"));
        graph_take_apart(bp->graph, n);
        i--; /* what is left of it may be merged, too */
    }
done:
    return st;
}
