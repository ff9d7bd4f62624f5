/* fp16_activations.c: which maps are stored as halves. At precision "medium" a map between steps is, where the algorithm that makes it and
 * all that read it have a form for that (algo_def.fp16); all values of a storage are stored alike. The graph's inputs and outputs,
 * and constants, stay float32. CPU devices compute on channel blocks, which have no such form. Maps that stay in a GPU's caches gain
 * little, and more variants of kernels make chains shorter (GoogLeNet at batch 1 on an H200: 0.37 -> 0.43 ms), so plans are left alone
 * whose largest node has less than FP16_MAPS_LEAST_BYTES of them, but for guarded ones, so that tests can be small. */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <stdlib.h>
#include <string.h>

struct fp16_chooser {
    struct blueprint *bp;
    const struct value_views *views;
    const struct clcnn_plan_options *options;
    struct verdict {
        const char *layer, *why; /* what keeps a storage in float32, NULL: nothing does; */
        const char *algo;        /* its algorithm, NULL where the rule is not about one */
        bool map;                /* some step writes it */
    } * storages;
    unsigned *taken; /* per node: FP16_ bits of its algorithm */
    struct clcnn_err *err;
};

static const char FLOAT_ONLY[] = "has no form for halves", OTHERS_STAY[] = "moves it beside others that stay",
                  IO_STAYS[] = "no map between steps";

static struct verdict *storage_of(const struct fp16_chooser *h, int value)
{
    const int storage = value_storage(h->bp, h->views, value);
    return storage < 0 ? NULL : &h->storages[storage];
}

/* Whether the value is or will be float32. */
static bool stays(const struct fp16_chooser *h, int value)
{
    const struct verdict *v = storage_of(h, value);
    return value >= 0 && (!v || v->why);
}

static void keep(struct fp16_chooser *h, int value, const char *layer, const char *algo, const char *why)
{
    struct verdict *v = storage_of(h, value);
    if (v && !v->why)
        *v = (struct verdict){layer, why, algo, v->map};
}

static void keep_io(struct fp16_chooser *h)
{
    const struct clcnn_graph *g = h->bp->graph;
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].kind != VALUE_NODE || g->values[i].shape.dtype != CLCNN_FLOAT32)
            keep(h, i, "", NULL, IO_STAYS);
    for (int i = 0; i < g->n_outputs; i++)
        keep(h, g->outputs[i].value, g->outputs[i].name, NULL, IO_STAYS);
}

/* What the algorithm that the planner would choose asks of the node's values. */
static enum clcnn_status keep_by_node(struct fp16_chooser *h, int index)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *n = &h->bp->graph->nodes[index];
    const struct algo_def *algo = NULL;
    struct operand *ops = NULL;
    struct problem p;
    TRY(node_problem_now(&p, &ops, h->bp, h->views, h->options, n, h->err));
    TRY(select_for_node(&algo, h->bp, n, &p, h->options, h->err));
    const unsigned taken = h->taken[index] = algo_fp16(algo, &p);
    for (int i = 0; i < n->n_in; i++)
        if (!(taken & FP16_SAME) && !(i == 0 && (taken & FP16_SRC)))
            keep(h, n->in[i], n->name, algo->name, FLOAT_ONLY);
    for (int i = 0; i < n->n_out; i++) {
        struct verdict *v = storage_of(h, n->out[i]);
        if (!(taken & (FP16_SAME | FP16_DST)))
            keep(h, n->out[i], n->name, algo->name, FLOAT_ONLY);
        if (v)
            v->map = true;
    }
    if (!(taken & FP16_ADD))
        keep(h, n->epi.add, n->name, algo->name, FLOAT_ONLY);
done:
    free(ops);
    return st;
}

/* Whether a node that only moves elements keeps one of its values in float32 because of another. */
static bool keep_beside(struct fp16_chooser *h, int index)
{
    const struct node *n = &h->bp->graph->nodes[index];
    bool any = false, all = true;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const bool one = stays(h, i < n->n_in ? n->in[i] : n->out[i - n->n_in]);
        any = any || one;
        all = all && one;
    }
    for (int i = 0; any && i < n->n_in + n->n_out; i++)
        keep(h, i < n->n_in ? n->in[i] : n->out[i - n->n_in], n->name, NULL, OTHERS_STAY);
    return any && !all;
}

/* Stores the storages so for which nothing speaks against it. */
static enum clcnn_status store_fp16(const struct fp16_chooser *h, struct notes *notes)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = h->bp;
    for (int i = 0; i < bp->n_storages; i++) {
        const struct verdict *v = &h->storages[i];
        if (v->map && !v->why) {
            bp->storages[i].elem = sizeof(uint16_t);
            TRY(notes_add(notes, h->err, "store the map of %s as halves", bp->storages[i].name));
        } else if (v->map && v->algo) {
            TRY(notes_add(notes, h->err, "keep the map of %s in float32: algorithm '%s' of %s %s",
                          bp->storages[i].name, v->algo, v->layer, v->why));
        } else if (v->map && v->why == OTHERS_STAY) {
            TRY(notes_add(notes, h->err, "keep the map of %s in float32: %s %s", bp->storages[i].name,
                          v->layer, v->why));
        }
    }
    for (int i = 0; i < bp->graph->n_values; i++) {
        const struct verdict *v = storage_of(h, i);
        h->views->operand[i].fp16 = v && v->map && !v->why;
    }
done:
    return st;
}

enum clcnn_status choose_fp16_activations(struct blueprint *bp, const struct value_views *views,
                                          const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct fp16_chooser h = {.bp = bp, .views = views, .options = options, .err = err};
    if (options->precision < CLCNN_PRECISION_MEDIUM)
        return CLCNN_OK;
    if (cpu_device(&bp->dev->info))
        return notes_add(&bp->notes, err,
                         "keep maps in float32: kernels for CPU devices have no form for halves");
    if (bp->least_arena < FP16_MAPS_LEAST_BYTES && !options->guard)
        return notes_add(&bp->notes, err,
                         "keep maps in float32: they are small enough to stay in a GPU's caches");
    bp->fp16_activations = true;
    h.storages = clcnn_calloc((size_t)bp->n_storages + 1, sizeof *h.storages);
    h.taken = clcnn_calloc((size_t)bp->graph->n_nodes + 1, sizeof *h.taken);
    if (!h.storages || !h.taken) {
        st = clcnn_fail_mem(err, (size_t)bp->n_storages * sizeof *h.storages);
        goto done;
    }
    keep_io(&h);
    for (int i = 0; i < bp->graph->n_nodes; i++)
        if (!bp->graph->nodes[i].dead && !views->skip[i])
            TRY(keep_by_node(&h, i));
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < bp->graph->n_nodes; i++)
            if (h.taken[i] & FP16_SAME)
                again = keep_beside(&h, i) || again;
    }
    TRY(store_fp16(&h, &bp->notes));
done:
    free(h.storages);
    free(h.taken);
    return st;
}
