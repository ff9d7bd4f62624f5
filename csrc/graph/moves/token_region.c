/* token_region.c: finds the layers between transposes of tokens to maps and back; see token_region.h. */
#include "graph/moves/token_region.h"
#include "graph/match.h"

static const struct clcnn_shape *shape_of(const struct rewriter *r, int value)
{
    return &r->g->values[value].shape;
}

static bool is_map(const struct rewriter *r, int value)
{
    return shape_of(r, value)->rank == 4 && shape_of(r, value)->dtype == CLCNN_FLOAT32;
}

/* ---- moves ------------------------------------------------------------------------------------------------- */

/* Whether dimension `channels` of a shape has those of the map, what is before it the items and what is behind it the pixels. */
static bool is_like(const struct clcnn_shape *flat, int channels, const struct clcnn_shape *map)
{
    int64_t items = 1;
    for (int d = 0; d < channels; d++)
        items *= flat->dim[d];
    return items == map->dim[0] && flat->dim[channels] == map->dim[1] &&
           shape_count_from(flat, channels + 1) == shape_count_from(map, 2);
}

/* Whether a node turns a map, or a reshape of it, to tokens: channels come last. */
static bool turns_to_tokens(const struct rewriter *r, const struct node *n, int map)
{
    if (n->dead || !rewrite_is(n, &op_transpose) || rewrite_is_overridden(r, n))
        return false;
    const struct ints *perm = &((const struct axes_attrs *)n->attrs)->axes;
    const int last = perm->n - 1;
    return rewrite_brings(perm, perm->v[last], last) &&
           is_like(shape_of(r, n->in[0]), perm->v[last], shape_of(r, map));
}

int region_tokens(const struct rewriter *r, int map)
{
    const struct node *n = is_map(r, map) ? match_producer(r, map) : NULL;
    if (n && rewrite_is_reshape(n))
        n = match_producer(r, n->in[0]);
    if (!n || !rewrite_is(n, &op_transpose) || rewrite_is_overridden(r, n))
        return -1;
    const struct ints *perm = &((const struct axes_attrs *)n->attrs)->axes;
    for (int to = 0; to < perm->n; to++)
        if (perm->v[to] == perm->n - 1)
            return rewrite_brings(perm, perm->n - 1, to) &&
                           is_like(shape_of(r, n->out[0]), to, shape_of(r, map))
                       ? n->in[0]
                       : -1;
    return -1;
}

int region_map(const struct rewriter *r, const struct node *transpose)
{
    if (transpose->dead || !rewrite_is(transpose, &op_transpose))
        return -1;
    const int x = transpose->in[0];
    if (is_map(r, x) && turns_to_tokens(r, transpose, x))
        return x;
    const struct node *flat = match_producer(r, x);
    return flat && rewrite_is_reshape(flat) && is_map(r, flat->in[0]) &&
                   turns_to_tokens(r, transpose, flat->in[0])
               ? flat->in[0]
               : -1;
}

/* ---- layers ------------------------------------------------------------------------------------------------ */

bool region_is_depthwise(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, &op_conv) || !is_map(r, n->in[0]) || !rewrite_weights_are_constant(r, n))
        return false;
    const struct clcnn_shape *w = shape_of(r, n->in[1]);
    return ((const struct conv_attrs *)n->attrs)->groups == w->dim[0] && w->dim[1] == 1 &&
           !rewrite_is_forced(r, n, &op_depthwise_nhwc);
}

/* A constant for each channel of maps, or one for all. */
static bool is_for_channels(const struct rewriter *r, int value)
{
    const struct clcnn_shape *c = shape_of(r, value);
    const int channels = c->rank - 3;
    return rewrite_is_constant(r, value) && c->rank <= 4 && c->dtype == CLCNN_FLOAT32 &&
           shape_count(c) == (channels < 0 ? 1 : c->dim[channels]);
}

static bool is_arithmetic(const struct rewriter *r, const struct node *n)
{
    const struct clcnn_shape *y = shape_of(r, n->out[0]);
    if (!eltwise_is_binary(n->op))
        return false;
    for (int k = 0; k < 2; k++)
        if (!is_for_channels(r, n->in[k]) &&
            (rewrite_is_constant(r, n->in[k]) || !shape_equal(shape_of(r, n->in[k]), y)))
            return false;
    return true;
}

static bool has_constants(const struct rewriter *r, const struct node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (rewrite_is_constant(r, n->in[k]))
            return true;
    return false;
}

