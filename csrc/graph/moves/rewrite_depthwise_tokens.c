/* rewrite_depthwise_tokens.c: depthwise convolutions that stand between two transposes of tokens and maps work on the tokens as they
 * lie, and the transposes are gone:
 *
 *   tokens[N][H W][C] . transpose . map[N][C][H][W] . conv . transpose   =>   depthwise_nhwc of [N][H][W][C]
 *
 * Element-wise functions, batch norms, sums of maps, and parts of channels may lie between, in any graph of which all maps come of such
 * tokens and go to such tokens (csrc/graph/moves/token_region.h). Where others read a map that tokens were turned to, its transpose
 * stays for these alone. GPUs do all of this: a transpose is a launch there, and no faster than the convolution itself; CPU devices,
 * which have channel blocks, take single convolutions. */
#include "graph/match.h"
#include "graph/moves/token_region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On CPU devices: layers of a region, taps of a row, and how far they or windows are apart. */
enum { EPILOGUE_LAYERS = 3, MOST_ACROSS = 7, MOST_APART = 2 };

static struct clcnn_shape channels_last(const struct clcnn_shape *s)
{
    struct clcnn_shape last = *s;
    last.dim[1] = s->dim[2];
    last.dim[2] = s->dim[3];
    last.dim[3] = s->dim[1];
    return last;
}

/* Whether the user forces it to an algorithm that convolutions with channels first do not have. */
static bool is_asked_for(const struct rewriter *r, const struct node *n)
{
    for (int i = 0; i < r->options->override_count; i++) {
        const struct clcnn_override *o = &r->options->overrides[i];
        if (strcmp(o->layer, n->name) == 0)
            return op_algo_find(&op_depthwise_nhwc, o->algo) >= 0 && op_algo_find(&op_conv, o->algo) < 0;
    }
    return false;
}

/* On CPU devices transposes cost as much as the convolution, but what else there is is faster on channel blocks: one convolution, by
 * vectors of channels, and two layers that its epilogue may take. */
static bool suits_vectors(const struct rewriter *r, const struct token_region *g)
{
    if (r->options->block == 0 || g->convs != 1 || g->n_layers > EPILOGUE_LAYERS)
        return false;
    for (int i = 0; i < g->n_layers; i++) {
        const struct node *n = &r->g->nodes[g->layer[i]];
        const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
        if (y->dim[1] % r->options->block != 0)
            return false;
        const struct conv_attrs *c = n->attrs;
        if (rewrite_is(n, &op_conv) && (r->g->values[n->in[1]].shape.dim[3] > MOST_ACROSS ||
                                        c->stride.v[1] > MOST_APART || c->dilation.v[1] > MOST_APART))
            return false;
    }
    return true;
}

static bool is_wanted(const struct rewriter *r, const struct token_region *g)
{
    bool wanted = r->options->gpu || suits_vectors(r, g);
    for (int i = 0; i < g->n_layers; i++)
        wanted = wanted || is_asked_for(r, &r->g->nodes[g->layer[i]]);
    return wanted;
}

/* Appends a reshape of `value`, which becomes what it gives. */
static enum clcnn_status reshaped(struct rewriter *r, const char *layer, const char *what,
                                  const struct clcnn_shape *to, int *value)
{
    char name[CLCNN_NAME_MAX + 16];
    const int from = *value;
    struct shape_attrs a = {.shape = {.n = to->rank}};
    memcpy(a.shape.v, to->dim, (size_t)to->rank * sizeof *to->dim);
    snprintf(name, sizeof name, "%s:%s", layer, what);
    return graph_append(r->g, &op_reshape, name, &a, &from, 1, value, r->err);
}

/* ---- layers ------------------------------------------------------------------------------------------------ */

/* Constants for each channel vary along the last dimension. */
static enum clcnn_status turn_constants(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    for (int k = 0; k < n->n_in; k++) {
        if (!rewrite_is_constant(r, n->in[k]))
            continue;
        const struct clcnn_shape line = {.rank = 1,
                                         .dim = {(int32_t)shape_count(&r->g->values[n->in[k]].shape)}};
        TRY(rewrite_reshaped(r, &n->in[k], &line));
    }
done:
    return st;
}

