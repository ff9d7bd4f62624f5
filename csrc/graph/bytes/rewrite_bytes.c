/* rewrite_bytes.c: layers of quantised files on maps of bytes, for devices that add up products of bytes.
 *
 * The importer writes a quantised layer as sums of whole numbers in floats, round(conv(x, w) + b), times a factor a channel,
 * rounded to one of 256 steps (fake_quantize). Such sums become byte_conv, and what is rounded a map of bytes; a sum of two such
 * maps becomes part of the convolution that gives one of them; windows, the sum of each channel, parts of the channels and maps side by
 * side follow, and functions of the elements of one map, which are looked up. Each float that bytes stand for can still be had (from_bytes), and is computed where
 * anything else reads it. */
#include "graph/bytes/byte_pass.h"

#include <math.h>
#include <stdlib.h>

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* What is the same bytes as before. */
static enum clcnn_status round_same(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    struct known k;
    const enum clcnn_status st = byte_of(b, what->x, BYTE_AS_THEY_ARE, &k);
    if (st == CLCNN_OK && k.bytes >= 0 && k.scale == what->to.scale && k.zero == what->to.zero)
        *out = k;
    return st;
}

/* Makes a node that rounds floats one that gives what bytes stand for. */
static enum clcnn_status read_bytes(struct byte_pass *b, int index, const struct known *k)
{
    struct node *n = &b->r->g->nodes[index];
    const struct clcnn_shape *y = byte_shape(b, n->out[0]);
    const struct eltwise_attrs *old = n->attrs;
    struct from_bytes_attrs *attrs = clcnn_calloc(1, sizeof *attrs);
    if (!attrs)
        return clcnn_fail_mem(b->r->err, sizeof *attrs);
    *attrs = (struct from_bytes_attrs){.scale = old->p0,
                                       .zero = (int)old->p1,
                                       .channels = y->dim[k->rows ? y->rank - 1 : 1],
                                       .rank = y->rank};
    attrs->rows.n = k->rows ? y->rank - 1 : 0;
    for (int i = 0; i < attrs->rows.n; i++)
        attrs->rows.v[i] = y->dim[i];
    free(n->attrs);
    n->attrs = attrs;
    n->op = &op_from_bytes;
    n->in[0] = k->bytes;
    return CLCNN_OK;
}

/* Rows that are made and then reshaped: the same bytes as before it. */
static enum clcnn_status round_before_reshape(struct byte_pass *b, const struct rounded *what,
                                              struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    struct rounded before = *what;
    const struct node *n = match_producer(b->r, what->x);
    for (; n && !n->dead && byte_keeps_rows(b, n); n = match_producer(b->r, before.x))
        before.x = n->in[0];
    if (before.x == what->x)
        return CLCNN_OK;
    TRY(byte_round_products(b, &before, out));
    if (out->bytes < 0)
        TRY(byte_round_function(b, &before, out));
    if (!out->rows)
        out->bytes = -1;
done:
    return st;
}

static enum clcnn_status visit_rounding(struct byte_pass *b, int index, const struct rounded *what)
{
    enum clcnn_status st = CLCNN_OK;
    enum clcnn_status (*const ways[])(struct byte_pass *, const struct rounded *, struct known *) = {
        round_same,        byte_round_products, byte_round_mean,     byte_round_maps,
        byte_round_concat, byte_round_affine,   byte_round_function, round_before_reshape};
    const struct eltwise_attrs *a = b->r->g->nodes[index].attrs;
    const struct rounded *found = byte_find(b, what);
    struct known k = found ? found->to : (struct known){.bytes = -1};
    for (int i = 0; i < COUNT_OF(ways) && k.bytes < 0; i++)
        TRY(ways[i](b, what, &k));
    if (k.bytes < 0)
        return CLCNN_OK;
    if (!found)
        b->rounded[b->n_rounded++] =
            (struct rounded){what->x, {k.bytes, what->to.scale, what->to.zero, k.rows}};
    a = b->r->g->nodes[index].attrs;
    k.scale = a->p0;
    b->known[b->r->g->nodes[index].out[0]] = k;
    TRY(read_bytes(b, index, &k));
done:
    return st;
}

