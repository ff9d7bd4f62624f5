/* rewrite_recurrent.c: a step of an LSTM or a GRU that was written out becomes one operator:
 *
 *   a = linear(h, r) + x; i, o, f = sigmoid(a[:3H]); d = f c + i tanh(a[3H:]); o tanh(d)      =>   lstm_cell
 *   a = linear(h, r, b); z, s = sigmoid(a[:2H] + x[:2H]); m = tanh(s a[2H:] + x[2H:]); m + z (h - m)   =>   gru_cell
 *
 * Sums and products may have their operands in either order. Nothing else may read what is between, but d. */
#include "graph/match.h"

#include <stdlib.h>
#include <string.h>

/* Of the batch on a CPU device: register tiles use weights for more rows at a time than a cell does. */
#define MOST_ROWS 16
/* Multiply-adds and units on a GPU: beyond, tensor cores and more groups gain more than one launch instead of six. Few units make
 * few products of each number that six launches would write and read: then it is one, however many rows there are. */
#define MOST_MACS (1 << 25)
#define MOST_UNITS 512

struct cell {
    struct match m;          /* all nodes but the last one */
    struct node *last, *sum; /* sum: of an LSTM's d, which others may read */
    int x, h, c, w, b;
    int units;
};

static const struct clcnn_shape *shape_of(const struct rewriter *r, int value)
{
    return &r->g->values[value].shape;
}

/* The node of `op` that computes value, as one of the pattern. */
static struct node *take(const struct rewriter *r, struct cell *c, int value, const struct op_def *op)
{
    struct node *n = match_op(r, value, op);
    if (n && n->epi.add < 0 && n->epi.act == ACT_none) {
        match_add(&c->m, n);
        return n;
    }
    return NULL;
}

/* What a function of one operand that is of the pattern is applied to; -1: it is another one. */
static int under(const struct rewriter *r, struct cell *c, int value, const struct op_def *op)
{
    const struct node *n = take(r, c, value, op);
    return n ? n->in[0] : -1;
}

/* What the columns from `first` to `past` - 1 (in units) of a matrix, taken by a slice of the pattern, are cut from; -1: it is none. */
static int cut_from(const struct rewriter *r, struct cell *c, int value, int first, int past)
{
    const struct node *n = take(r, c, value, &op_slice);
    if (!n)
        return -1;
    const struct slice_attrs *a = n->attrs;
    const struct clcnn_shape *x = shape_of(r, n->in[0]);
    const bool whole = x->rank == 2 && a->starts.v[0] == 0 && a->ends.v[0] == x->dim[0] && a->steps.v[0] == 1;
    return whole && a->steps.v[1] == 1 && a->starts.v[1] == first * c->units &&
                   a->ends.v[1] == past * c->units
               ? n->in[0]
               : -1;
}

static bool fits_cell(const struct rewriter *r, int64_t weights, int rows, int units)
{
    if (!r->options->gpu)
        return rows <= MOST_ROWS;
    return weights <= SEQUENCE_MOST_WEIGHTS ||
           sequence_shared_rows((size_t)units, (size_t)rows, r->options->together).parts > 0 ||
           (units <= MOST_UNITS && weights * rows <= MOST_MACS);
}

/* The state's product with the weights, [rows, gates * units]; its input, weights and bias are the cell's. */
static bool is_product(const struct rewriter *r, struct cell *c, int value, int gates, bool bias)
{
    const struct node *n = take(r, c, value, &op_linear);
    if (!n || (n->n_in > 2 && n->in[2] >= 0) != bias)
        return false;
    c->h = n->in[0];
    c->w = n->in[1];
    c->b = bias ? n->in[2] : -1;
    const struct clcnn_shape *h = shape_of(r, c->h), *w = shape_of(r, c->w);
    return h->rank == 2 && h->dim[1] == c->units && w->dim[0] == gates * c->units &&
           fits_cell(r, shape_count(w), h->dim[0], c->units) && rewrite_is_constant(r, c->w);
}

static bool same_shape(const struct rewriter *r, int a, int b)
{
    return shape_equal(shape_of(r, a), shape_of(r, b));
}

