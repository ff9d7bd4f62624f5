/* maps_in_cores.c: which maps are left as scaled halves in cores (kernels/common/cores.clh) for products on Hopper's tensor cores: at
 * precision "high" as halves, at "highest" as pairs of them, which hold 22 bits. The step that makes such a map rounds it as tensor cores would, and those who multiply it read half the bytes
 * and convert nothing. One scale serves the whole map, since it is known beforehand how large its values can get
 * (graph/bounds.c; where that is not noted, nothing is left so). So the algorithm that makes it, and all that read it, must take halves, and be preferred so. */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

enum { TOGETHER = 256 }; /* positions of the largest tile, which the memory has room for */
#define LARGEST 15       /* halves end below 2^16: values stay below two to this power */

struct cores_chooser {
    struct blueprint *bp;
    struct value_views *views;
    const struct clcnn_plan_options *options;
    struct clcnn_err *err;
};

/* A map as positions of channels: rows, or (planes) pixels of images whose channels are planes. */
struct positions {
    int64_t count;
    int32_t channels;
    bool planes;
};

static struct positions rows_of(const struct clcnn_shape *s)
{
    const int32_t channels = s->dim[s->rank - 1];
    return (struct positions){shape_count(s) / channels, channels, false};
}

static struct positions map_of(const struct clcnn_shape *s)
{
    return (struct positions){shape_count(s) / s->dim[1], s->dim[1], shape_count_from(s, 2) > 1};
}

/* How the node sees one of its values, its input or its result; no channels: not so. */
static struct positions seen_by(const struct node *n, const struct clcnn_shape *s)
{
    const struct rows_norm_attrs *norm = n->attrs;
    if (s->rank < 2 || shape_count(s) == 0)
        return (struct positions){0};
    if (n->op == &op_linear || n->op == &op_scaled_dot_product_attention)
        return rows_of(s);
    if (n->op == &op_conv)
        return map_of(s);
    if ((n->op == &op_layer_norm || n->op == &op_rms_norm) && norm->dims == 1)
        return norm->dim == s->rank - 1 ? rows_of(s) : norm->dim == 1 ? map_of(s) : (struct positions){0};
    return (struct positions){0};
}

static int storage_of(const struct cores_chooser *h, int value)
{
    return value_storage(h->bp, h->views, value);
}

/* Whether the value is all of its storage. */
static bool is_whole(const struct cores_chooser *h, int value)
{
    const struct operand *o = &h->views->operand[value];
    const struct storage *s = &h->bp->storages[storage_of(h, value)];
    return h->bp->views[o->view].offset == 0 && shape_count(&o->shape) == s->items * s->item_elems &&
           operand_dense(o) && o->shape.dtype == CLCNN_FLOAT32 && !o->fp16 && !o->of;
}

bool plan_has_cores(const struct clcnn_plan_options *options)
{
    return options->precision == CLCNN_PRECISION_HIGH || options->precision == CLCNN_PRECISION_HIGHEST;
}

static bool in_pairs(const struct cores_chooser *h)
{
    return h->options->precision == CLCNN_PRECISION_HIGHEST;
}

/* Gives all values of a storage that form, or takes it from them: 0. */
static void set_cores(const struct cores_chooser *h, int storage, float scale)
{
    for (int i = 0; i < h->bp->graph->n_values; i++)
        if (storage_of(h, i) == storage) {
            h->views->operand[i].cores = scale;
            h->views->operand[i].pairs = scale != 0.0f && in_pairs(h);
        }
}

/* Whether the rules take an algorithm for the node that takes its values as they lie now. */
static enum clcnn_status suits(bool *out, const struct cores_chooser *h, const struct node *n,
                               unsigned wanted)
{
    enum clcnn_status st = CLCNN_OK;
    struct operand *ops = NULL;
    struct problem p;
    TRY(node_problem_now(&p, &ops, h->bp, h->views, h->options, n, h->err));
    const struct algo_def *algo = algo_undisputed(&p, h->options);
    *out = algo && (algo_cores(algo, &p) & wanted) == wanted;
done:
    free(ops);
    return st;
}

/* Whether the node reads the storage, and whether as the first input of a layer that could take it. */
static bool reads(const struct cores_chooser *h, const struct node *n, int storage, bool *first)
{
    int count = storage_of(h, n->epi.add) == storage;
    for (int i = 0; i < n->n_in; i++)
        count += storage_of(h, n->in[i]) == storage;
    *first = count == 1 && storage_of(h, n->in[0]) == storage && (n->op == &op_linear || n->op == &op_conv) &&
             !n->items;
    return count > 0;
}

/* Whether all who read the storage see it as its producer does, and take it as it lies now. */
static enum clcnn_status readers_suit(bool *out, const struct cores_chooser *h, int storage,
                                      const struct positions *as)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_graph *g = h->bp->graph;
    int count = 0;
    *out = true;
    for (int i = 0; *out && i < g->n_outputs; i++)
        *out = storage_of(h, g->outputs[i].value) != storage;
    for (int i = 0; *out && i < g->n_values; i++)
        *out = storage_of(h, i) != storage || is_whole(h, i);
    for (int i = 0; *out && i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        bool first;
        if (n->dead || h->views->skip[i] || !reads(h, n, storage, &first))
            continue;
        const struct positions seen = first ? seen_by(n, &g->values[n->in[0]].shape) : (struct positions){0};
        *out = seen.channels == as->channels && seen.count == as->count && seen.planes == as->planes;
        if (*out)
            TRY(suits(out, h, n, CORES_SRC));
        count++;
    }
    *out = *out && count > 0;
done:
    return st;
}

/* The power of two that brings values up to `bound` to where halves have all of their bits. */
static float scale_of(float bound)
{
    int exponent;
    frexpf(bound, &exponent);
    return ldexpf(1.0f, LARGEST - exponent);
}

static enum clcnn_status consider(const struct cores_chooser *h, const struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_graph *g = h->bp->graph;
    const int value = n->out[0], storage = n->n_out == 1 && !n->items ? storage_of(h, value) : -1;
    const float bound = g->values[value].bound, scale = scale_of(bound);
    const struct positions as = seen_by(n, &g->values[value].shape);
    bool suit = storage >= 0 && as.channels > 0 && bound > 0.0f && isfinite(bound) && isnormal(scale) &&
                is_whole(h, value);
    if (!suit)
        return CLCNN_OK;
    set_cores(h, storage, scale);
    TRY(suits(&suit, h, n, CORES_DST));
    if (suit)
        TRY(readers_suit(&suit, h, storage, &as));
    if (!suit) {
        set_cores(h, storage, 0.0f);
        return CLCNN_OK;
    }
    struct storage *s = &h->bp->storages[storage]; /* two halves in each float */
    s->items = 1;
    s->item_elems = s->stride =
        (int64_t)round_up((size_t)as.count, TOGETHER) * as.channels / (in_pairs(h) ? 1 : 2);
    TRY(notes_add(&h->bp->notes, h->err,
                  "leave the map of %s as %shalves for those who multiply it: at most %.3g", s->name,
                  in_pairs(h) ? "pairs of " : "", (double)bound));
done:
    return st;
}

enum clcnn_status choose_cores(struct blueprint *bp, struct value_views *views,
                               const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_graph *g = bp->graph;
    const struct cores_chooser h = {.bp = bp, .views = views, .options = options, .err = err};
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && !views->skip[i])
            TRY(consider(&h, &g->nodes[i]));
done:
    return st;
}
