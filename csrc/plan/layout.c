/* layout.c: the layout of every value in memory. Algorithms are chosen node by node as if layouts were free; a value takes the layout
 * that its producer gives, and where a consumer wants another one a `reorder` node goes in between, once per value. Work on
 * whole items (element-wise, concat of whole blocks) follows its inputs. Graph inputs and outputs are row-major. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct layouter {
    struct blueprint *bp;
    struct clcnn_graph *g;
    const struct clcnn_plan_options *options;
    int *order, n_order; /* nodes in the order in which they will run */
    bool *to_maps; /* per value of the original graph: its readers all have algorithms on channel blocks */
    int *twin;     /* per value of the original graph: the same value in the other layout, -1 */
    int block;
    int items; /* of the node that is being laid out */
    struct clcnn_err *err;
};

/* Only float32 maps with channels and one to three spatial dimensions have a blocked layout. */
static bool can_block(const struct clcnn_shape *s)
{
    return s->dtype == CLCNN_FLOAT32 && s->rank >= 3 && s->rank <= 5;
}

/* One pixel and whole blocks: both layouts are the same bytes. */
static bool layouts_agree(const struct layouter *l, const struct clcnn_shape *s)
{
    return can_block(s) && shape_count_from(s, 2) == 1 && s->dim[1] % l->block == 0;
}

static enum clcnn_status add_reorder(struct layouter *l, int value, int block, int *made)
{
    enum clcnn_status st = CLCNN_OK;
    const struct value *v = &l->g->values[value]; /* until values grow */
    const bool constant = v->kind == VALUE_CONSTANT;
    const char *of = v->kind == VALUE_NODE ? l->g->nodes[v->producer].name : v->name;
    char name[CLCNN_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s:%s", of ? of : "constant", block ? "blocked" : "plain");
    TRY(graph_unary(l->g, &op_reorder, name, value, made, l->err));
    struct node *n = &l->g->nodes[l->g->n_nodes - 1];
    n->src_block = l->g->values[value].block;
    n->dst_block = block;
    n->items = constant ? 0 : l->items;
    l->g->values[*made].block = block;
    l->order[l->n_order++] = l->g->n_nodes - 1;
done:
    return st;
}

/* Replaces *value by the id under which it is to be read in layout `block`. */
static enum clcnn_status in_layout(struct layouter *l, int *value, int block)
{
    enum clcnn_status st = CLCNN_OK;
    const struct value *v = &l->g->values[*value];
    const int original = *value;
    if (v->block == block || layouts_agree(l, &v->shape))
        return CLCNN_OK;
    if (l->twin[original] < 0)
        TRY(add_reorder(l, original, block, &l->twin[original]));
    *value = l->twin[original];
done:
    return st;
}

static bool whole_blocks(const struct layouter *l, const int *values, int count)
{
    for (int i = 0; i < count; i++)
        if (l->g->values[values[i]].shape.dim[1] % l->block)
            return false;
    return true;
}

/* Concat and split along items or channels take whole items, or whole ranges of them. */
static bool takes_parts(const struct node *n)
{
    if (n->op->role == ROLE_CONCAT)
        return ((const struct dim_attrs *)n->attrs)->dim <= 1;
    return n->op->role == ROLE_SPLIT && ((const struct split_attrs *)n->attrs)->dim <= 1;
}

/* Work on whole items goes blocked as soon as one input is, if the bytes allow it: all operands of one shape, or parts made
 * of whole blocks. */
static bool follows_blocked(const struct layouter *l, const struct node *n)
{
    const bool parts = takes_parts(n);
    const struct clcnn_shape *out = &l->g->values[n->out[0]].shape;
    bool any = false;
    if (!can_block(out)) /* a comparison's result, say, has elements of another type */
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const struct value *v = &l->g->values[n->in[i]];
        if (!can_block(&v->shape) || (!parts && !shape_equal(&v->shape, out)))
            return false;
        any = any || v->block;
    }
    return any && (!parts || (whole_blocks(l, n->in, n->n_in) && whole_blocks(l, n->out, n->n_out)));
}

/* Element-wise work goes blocked with its maps, where the other operands allow it. */
static bool maps_blocked(const struct layouter *l, const struct node *n)
{
    const struct clcnn_shape *map = &l->g->values[n->out[0]].shape;
    bool any = false;
    if (!can_block(map))
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0)
            continue;
        const struct value *v = &l->g->values[n->in[i]];
        const enum operand_part part = operand_part(n->op, &v->shape, map);
        if (part == PART_NONE)
            return false;
        any = any || (part == PART_MAP && v->block);
    }
    return any;
}

/* The layout in which a node is to have one of its inputs. */
static int input_block(const struct layouter *l, const struct node *n, int input)
{
    const struct value *v = &l->g->values[n->in[input]];
    if (!n->follows)
        return input == 0 || n->all_src ? n->src_block : input == 1 ? n->second_block : 0;
    switch (operand_part(n->op, &v->shape, &l->g->values[n->out[0]].shape)) {
    case PART_MAP:
        return n->src_block;
    case PART_PIXELS:
        return 0;
    default:
        return v->block;
    }
}