/* Whether only the pattern and, what `sum` computes, others after it read what is between. */
static bool closed(const struct rewriter *r, const struct cell *c, const struct op_def *op)
{
    if (c->m.full || rewrite_is_forced(r, c->last, op))
        return false;
    struct match inner = c->m;
    for (int i = 0; i < c->m.n; i++) {
        const struct node *n = c->m.node[i];
        int known = 0;
        for (int k = 0; k <= c->m.n; k++) {
            const struct node *user = k < c->m.n ? c->m.node[k] : c->last;
            for (int j = 0; j < user->n_in; j++)
                known += user->in[j] == n->out[0];
        }
        if (rewrite_is_overridden(r, n) || n == c->last || (n != c->sum && known != r->uses[n->out[0]]))
            return false;
    }
    /* others that read the sum come after the last node, which will compute it */
    for (const struct node *n = c->sum; n && n < c->last; n++)
        for (int j = 0; j < n->n_in; j++) {
            const int before = inner.n;
            if (n->dead || n->in[j] != c->sum->out[0])
                continue;
            match_add(&inner, (struct node *)n);
            if (inner.n != before)
                return false;
        }
    return true;
}

/* f c + i g, of which a tells one factor of each product: f is columns 2 to 3 of the gates' sigmoid, i those from 0 on. */
static bool match_sum(const struct rewriter *r, struct cell *c, const struct node *kept,
                      const struct node *more, int *three, int *fresh)
{
    for (int k = 0; k < 4; k++) {
        struct cell tried = *c;
        const int f = kept->in[k & 1], i = more->in[k >> 1];
        *three = cut_from(r, &tried, f, 2, 3);
        if (*three < 0 || cut_from(r, &tried, i, 0, 1) != *three)
            continue;
        tried.c = kept->in[!(k & 1)];
        *fresh = under(r, &tried, more->in[!(k >> 1)], &op_tanh);
        if (*fresh < 0)
            continue;
        *c = tried;
        return true;
    }
    return false;
}

/* The gates: the product plus x, either way round. */
static bool match_gates(const struct rewriter *r, struct cell *c, int gates)
{
    const struct node *n = take(r, c, gates, &op_add);
    for (int k = 0; n && k < 2; k++) {
        struct cell tried = *c;
        tried.x = n->in[1 - k];
        if (is_product(r, &tried, n->in[k], 4, false) && same_shape(r, tried.x, gates)) {
            *c = tried;
            return true;
        }
    }
    return false;
}

/* last = o tanh(d), with o as operand k. */
static bool match_lstm(const struct rewriter *r, struct node *last, int k, struct cell *c)
{
    const struct clcnn_shape *y = shape_of(r, last->out[0]);
    *c = (struct cell){.last = last, .units = y->rank == 2 ? y->dim[1] : 0, .b = -1};
    const int gate = cut_from(r, c, last->in[k], 1, 2), d = under(r, c, last->in[1 - k], &op_tanh);
    if (c->units == 0 || gate < 0 || d < 0 || !(c->sum = take(r, c, d, &op_add)))
        return false;
    for (int j = 0; j < 2; j++) {
        struct cell tried = *c;
        int three = -1, fresh = -1;
        const struct node *kept = take(r, &tried, c->sum->in[j], &op_mul);
        const struct node *more = take(r, &tried, c->sum->in[1 - j], &op_mul);
        if (!kept || !more || !match_sum(r, &tried, kept, more, &three, &fresh) || three != gate)
            continue;
        const int raw = under(r, &tried, three, &op_sigmoid), gates = cut_from(r, &tried, raw, 0, 3);
        if (raw < 0 || gates < 0 || cut_from(r, &tried, fresh, 3, 4) != gates ||
            !match_gates(r, &tried, gates) || !same_shape(r, tried.c, last->out[0]) ||
            !same_shape(r, d, last->out[0]))
            continue;
        *c = tried;
        return closed(r, c, &op_lstm_cell);
    }
    return false;
}

/* m = tanh(s a[2H:] + x[2H:]), with the product as operand k of the sum, and s of the product as operand j. */
static bool match_fresh(const struct rewriter *r, struct cell *c, int m, int k, int j, int *all, int *both)
{
    const struct node *sum = match_op(r, under(r, c, m, &op_tanh), &op_add);
    if (!sum || !take(r, c, sum->out[0], &op_add))
        return false;
    const struct node *seen = take(r, c, sum->in[k], &op_mul);
    if (!seen)
        return false;
    c->x = cut_from(r, c, sum->in[1 - k], 2, 3);
    *both = cut_from(r, c, seen->in[j], 1, 2);
    *all = cut_from(r, c, seen->in[1 - j], 2, 3);
    return c->x >= 0 && *both >= 0 && *all >= 0;
}

