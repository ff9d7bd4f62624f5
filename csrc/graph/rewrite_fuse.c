/* rewrite_fuse.c: residual adds and activations move into the epilogue of what computes their operand; a depthwise and the
 * 1x1 convolution after it become one separable layer. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool can_take(const struct node *producer, bool add)
{
    return producer && producer->op->fuses && producer->epi.act == ACT_none &&
           (!add || producer->epi.add < 0);
}

/* y = producer(...) + other, in order act(x + bias + add): only while the producer has no activation yet. The other operand
 * must not need broadcasting. */
static enum clcnn_status fuse_add(struct rewriter *r, struct node *add, bool *fused)
{
    enum clcnn_status st = CLCNN_OK;
    const struct value *v = r->g->values;
    int best = -1;
    for (int i = 0; i < 2; i++) {
        struct node *p = rewrite_sole_producer(r, add->in[i]);
        if (!can_take(p, true) || !shape_equal(&v[add->in[0]].shape, &v[add->in[1]].shape))
            continue;
        /* of two candidates, the one computed later: its result need not wait in memory */
        if (best < 0 || v[add->in[i]].producer > v[add->in[best]].producer)
            best = i;
    }
    if (best < 0)
        return CLCNN_OK;
    struct node *p = &r->g->nodes[v[add->in[best]].producer];
    TRY(rewrite_note(r, "fuse add %s into %s %s", add->name, p->op->name, p->name));
    p->epi.add = add->in[1 - best];
    rewrite_move(r, p, add);
    *fused = true;
done:
    return st;
}

static enum clcnn_status fuse_activation(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    enum act act = ACT_none;
    float p0 = 0.0f, p1 = 0.0f;
    if (!act_of_op(n->op, n->attrs, &act, &p0, &p1))
        return CLCNN_OK;
    struct node *p = rewrite_sole_producer(r, n->in[0]);
    if (!can_take(p, false))
        return CLCNN_OK;
    TRY(rewrite_note(r, "fuse %s %s into %s %s", n->op->name, n->name, p->op->name, p->name));
    p->epi.act = act;
    p->epi.p0 = p0;
    p->epi.p1 = p1;
    rewrite_move(r, p, n);
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
        if (rewrite_is(n, "add"))
            TRY(fuse_add(r, n, &fused));
        if (!fused && n->n_in == 1)
            TRY(fuse_activation(r, n));
    }
done:
    return st;
}

static bool all_equal(const struct ints *list, int32_t wanted)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] != wanted)
            return false;
    return true;
}

static bool is_depthwise(const struct rewriter *r, const struct node *n)
{
    if (!n || !rewrite_is(n, "conv") || n->epi.add >= 0)
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *w = &r->g->values[n->in[1]].shape;
    const struct conv_attrs *a = n->attrs;
    return x->rank == 4 && a->groups > 1 && a->groups == x->dim[1] && w->dim[0] == x->dim[1];
}

static bool is_pointwise(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, "conv"))
        return false;
    const struct clcnn_shape *w = &r->g->values[n->in[1]].shape;
    const struct conv_attrs *a = n->attrs;
    return w->rank == 4 && a->groups == 1 && shape_count_from(w, 2) == 1 && all_equal(&a->stride, 1) &&
           all_equal(&a->padding, 0);
}

/* Turns the 1x1 node into the separable one; the depthwise node is gone. */
static enum clcnn_status merge(struct rewriter *r, struct node *dw, struct node *pw)
{
    char name[2 * CLCNN_NAME_MAX];
    snprintf(name, sizeof name, "%s+%s", dw->name, pw->name);
    struct separable_attrs *a = clcnn_calloc(1, sizeof *a);
    int *in = clcnn_calloc(5, sizeof *in);
    char *copy = clcnn_strdup(name);
    if (!a || !in || !copy) {
        free(a);
        free(in);
        free(copy);
        return clcnn_fail_mem(r->err, sizeof *a);
    }
    *a = (struct separable_attrs){
        .dw = *(const struct conv_attrs *)dw->attrs,
        .mid_act = dw->epi.act,
        .mid_p0 = dw->epi.p0,
        .mid_p1 = dw->epi.p1,
        .dw_bias = dw->in[2] >= 0,
        .pw_bias = pw->in[2] >= 0,
    };
    const int inputs[5] = {dw->in[0], dw->in[1], dw->in[2], pw->in[1], pw->in[2]};
    memcpy(in, inputs, sizeof inputs);
    free(pw->in);
    free(pw->attrs);
    free(pw->name);
    pw->in = in;
    pw->n_in = 5;
    pw->attrs = a;
    pw->name = copy;
    pw->op = clcnn_ops[clcnn_op_find("separable")];
    dw->dead = true;
    return CLCNN_OK;
}

enum clcnn_status rewrite_merge_separable(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *pw = &r->g->nodes[i];
        if (pw->dead || !is_pointwise(r, pw))
            continue;
        struct node *dw = rewrite_sole_producer(r, pw->in[0]);
        if (!is_depthwise(r, dw) || rewrite_is_forced(r, dw, "separable") ||
            rewrite_is_forced(r, pw, "separable"))
            continue;
        TRY(rewrite_note(r, "merge depthwise conv %s and 1x1 conv %s", dw->name, pw->name));
        TRY(merge(r, dw, pw));
    }
done:
    return st;
}
