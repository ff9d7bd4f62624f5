/* problem.c: what a node asks of an algorithm: its operands as they are known so far, and what it may use. */
#include "plan/plan.h"

struct operand operand_of_value(const struct value *v)
{
    return (struct operand){.shape = v->shape,
                            .view = VIEW_NONE,
                            .present = true,
                            .constant = v->kind == VALUE_CONSTANT,
                            .block = v->block};
}

void operand_take_items(struct operand *o, int items)
{
    if (items > 0 && o->present)
        o->shape.dim[0] = items;
}

int node_input_items(const struct node *n, int input, const struct operand *o)
{
    const bool map = input == 0 || n->op->role == ROLE_CONCAT || eltwise_broadcasts(n->op);
    return map && !o->constant ? n->items : 0;
}

/* Bytes of the activations that a node reads and writes. */
static size_t bytes_at(const struct clcnn_graph *g, const struct node *n)
{
    size_t bytes = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && !g->values[n->in[i]].data)
            bytes += shape_bytes(&g->values[n->in[i]].shape);
    for (int i = 0; i < n->n_out; i++)
        bytes += shape_bytes(&g->values[n->out[i]].shape);
    return bytes;
}

void blueprint_least_arena(struct blueprint *bp)
{
    for (int i = 0; i < bp->graph->n_nodes; i++)
        if (!bp->graph->nodes[i].dead) {
            const size_t bytes = bytes_at(bp->graph, &bp->graph->nodes[i]);
            bp->least_arena = bytes > bp->least_arena ? bytes : bp->least_arena;
        }
}

/* Memory that other nodes need for their activations anyway. */
static size_t spare_bytes(const struct blueprint *bp, const struct node *n)
{
    const size_t taken = bytes_at(bp->graph, n);
    return bp->least_arena > taken ? bp->least_arena - taken : 0;
}

/* Scratch that a node may have: what the caller allows, or on GPUs all that is spare. */
static size_t workspace_limit(const struct blueprint *bp, const struct clcnn_plan_options *options,
                              size_t spare)
{
    const bool gpu = bp->dev->info.type == CLCNN_DEVICE_GPU;
    return gpu && spare > options->workspace_limit ? spare : options->workspace_limit;
}

static bool makes_fresh_filters(const struct blueprint *bp, const struct clcnn_plan_options *options,
                                const struct node *n)
{
    const struct clcnn_frugal *f = &options->frugal;
    return f->fresh_filters && !(f->kept && f->kept[n - bp->graph->nodes]);
}

struct problem problem_of_node(const struct blueprint *bp, const struct clcnn_plan_options *options,
                               const struct node *n, const struct operand *operands)
{
    const size_t spare = spare_bytes(bp, n);
    return (struct problem){
        .layer = n->name,
        .op = n->op,
        .attrs = n->attrs,
        .n_in = n->n_in,
        .n_out = n->n_out,
        .in = operands,
        .out = operands + n->n_in,
        .add = {.view = VIEW_NONE},
        .times = n->epi.times,
        .when = VIEW_NONE,
        .act = n->epi.act,
        .p0 = n->epi.p0,
        .p1 = n->epi.p1,
        .device = &bp->device,
        .workspace_limit = workspace_limit(bp, options, spare),
        .arena = bp->least_arena,
        .spare = spare,
        .precision = options->precision,
        .fp16_activations = bp->fp16_activations,
        .little_scratch = options->frugal.little_scratch,
        .fresh_filters = makes_fresh_filters(bp, options, n),
        .zeros = n->zeros,
        .skip = options->skip,
        .quick = options->quick,
        .rows_elsewhere = bp->rows_elsewhere,
        .rectified = n->n_in > 0 && n->in[0] >= 0 && graph_is_rectified(bp->graph, n->in[0]),
        .few_bits = graph_has_few_bits(bp->graph, n),
        .has_clblast = device_has_clblast(bp->dev),
        .chained = bp->chained,
        .wisdom = options->wisdom,
        .wisdom_count = options->wisdom_count,
        .like = bp->like,
        .block = device_traits(&bp->dev->info).channel_block,
    };
}

struct problem open_problem(struct operand *ops, const struct blueprint *bp,
                            const struct clcnn_plan_options *options, const struct node *n)
{
    const struct value *values = bp->graph->values;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const int value = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        ops[i] = (struct operand){.shape.rank = -1, .view = VIEW_NONE};
        if (value >= 0)
            ops[i] = operand_of_value(&values[value]);
        operand_take_items(&ops[i], i < n->n_in ? node_input_items(n, i, &ops[i]) : n->items);
        operand_set_layout(&ops[i], ops[i].block);
    }
    struct problem p = problem_of_node(bp, options, n, ops);
    p.layouts_open = true;
    if (n->epi.add >= 0)
        p.add = operand_of_value(&values[n->epi.add]);
    operand_take_items(&p.add, n->items);
    operand_set_layout(&p.add, p.add.block);
    return p;
}

