/* rewrite_fuse.c: residual adds, products of maps and activations move into the epilogue of what computes their operand,
 * activations also into those of all parts of a concatenation. */
#include "graph/rewrite.h"

static bool can_act(const struct node *producer)
{
    return producer && (producer->op->fuses || producer->op->acts) && producer->epi.act == ACT_none &&
           !producer->epi.times;
}

/* In order act(x + bias + add), or act(x + bias) * other: nothing is added once there is an activation. */
static bool can_take(const struct node *producer, bool times)
{
    return producer && producer->op->fuses && producer->epi.add < 0 &&
           (times || producer->epi.act == ACT_none);
}

/* Who computes `value`, which n alone reads, as its first result. What has more results stays where it is, since others may
 * read those before n: then all that n reads must be there. */
static struct node *producer_for(const struct rewriter *r, int value, const struct node *n)
{
    const struct value *v = r->g->values;
    if (v[value].kind != VALUE_NODE || r->uses[value] != 1)
        return NULL;
    struct node *p = &r->g->nodes[v[value].producer];
    if (p->dead || p->out[0] != value)
        return NULL;
    for (int i = 0; p->n_out > 1 && i < n->n_in; i++)
        if (n->in[i] != value && v[n->in[i]].kind == VALUE_NODE && v[n->in[i]].producer > v[value].producer)
            return NULL;
    return p;
}

static void give_result(struct rewriter *r, struct node *p, struct node *n)
{
    if (p->n_out > 1)
        rewrite_take_result(r, p, n);
    else
        rewrite_move(r, p, n);
}

/* y = producer(...) + other, or times. The other operand must not need broadcasting. */
static enum clcnn_status fuse_operand(struct rewriter *r, struct node *n, bool times, bool *fused)
{
    enum clcnn_status st = CLCNN_OK;
    const struct value *v = r->g->values;
    int best = -1;
    for (int i = 0; i < 2; i++) {
        struct node *p = producer_for(r, n->in[i], n);
        if (!can_take(p, times) || !shape_equal(&v[n->in[0]].shape, &v[n->in[1]].shape))
            continue;
        /* of two candidates, the one computed later: its result need not wait in memory */
        if (best < 0 || v[n->in[i]].producer > v[n->in[best]].producer)
            best = i;
    }
    if (best < 0)
        return CLCNN_OK;
    struct node *p = &r->g->nodes[v[n->in[best]].producer];
    TRY(rewrite_note(r, "fuse %s %s into %s %s", n->op->name, n->name, p->op->name, p->name));
    p->epi.add = n->in[1 - best];
    p->epi.times = times;
    give_result(r, p, n);
    *fused = true;
done:
    return st;
}

static bool parts_can_take(const struct rewriter *r, const struct node *concat)
{
    for (int i = 0; i < concat->n_in; i++)
        if (!can_act(rewrite_sole_producer(r, concat->in[i])))
            return false;
    return true;
}

static enum clcnn_status give_activation(struct rewriter *r, struct node *p, const struct node *n,
                                         const struct epilogue *act)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(rewrite_note(r, "fuse %s %s into %s %s", n->op->name, n->name, p->op->name, p->name));
    p->epi.act = act->act;
    p->epi.p0 = act->p0;
    p->epi.p1 = act->p1;
done:
    return st;
}

/* What computes n's operand before it is moved: a function of elements does not care where they lie. An activation alone becomes
 * limits of a norm that has statistics, which its gradient understands (rewrite_masks.c). */
static struct node *producer_before_moves(const struct rewriter *r, const struct node *n)
{
    struct node *p = producer_for(r, n->in[0], n);
    while (p && rewrite_is_move(p))
        p = rewrite_sole_producer(r, p->in[0]);
    return p && p->n_out > 1 && p->epi.add < 0 ? NULL : p;
}

/* Whether an activation gets kernels of its own for every kind of layer that takes it; limits are numbers to all of them. */
static bool makes_kernels(const struct epilogue *act)
{
    float low = act->p0, high = act->p1;
    return act_as_clip(act->act, &low, &high) != ACT_clip;
}

static enum clcnn_status fuse_activation(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    struct epilogue act = {.add = -1};
    if (!act_of_op(n->op, n->attrs, &act.act, &act.p0, &act.p1) || (r->options->quick && makes_kernels(&act)))
        return CLCNN_OK;
    struct node *p = producer_for(r, n->in[0], n);
    if (p && rewrite_is(p, &op_concat) && parts_can_take(r, p)) {
        for (int i = 0; i < p->n_in; i++)
            TRY(give_activation(r, rewrite_sole_producer(r, p->in[i]), n, &act));
    } else if (can_act(producer_before_moves(r, n))) {
        TRY(give_activation(r, producer_before_moves(r, n), n, &act));
    } else {
        return CLCNN_OK;
    }
    give_result(r, p, n);
done:
    return st;
}

enum clcnn_status rewrite_fuse_epilogues(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        bool fused = false;
        if (n->dead)
            continue;
        const bool times = rewrite_is(n, &op_mul);
        if (times || rewrite_is(n, &op_add))
            TRY(fuse_operand(r, n, times, &fused));
        if (!fused && n->n_in == 1)
            TRY(fuse_activation(r, n));
    }
done:
    return st;
}