static void turn_slice(struct slice_attrs *a)
{
    struct ints *const list[] = {&a->starts, &a->ends, &a->steps};
    for (int i = 0; i < COUNT_OF(list); i++) {
        const struct ints was = *list[i];
        for (int d = 1; d < 4; d++)
            list[i]->v[d] = was.v[d == 3 ? 1 : d + 1];
    }
}

/* Lets a layer work on tokens; its shapes are still those of maps. */
static enum clcnn_status turn(struct rewriter *r, struct node *n)
{
    if (rewrite_is(n, &op_conv))
        n->op = &op_depthwise_nhwc;
    else if (rewrite_is(n, &op_batch_norm))
        return rewrite_norm_as_depthwise(r, n, &op_depthwise_nhwc);
    else if (rewrite_is(n, &op_concat))
        ((struct dim_attrs *)n->attrs)->dim = 3;
    else if (rewrite_is(n, &op_split))
        ((struct split_attrs *)n->attrs)->dim = 3;
    else if (rewrite_is(n, &op_slice))
        turn_slice(n->attrs);
    else
        return turn_constants(r, n);
    return CLCNN_OK;
}

static enum clcnn_status turn_layers(struct rewriter *r, const struct token_region *g)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < g->n_layers; i++)
        TRY(turn(r, &r->g->nodes[g->layer[i]]));
    for (int i = 0; i < g->n_layers; i++) {
        const struct node *n = &r->g->nodes[g->layer[i]];
        for (int k = 0; k < n->n_out; k++)
            r->g->values[n->out[k]].shape = channels_last(&r->g->values[n->out[k]].shape);
    }
done:
    return st;
}

/* ---- ends -------------------------------------------------------------------------------------------------- */

/* Whoever reads `value` reads `other` instead. */
static void read_instead(struct rewriter *r, int value, int other)
{
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == value)
                n->in[k] = other;
        if (n->epi.add == value)
            n->epi.add = other;
    }
}

static bool is_output(const struct clcnn_graph *g, int value)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == value)
            return true;
    return false;
}

/* The transpose at an end is a reshape of `map`, which has channels last now; or nothing, where the shapes are equal. */
static enum clcnn_status turn_end(struct rewriter *r, struct node *n, int map)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    if (shape_equal(y, &r->g->values[map].shape) && !is_output(r->g, n->out[0])) {
        read_instead(r, n->out[0], map);
        n->dead = true;
        return CLCNN_OK;
    }
    struct shape_attrs *a = clcnn_calloc(1, sizeof *a);
    if (!a)
        return clcnn_fail_mem(r->err, sizeof *a);
    a->shape.n = y->rank;
    memcpy(a->shape.v, y->dim, (size_t)y->rank * sizeof *y->dim);
    free(n->attrs);
    n->attrs = a;
    n->op = &op_reshape;
    n->in[0] = map;
    return CLCNN_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------- */

/* The tokens of map `source` with the dimensions of a map: themselves, or a reshape of them that is appended. */
static enum clcnn_status tokens_as_map(struct rewriter *r, int source, int *value)
{
    const int tokens = region_tokens(r, source);
    const struct clcnn_shape shape = channels_last(&r->g->values[source].shape);
    *value = tokens;
    return shape_equal(&shape, &r->g->values[tokens].shape)
               ? CLCNN_OK
               : reshaped(r, r->g->nodes[r->g->values[source].producer].name, "tokens", &shape, value);
}

/* The region's layers read `value` for `source`. */
static void read_tokens(struct rewriter *r, const struct token_region *g, int source, int value)
{
    for (int i = 0; i < g->n_layers; i++) {
        struct node *n = &r->g->nodes[g->layer[i]];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == source)
                n->in[k] = value;
        if (n->epi.add == source)
            n->epi.add = value;
    }
}

static int by_producer(const struct rewriter *r, int source)
{
    return r->g->values[source].producer;
}

/* Sources in the order of the moves that make them. */
static void sort_sources(const struct rewriter *r, struct token_region *g)
{
    for (int i = 1; i < g->n_sources; i++)
        for (int k = i; k > 0 && by_producer(r, g->source[k]) < by_producer(r, g->source[k - 1]); k--) {
            const int was = g->source[k];
            g->source[k] = g->source[k - 1];
            g->source[k - 1] = was;
        }
}