bool concat_input_in_place(const struct blueprint *bp, const struct value_views *views, const struct node *n,
                           int input)
{
    const int dim = ((const struct dim_attrs *)n->attrs)->dim;
    const struct operand *whole = &views->operand[n->out[0]], *part = &views->operand[n->in[input]];
    const struct view w = bp->views[whole->view], s = bp->views[part->view];
    const bool flat = whole->shape.rank < 2;
    if (dim > 1 || part->of || w.storage < 0 || s.storage != w.storage ||
        (!flat && part->batch_stride != whole->batch_stride))
        return false;
    int64_t at = 0;
    for (int i = 0; i < input; i++)
        at += bp->graph->values[n->in[i]].shape.dim[dim];
    return s.offset == w.offset + (flat       ? at
                                   : dim == 0 ? at * whole->batch_stride
                                              : at * shape_count_from(&whole->shape, 2));
}

/* The layout in which a node sees an operand. Work on whole items is shown row-major shapes of the same bytes: channels
 * rounded up to the block. */
static void show_layout(struct operand *o, int block, bool whole_items)
{
    o->block = whole_items ? 0 : block;
    if (whole_items && block)
        o->shape.dim[1] = (int32_t)ceil_div((size_t)o->shape.dim[1], (size_t)block) * block;
}

/* One item alone is dense, whatever it is a part of: so it was shown to algorithms when they were judged. */
static void show_items(struct operand *o)
{
    if (o->present && o->shape.rank > 0 && o->shape.dim[0] <= 1)
        o->batch_stride = operand_item(o);
}

/* The storage that a batch slice has instead of that of the first one; -1: out of memory. So storages live as long as in one slice, and the
 * arena gives those of all slices the same memory. */
static int storage_of_slice(struct emit *e, int storage)
{
    int *made = &e->slice_storage[storage];
    if (*made < 0) {
        const struct storage r = e->bp->storages[storage];
        *made = blueprint_storage(e->bp, r.name, r.items, r.item_elems, true, r.scratch);
        if (*made >= 0)
            e->bp->storages[*made].elem = r.elem;
    }
    return *made;
}

/* An operand of one batch slice: some items of a value that holds all of them, or all of a value that holds as many as a slice
 * computes. */
static enum clcnn_status take_slice(struct emit *e, struct operand *o, int items, int slice)
{
    if (items == 0 || slice == 0 || !o->present) {
        operand_take_items(o, items);
        return CLCNN_OK;
    }
    struct view s = e->bp->views[o->view];
    if (o->shape.dim[0] == items)
        s.storage = storage_of_slice(e, s.storage);
    else
        s.offset += (int64_t)slice * items * o->batch_stride;
    o->view = s.storage < 0 && s.packed < 0 && s.state < 0 ? -1 : blueprint_view_as(e->bp, s);
    operand_take_items(o, items);
    return o->view < 0 ? clcnn_fail_mem(e->err, sizeof s) : CLCNN_OK;
}

enum clcnn_status node_problem(struct problem *out, struct operand *ops, struct emit *e,
                               const struct value_views *views, const struct node *n, int slice)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] >= 0)
            ops[i] = views->operand[n->in[i]];
        else
            ops[i] = (struct operand){.shape.rank = -1, .view = VIEW_NONE};
        if (n->op->role == ROLE_CONCAT)
            ops[i].in_place = concat_input_in_place(e->bp, views, n, i);
        TRY(take_slice(e, &ops[i], node_input_items(n, i, &ops[i]), slice));
        if ((i == 0 && !n->follows) || n->all_src)
            show_layout(&ops[i], n->src_block, n->whole_items);
        else if (i == 1 && n->second_block)
            show_layout(&ops[i], n->second_block, false);
        show_items(&ops[i]);
    }
    for (int i = 0; i < n->n_out; i++) {
        ops[n->n_in + i] = views->operand[n->out[i]];
        TRY(take_slice(e, &ops[n->n_in + i], n->items, slice));
        show_layout(&ops[n->n_in + i], e->bp->graph->values[n->out[i]].block, n->whole_items);
        show_items(&ops[n->n_in + i]);
    }
    *out = problem_of_node(e->bp, e->options, n, ops);
    out->in_commit = n->in_commit;
    for (int i = 0; n->in_commit && i < e->bp->graph->n_outputs; i++)
        if (e->bp->graph->outputs[i].use == OUTPUT_COMMIT_WHEN)
            out->when = views->operand[e->bp->graph->outputs[i].value].view;
    if (n->epi.add >= 0) {
        out->add = views->operand[n->epi.add];
        TRY(take_slice(e, &out->add, n->items, slice));
        show_layout(&out->add, n->dst_block, false);
        show_items(&out->add);
    }
done:
    return st;
}

enum clcnn_status node_problem_now(struct problem *out, struct operand **ops, struct blueprint *bp,
                                   const struct value_views *views, const struct clcnn_plan_options *options,
                                   const struct node *n, struct clcnn_err *err)
{
    struct emit e = {.bp = bp, .options = options, .err = err};
    *ops = clcnn_calloc((size_t)(n->n_in + n->n_out), sizeof **ops);
    return *ops ? node_problem(out, *ops, &e, views, n, 0)
                : clcnn_fail_mem(err, (size_t)(n->n_in + n->n_out) * sizeof **ops);
}