/* both = sigmoid(all[:2H] + x[:2H]), either way round. */
static bool match_both(const struct rewriter *r, struct cell *c, int both, int all)
{
    const struct node *sum = take(r, c, under(r, c, both, &op_sigmoid), &op_add);
    for (int k = 0; sum && k < 2; k++) {
        struct cell tried = *c;
        if (cut_from(r, &tried, sum->in[k], 0, 2) == all &&
            cut_from(r, &tried, sum->in[1 - k], 0, 2) == c->x) {
            *c = tried;
            return true;
        }
    }
    return false;
}

/* last = m + z (h - m), with m as operand `at` and z as operand `k` of the product. */
static bool match_gru(const struct rewriter *r, struct node *last, int at, int k, struct cell *c)
{
    const struct clcnn_shape *y = shape_of(r, last->out[0]);
    *c = (struct cell){.last = last, .units = y->rank == 2 ? y->dim[1] : 0};
    const int m = last->in[at];
    const struct node *product = take(r, c, last->in[1 - at], &op_mul);
    const int z = product ? cut_from(r, c, product->in[k], 0, 1) : -1;
    const struct node *change = z >= 0 ? take(r, c, product->in[1 - k], &op_sub) : NULL;
    if (c->units == 0 || !change || change->in[1] != m)
        return false;
    for (int way = 0; way < 4; way++) {
        struct cell tried = *c;
        int all = -1, both = -1;
        if (!match_fresh(r, &tried, m, way & 1, way >> 1, &all, &both) || both != z ||
            !match_both(r, &tried, both, all) || !is_product(r, &tried, all, 3, true) ||
            tried.h != change->in[0] || !same_shape(r, tried.x, all) || !same_shape(r, tried.h, last->out[0]))
            continue;
        *c = tried;
        return closed(r, c, &op_gru_cell);
    }
    return false;
}

/* The last node becomes the cell; of an LSTM it computes d, too. */
static enum clcnn_status replace(struct rewriter *r, struct cell *c, const struct op_def *op)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *last = c->last;
    const int inputs[2][4] = {{c->x, c->h, c->c, c->w}, {c->x, c->h, c->w, c->b}};
    int *in = clcnn_calloc(4, sizeof *in), *out = clcnn_calloc(2, sizeof *out);
    if (!in || !out) {
        st = clcnn_fail_mem(r->err, 4 * sizeof *in);
        goto done;
    }
    TRY(rewrite_note(r, "turn %d nodes up to %s %s into %s", c->m.n + 1, last->op->name, last->name,
                     op->name));
    memcpy(in, inputs[op == &op_gru_cell], sizeof inputs[0]);
    for (int i = 0; i < 4; i++)
        r->uses[in[i]]++;
    for (int i = 0; i < c->m.n; i++)
        match_remove(r, c->m.node[i]);
    for (int i = 0; i < last->n_in; i++)
        r->uses[last->in[i]]--;
    out[0] = last->out[0];
    if (c->sum) {
        out[1] = c->sum->out[0];
        r->g->values[out[1]].producer = (int)(last - r->g->nodes);
        last->n_out = 2;
    }
    free(last->in);
    free(last->out);
    free(last->attrs);
    last->in = in;
    last->out = out;
    last->n_in = 4;
    last->attrs = clcnn_calloc(1, 1);
    last->op = op;
    return last->attrs ? CLCNN_OK : clcnn_fail_mem(r->err, 1);
done:
    free(in);
    free(out);
    return st;
}

enum clcnn_status rewrite_find_cells(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct cell c;
    const bool pays = r->options->block > 0 || r->options->gpu;
    for (int i = 0; pays && i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead || n->epi.act != ACT_none || n->epi.add >= 0)
            continue;
        if (rewrite_is(n, &op_mul) && (match_lstm(r, n, 0, &c) || match_lstm(r, n, 1, &c)))
            TRY(replace(r, &c, &op_lstm_cell));
        else if (rewrite_is(n, &op_add) && (match_gru(r, n, 0, 0, &c) || match_gru(r, n, 0, 1, &c) ||
                                            match_gru(r, n, 1, 0, &c) || match_gru(r, n, 1, 1, &c)))
            TRY(replace(r, &c, &op_gru_cell));
    }
done:
    return st;
}