static enum clcnn_status turn_sources(struct rewriter *r, struct token_region *g)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    sort_sources(r, g);
    for (int i = 0; i < g->n_sources; i++) {
        int value = -1;
        TRY(tokens_as_map(r, g->source[i], &value));
        TRY(places_add(r, &places, r->g->values[g->source[i]].producer));
        read_tokens(r, g, g->source[i], value);
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    return st;
}

/* ---- regions ----------------------------------------------------------------------------------------------- */

static enum clcnn_status drop_moves(struct rewriter *r)
{
    const enum clcnn_status st = rewrite_count_anew(r);
    if (st == CLCNN_OK)
        match_drop_unread(r, rewrite_is_move);
    return st;
}

static enum clcnn_status turn_region(struct rewriter *r, struct token_region *g)
{
    enum clcnn_status st = CLCNN_OK;
    int map[REGION_ENDS];
    for (int i = 0; i < g->n_ends; i++)
        map[i] = region_map(r, &r->g->nodes[g->end[i]]);
    TRY(turn_layers(r, g));
    for (int i = 0; i < g->n_ends; i++)
        TRY(turn_end(r, &r->g->nodes[g->end[i]], map[i]));
    TRY(turn_sources(r, g)); /* last: it changes the places of nodes */
    TRY(drop_moves(r));
done:
    return st;
}

/* ---- sums of tokens ---------------------------------------------------------------------------------------- */

/* The convolution of which n's input k is a reshape that no one else reads, if it could add the other input; NULL: none. */
static struct node *summed(const struct rewriter *r, const struct node *n, int k)
{
    const struct node *flat = rewrite_sole_producer(r, n->in[k]);
    struct node *p = flat && rewrite_is_reshape(flat) ? rewrite_sole_producer(r, flat->in[0]) : NULL;
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    return p && rewrite_is(p, &op_depthwise_nhwc) && p->epi.add < 0 && p->epi.act == ACT_none &&
                   shape_equal(&r->g->values[n->in[1 - k]].shape, y)
               ? p
               : NULL;
}

/* Node i adds what the convolution gives as it is to a reshape of its other input; its result is a reshape of that. */
static enum clcnn_status add_maps(struct rewriter *r, struct places *places, int i, int k, int map)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node sum = r->g->nodes[i];
    const struct clcnn_shape shape = r->g->values[map].shape, y = r->g->values[sum.out[0]].shape;
    int other = sum.in[1 - k], result = sum.out[0];
    TRY(reshaped(r, sum.name, "map", &shape, &other));
    TRY(places_add(r, places, i - 1));
    TRY(reshaped(r, sum.name, "tokens", &y, &result));
    TRY(places_add(r, places, i));
    struct node *last = &r->g->nodes[r->g->n_nodes - 1];
    sum.in[k] = map;
    sum.in[1 - k] = other;
    last->in[0] = result;
    last->out[0] = sum.out[0];
    sum.out[0] = result;
    r->g->values[result].shape = shape;
done:
    return st;
}

/* The sum of tokens and of what a convolution makes of them is one of maps, for the convolution's epilogue to take. */
static enum clcnn_status add_before_reshapes(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    for (int i = 0; i < places.nodes; i++) {
        const struct node *n = &r->g->nodes[i], *p = NULL;
        if (n->dead || !rewrite_is(n, &op_add) || rewrite_is_overridden(r, n))
            continue;
        const int k = summed(r, n, 0) ? 0 : 1;
        p = summed(r, n, k);
        if (p)
            TRY(add_maps(r, &places, i, k, p->out[0]));
    }
    if (places.n == 0)
        return CLCNN_OK;
    TRY(places_take(r, &places));
    TRY(drop_moves(r));
done:
    free(places.of);
    return st;
}

enum clcnn_status rewrite_depthwise_tokens(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct token_region g;
        if (!region_find(r, i, &g) || !is_wanted(r, &g))
            continue;
        TRY(rewrite_note(r, "let %d layers up to transpose %s work on tokens", g.n_layers,
                         r->g->nodes[i].name));
        TRY(turn_region(r, &g));
    }
    TRY(add_before_reshapes(r));
done:
    return st;
}