/* Whether a node can work on tokens. Its inputs that are no constants, and its outputs, are maps. */
static bool is_layer(const struct rewriter *r, const struct node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (!is_map(r, n->out[k]))
            return false;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] >= 0 && !rewrite_is_constant(r, n->in[k]) && !is_map(r, n->in[k]))
            return false;
    if (region_is_depthwise(r, n))
        return true;
    if (n->epi.add >= 0 || rewrite_is_overridden(r, n))
        return false;
    if (rewrite_is(n, &op_concat))
        return ((const struct dim_attrs *)n->attrs)->dim == 1 && !has_constants(r, n);
    if (rewrite_is(n, &op_split))
        return ((const struct split_attrs *)n->attrs)->dim == 1;
    if (rewrite_is(n, &op_slice))
        return match_slices_along(r, n, 1);
    if (rewrite_is(n, &op_batch_norm))
        return rewrite_norm_is_constant(r, n);
    return eltwise_is_unary(n->op) || is_arithmetic(r, n);
}

/* ---- the region -------------------------------------------------------------------------------------------- */

/* Adds to a list what is not there yet. */
static void add(struct token_region *g, int *list, int *n, int most, int item)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == item)
            return;
    if (*n == most)
        g->full = true;
    else
        list[(*n)++] = item;
}

static bool add_layer(const struct rewriter *r, struct token_region *g, int i)
{
    if (!is_layer(r, &r->g->nodes[i]))
        return false;
    add(g, g->layer, &g->n_layers, REGION_LAYERS, i);
    return true;
}

/* Where a map that a layer reads comes from. */
static bool add_origin(const struct rewriter *r, struct token_region *g, int map)
{
    const struct value *v = &r->g->values[map];
    if (v->kind == VALUE_CONSTANT)
        return true;
    if (region_tokens(r, map) >= 0) {
        add(g, g->source, &g->n_sources, REGION_SOURCES, map);
        return true;
    }
    return v->kind == VALUE_NODE && !r->g->nodes[v->producer].dead && add_layer(r, g, v->producer);
}

static int reads(const struct node *n, int value)
{
    int count = n->epi.add == value;
    for (int k = 0; k < n->n_in; k++)
        count += n->in[k] == value;
    return n->dead ? 0 : count;
}

/* Those who read a reshape of a map; false unless all of them are ends. */
static bool add_ends_of_flat(const struct rewriter *r, struct token_region *g, const struct node *flat)
{
    int left = r->uses[flat->out[0]];
    for (int i = (int)(flat - r->g->nodes) + 1; i < r->g->n_nodes && left > 0; i++) {
        const struct node *n = &r->g->nodes[i];
        if (reads(n, flat->out[0]) == 0)
            continue;
        if (!turns_to_tokens(r, n, flat->in[0]))
            return false;
        add(g, g->end, &g->n_ends, REGION_ENDS, i);
        left--;
    }
    return left == 0;
}

/* What reads a map that a layer gives. */
static bool add_readers(const struct rewriter *r, struct token_region *g, const struct node *from, int map)
{
    int left = r->uses[map];
    for (int i = (int)(from - r->g->nodes) + 1; i < r->g->n_nodes && left > 0; i++) {
        const struct node *n = &r->g->nodes[i];
        const int count = reads(n, map);
        if (count == 0)
            continue;
        left -= count;
        if (turns_to_tokens(r, n, map)) {
            add(g, g->end, &g->n_ends, REGION_ENDS, i);
        } else if (rewrite_is_reshape(n)) {
            if (!add_ends_of_flat(r, g, n))
                return false;
        } else if (!add_layer(r, g, i)) {
            return false;
        }
    }
    return left == 0;
}

/* All that a layer reads, and all who read what it gives. */
static bool grow(const struct rewriter *r, struct token_region *g, const struct node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] >= 0 && !add_origin(r, g, n->in[k]))
            return false;
    if (n->epi.add >= 0 &&
        (!is_map(r, n->epi.add) || rewrite_is_constant(r, n->epi.add) || !add_origin(r, g, n->epi.add)))
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (!add_readers(r, g, n, n->out[k]))
            return false;
    g->convs += region_is_depthwise(r, n);
    return true;
}

bool region_find(const struct rewriter *r, int transpose, struct token_region *g)
{
    const int map = region_map(r, &r->g->nodes[transpose]);
    *g = (struct token_region){0};
    if (map < 0 || region_tokens(r, map) >= 0 || r->g->values[map].kind != VALUE_NODE ||
        !add_origin(r, g, map))
        return false;
    for (int i = 0; i < g->n_layers; i++)
        if (!grow(r, g, &r->g->nodes[g->layer[i]]) || g->full)
            return false;
    return g->convs > 0;
}