/* Whole numbers times one number are the same bytes. */
static void visit_product(struct byte_pass *b, const struct node *n)
{
    double factor = 0.0;
    const int at = byte_times_number(b, n, &factor);
    struct known k = at < 0 ? (struct known){.bytes = -1} : b->known[n->in[at]];
    if (k.bytes < 0 || k.scale != 1.0f)
        return;
    k.scale = (float)factor;
    b->known[n->out[0]] = k;
}

static void visit_reshape(struct byte_pass *b, const struct node *n)
{
    const struct known *k = &b->known[n->in[0]];
    if (k->bytes >= 0 && k->rows && byte_keeps_rows(b, n))
        b->known[n->out[0]] = *k;
}

static enum clcnn_status visit_all(struct byte_pass *b)
{
    enum clcnn_status st = CLCNN_OK;
    const int nodes = b->r->g->n_nodes;
    for (int i = 0; i < nodes; i++) {
        struct rounded what;
        if (byte_rounding(b, &b->r->g->nodes[i], &what))
            TRY(visit_rounding(b, i, &what));
        else if (!b->r->g->nodes[i].dead && rewrite_is(&b->r->g->nodes[i], &op_mul))
            visit_product(b, &b->r->g->nodes[i]);
        else if (!b->r->g->nodes[i].dead && rewrite_is_reshape(&b->r->g->nodes[i]))
            visit_reshape(b, &b->r->g->nodes[i]);
        b->order[b->n_order++] = i;
    }
done:
    return st;
}

/* Nodes whose results nothing reads any more are gone. */
static enum clcnn_status drop_unread(struct byte_pass *b)
{
    struct rewriter *r = b->r;
    const enum clcnn_status st = rewrite_count_anew(r);
    if (st != CLCNN_OK)
        return st;
    for (int i = r->g->n_nodes - 1; i >= 0; i--) {
        struct node *n = &r->g->nodes[i];
        int read = 0;
        for (int k = 0; k < n->n_out; k++)
            read += r->uses[n->out[k]];
        if (n->dead || read)
            continue;
        match_remove(r, n);
        if (n->epi.add >= 0)
            r->uses[n->epi.add]--;
    }
    return CLCNN_OK;
}

static enum clcnn_status put_in_order(struct byte_pass *b)
{
    int count = 0;
    for (int i = 0; i < b->n_order; i++)
        if (b->order[i] >= 0)
            b->order[count++] = b->order[i];
    return graph_permute(b->r->g, b->order, count, b->r->err);
}

static size_t count_inputs(const struct clcnn_graph *g)
{
    size_t inputs = 0;
    for (int i = 0; i < g->n_nodes; i++)
        inputs += (size_t)g->nodes[i].n_in;
    return inputs;
}

static bool has_rounding(const struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && g->nodes[i].op == &op_fake_quantize)
            return true;
    return false;
}

static enum clcnn_status to_bytes(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct byte_pass b = {.r = r, .n_values = r->g->n_values};
    const size_t nodes = (size_t)r->g->n_nodes, values = (size_t)r->g->n_values, inputs = count_inputs(r->g);
    b.known = clcnn_calloc(values + 1, sizeof *b.known);
    b.rounded = clcnn_calloc(2 * nodes + inputs + 1, sizeof *b.rounded);
    b.tables = clcnn_calloc(nodes + inputs + 1, sizeof *b.tables);
    b.order = clcnn_calloc(BYTE_ROUND_NODES * nodes + BYTE_JOIN_NODES * inputs + 1, sizeof *b.order);
    if (!b.known || !b.rounded || !b.tables || !b.order)
        TRY(clcnn_fail_mem(r->err, (nodes + values) * sizeof *b.known));
    for (size_t i = 0; i < values; i++)
        b.known[i].bytes = -1;
    TRY(visit_all(&b));
    TRY(put_in_order(&b));
    TRY(drop_unread(&b));
done:
    free(b.known);
    free(b.rounded);
    free(b.tables);
    free(b.order);
    return st;
}

enum clcnn_status rewrite_to_bytes(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    if (!r->options->byte_products || !has_rounding(r->g))
        return CLCNN_OK;
    TRY(rewrite_products(r)); /* matrix products are linear layers here, too */
    TRY(rewrite_count_anew(r));
    TRY(to_bytes(r));
done:
    return st;
}