static void set_layouts(const struct layouter *l, struct node *n, const struct algo_def *algo)
{
    const bool maps = can_block(&l->g->values[n->in[0]].shape) && can_block(&l->g->values[n->out[0]].shape);
    n->whole_items = algo->src == LAYOUT_ANY && follows_blocked(l, n);
    n->follows = algo->src == LAYOUT_FOLLOWS && maps_blocked(l, n);
    n->src_block = n->whole_items || n->follows || (maps && algo->src == LAYOUT_BLOCKED) ? l->block : 0;
    n->dst_block = n->whole_items || n->follows || (maps && algo->dst == LAYOUT_BLOCKED) ? l->block : 0;
    n->second_block = maps && algo->second == LAYOUT_BLOCKED ? l->block : 0;
    n->all_src = n->whole_items || (n->op->role == ROLE_CONCAT && n->src_block);
}

static enum clcnn_status choose_layouts(struct layouter *l, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    const struct algo_def *algo = NULL;
    struct operand *operands = clcnn_calloc((size_t)(n->n_in + n->n_out), sizeof *operands);
    if (!operands)
        return clcnn_fail_mem(l->err, (size_t)(n->n_in + n->n_out) * sizeof *operands);
    struct problem p = open_problem(operands, l->bp, l->options, n);
    p.wants_blocks = l->to_maps[n->out[0]];
    TRY(select_for_node(&algo, l->bp, n, &p, l->options, l->err));
    set_layouts(l, n, algo);
done:
    free(operands);
    return st;
}

static enum clcnn_status lay_out(struct layouter *l, int index)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(choose_layouts(l, &l->g->nodes[index]));
    const struct node n = l->g->nodes[index]; /* its lists stay where they are when nodes are added */
    l->items = n.items;
    for (int i = 0; i < n.n_in; i++)
        if (n.in[i] >= 0)
            TRY(in_layout(l, &n.in[i], input_block(l, &n, i)));
    int add = n.epi.add;
    if (add >= 0)
        TRY(in_layout(l, &add, n.dst_block));
    l->g->nodes[index].epi.add = add;
    for (int i = 0; i < n.n_out; i++) { /* statistics beside a map are no maps */
        struct value *v = &l->g->values[n.out[i]];
        v->block = can_block(&v->shape) ? n.dst_block : 0;
    }
    l->order[l->n_order++] = index;
done:
    return st;
}

/* Whether some algorithm takes this input on channel blocks. A transpose reads them only where it happens to find them. */
static bool has_blocked(const struct op_def *op, int input)
{
    for (const struct algo_def *const *a = op_algos(op); *a && input < 2 && op != &op_transpose; a++)
        if ((input == 0 ? (*a)->src : (*a)->second) == LAYOUT_BLOCKED)
            return true;
    return false;
}

static void find_maps(struct layouter *l)
{
    struct clcnn_graph *g = l->g;
    for (int i = 0; i < g->n_nodes; i++) /* a value that nothing reads is not asked for */
        for (int k = 0; !g->nodes[i].dead && k < g->nodes[i].n_out; k++)
            l->to_maps[g->nodes[i].out[k]] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k < n->n_in; k++)
            if (n->in[k] >= 0 && !has_blocked(n->op, k))
                l->to_maps[n->in[k]] = false;
        if (!n->dead && n->epi.add >= 0)
            l->to_maps[n->epi.add] = false;
    }
    for (int i = 0; i < g->n_outputs; i++)
        l->to_maps[g->outputs[i].value] = false;
}

/* At most one reorder per input of a node, one for its epilogue, and one per output of the graph. */
static size_t most_nodes(const struct clcnn_graph *g)
{
    size_t most = (size_t)g->n_outputs;
    for (int i = 0; i < g->n_nodes; i++)
        most += (size_t)g->nodes[i].n_in + 2;
    return most;
}

enum clcnn_status layout_values(struct blueprint *bp, const struct clcnn_plan_options *options,
                                struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_graph *g = bp->graph;
    struct layouter l = {.bp = bp,
                         .g = g,
                         .options = options,
                         .block = device_traits(&bp->dev->info).channel_block,
                         .err = err};
    const int nodes = g->n_nodes;
    if (!l.block)
        return CLCNN_OK;
    const int values = g->n_values;
    l.order = clcnn_calloc(most_nodes(g) + 1, sizeof *l.order);
    l.twin = clcnn_calloc((size_t)values + 1, sizeof *l.twin);
    l.to_maps = clcnn_calloc((size_t)values + 1, sizeof *l.to_maps);
    if (!l.order || !l.twin || !l.to_maps) {
        st = clcnn_fail_mem(err, most_nodes(g) * sizeof *l.order);
        goto done;
    }
    for (int i = 0; i < values; i++)
        l.twin[i] = -1;
    find_maps(&l);
    for (int i = 0; i < nodes; i++) {
        if (g->nodes[i].dead)
            l.order[l.n_order++] = i;
        else
            TRY(lay_out(&l, i));
    }
    l.items = 0;
    for (int i = 0; i < g->n_outputs; i++)
        TRY(in_layout(&l, &g->outputs[i].value, 0));
    TRY(graph_permute(g, l.order, l.n_order, err));
done:
    free(l.order);
    free(l.twin);
    free(l.to_maps);
    return st;
}
