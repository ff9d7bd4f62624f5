/* rewrite_sequences.c: steps of an LSTM or a GRU that follow each other become one operator for the whole sequence:
 *
 *   h1, c1 = lstm_cell(x[:n], h0, c0, r); h2, c2 = lstm_cell(x[n:2n], h1, c1, r); ...; concat(h1, h2 ...)   =>   lstm
 *
 * Steps may take the rows of x in falling order, but must take all. Each c but the last one is read by the next step alone; whoever
 * reads an h gets a slice of the result, but for a concatenation of all in the order of the rows, whose place it takes.
 *
 * On GPUs, where a step is a launch, and where a group keeps the weights in its registers, for few units, or all groups together do,
 * if they may wait for each other. */
#include "graph/match.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_STEPS = 2 };
/* A group has so many work-items for each unit: see kernels/matmul/sequence_persistent.cl. */
#define KEEPERS_PER_UNIT 4

struct sequence {
    const struct op_def *op;
    int *step, n, cap;  /* nodes, in the order in which they follow each other */
    int x;              /* value that has the rows of all steps */
    int first, towards; /* the first step's place among the rows, and from one step to the next: 1 or -1 */
    int joined;         /* node that concatenates all states; -1: none */
};

static const struct clcnn_shape *shape_of(const struct rewriter *r, int value)
{
    return &r->g->values[value].shape;
}

static const struct op_def *whole_of(const struct node *n)
{
    return rewrite_is(n, &op_lstm_cell) ? &op_lstm : rewrite_is(n, &op_gru_cell) ? &op_gru : NULL;
}

static bool has_c(const struct node *n)
{
    return rewrite_is(n, &op_lstm_cell);
}

/* What may be read by no one: files name the last states of a layer, and the reader joins them, whether anyone wants them or not. */
static bool joins_states(const struct node *n)
{
    return rewrite_is_move(n) || rewrite_is(n, &op_concat) || rewrite_is(n, &op_slice);
}

/* ---- steps that follow each other ------------------------------------------------------------------------- */

/* What a step's rows of x are cut from, and how many steps' rows lie before them; -1: they are no such rows. */
static int rows_of(const struct rewriter *r, const struct node *step, int *place)
{
    const struct node *n = match_op(r, step->in[0], &op_slice);
    *place = -1;
    if (!n || rewrite_is_overridden(r, n))
        return -1;
    const struct slice_attrs *a = n->attrs;
    const struct clcnn_shape *x = shape_of(r, n->in[0]);
    const int32_t rows = shape_of(r, step->in[1])->dim[0];
    *place = a->starts.v[0] / rows;
    return x->rank == 2 && a->steps.v[0] == 1 && a->steps.v[1] == 1 && a->starts.v[1] == 0 &&
                   a->ends.v[1] == x->dim[1] && a->starts.v[0] == *place * rows &&
                   a->ends.v[0] == (*place + 1) * rows && x->dim[0] % rows == 0
               ? n->in[0]
               : -1;
}

/* Whether a layer of these steps would have its weights in registers, of a group or of all. */
static bool is_step(const struct rewriter *r, const struct node *n)
{
    const struct op_def *op = n->dead ? NULL : whole_of(n);
    if (!op)
        return false;
    const struct clcnn_shape *h = shape_of(r, n->in[1]);
    const size_t units = (size_t)h->dim[1], rows = (size_t)h->dim[0];
    const size_t gates = (size_t)shape_of(r, n->in[0])->dim[1] / units;
    const bool of_one = sequence_fits_group(gates, units) &&
                        KEEPERS_PER_UNIT * round_up(units, SEQUENCE_TOGETHER) <= r->options->keepers;
    return (of_one || sequence_shared_rows(units, rows, r->options->together).parts > 0) &&
           !rewrite_is_forced(r, n, op);
}

/* Whether `next` goes on with what `n` computes, and no one else with its c. */
static bool follows(const struct rewriter *r, const struct node *n, const struct node *next)
{
    int place, behind;
    if (!is_step(r, next) || next->op != n->op || next->in[1] != n->out[0] || next->in[3] != n->in[3] ||
        rewrite_is_overridden(r, n))
        return false;
    if (has_c(n) ? next->in[2] != n->out[1] || r->uses[n->out[1]] != 1 : next->in[2] != n->in[2])
        return false;
    const int x = rows_of(r, n, &place);
    return x >= 0 && rows_of(r, next, &behind) == x && (behind == place + 1 || behind == place - 1);
}

static struct node *next_step(const struct rewriter *r, const struct node *n)
{
    struct node *next = rewrite_next_reader(r, n->out[0], n);
    while (next && !follows(r, n, next))
        next = rewrite_next_reader(r, n->out[0], next);
    return next;
}

/* Whether a step begins a sequence: it follows none. */
static bool begins(const struct rewriter *r, const struct node *n)
{
    const struct value *h = &r->g->values[n->in[1]];
    const struct node *before = h->kind == VALUE_NODE ? &r->g->nodes[h->producer] : NULL;
    return !before || !is_step(r, before) || !follows(r, before, n);
}

static enum clcnn_status add_step(struct rewriter *r, struct sequence *s, const struct node *n)
{
    if (!clcnn_grow((void **)&s->step, &s->cap, s->n + 1, sizeof *s->step))
        return clcnn_fail_mem(r->err, sizeof *s->step);
    s->step[s->n++] = (int)(n - r->g->nodes);
    return CLCNN_OK;
}

/* The node that concatenates the states of all steps in the order of the rows; -1: none. */
static int joined(const struct rewriter *r, const struct sequence *s)
{
    const struct node *top = &r->g->nodes[s->step[s->towards > 0 ? 0 : s->n - 1]];
    for (const struct node *n = rewrite_next_reader(r, top->out[0], top); n;
         n = rewrite_next_reader(r, top->out[0], n)) {
        if (!rewrite_is(n, &op_concat) || n->n_in != s->n || ((const struct dim_attrs *)n->attrs)->dim != 0 ||
            rewrite_is_overridden(r, n))
            continue;
        int t = 0;
        while (t < s->n && n->in[s->first + t * s->towards] == r->g->nodes[s->step[t]].out[0])
            t++;
        if (t == s->n)
            return (int)(n - r->g->nodes);
    }
    return -1;
}

/* The sequence that begins with node i; of no steps where it is none. */
static enum clcnn_status find(struct rewriter *r, int i, struct sequence *s)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node *n = &r->g->nodes[i], *next;
    s->n = 0;
    if (!is_step(r, n) || !begins(r, n) || (s->x = rows_of(r, n, &s->first)) < 0)
        goto done;
    s->op = whole_of(n);
    s->towards = s->first == 0 ? 1 : -1;
    for (int place = s->first; n; n = next, place += s->towards) {
        int own;
        if (rows_of(r, n, &own) != s->x || own != place)
            break;
        TRY(add_step(r, s, n));
        next = next_step(r, n);
    }
    const bool whole = s->n >= LEAST_STEPS && (s->towards > 0 || s->first == s->n - 1) &&
                       s->n * shape_of(r, r->g->nodes[i].in[1])->dim[0] == shape_of(r, s->x)->dim[0];
    s->n = whole ? s->n : 0;
    s->joined = whole ? joined(r, s) : -1;
done:
    return st;
}

/* ---- the operator in their place -------------------------------------------------------------------------- */

/* Output k of node `from` becomes output `at` of node `to`, which the graph was given for it. */
static void take_output(struct rewriter *r, int to, int at, int from, int k)
{
    int *const mine = &r->g->nodes[to].out[at], *const theirs = &r->g->nodes[from].out[k], value = *mine;
    *mine = *theirs;
    *theirs = value;
    r->g->values[*mine].producer = to;
    r->g->values[value].producer = from;
}

/* The state after step t, which others read, is a slice of y. */
static enum clcnn_status append_slice(struct rewriter *r, const struct sequence *s, int t, int y)
{
    enum clcnn_status st;
    char name[CLCNN_NAME_MAX + 16];
    int made;
    const struct node *n = &r->g->nodes[s->step[t]];
    const struct clcnn_shape *h = shape_of(r, n->out[0]);
    const int32_t place = s->first + t * s->towards;
    const struct slice_attrs a = {
        .starts = {2, {place * h->dim[0], 0}},
        .ends = {2, {(place + 1) * h->dim[0], h->dim[1]}},
        .axes = {2, {0, 1}},
        .steps = {2, {1, 1}},
    };
    snprintf(name, sizeof name, "%s:h", n->name);
    TRY(graph_append(r->g, &op_slice, name, &a, &y, 1, &made, r->err));
    take_output(r, r->g->n_nodes - 1, 0, s->step[t], 0);
done:
    return st;
}

/* The steps, and slices that no one else reads, are gone. */
static void remove_steps(struct rewriter *r, const struct sequence *s)
{
    for (int t = 0; t < s->n; t++) {
        struct node *n = &r->g->nodes[s->step[t]];
        const int rows = n->in[0];
        match_remove(r, n);
        if (r->uses[rows] == 0)
            match_remove(r, &r->g->nodes[r->g->values[rows].producer]);
    }
    if (s->joined >= 0)
        match_remove(r, &r->g->nodes[s->joined]);
}

/* Behind the first step's place, where all that it reads is there. */
static enum clcnn_status replace(struct rewriter *r, const struct sequence *s, struct places *places)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node *first = &r->g->nodes[s->step[0]], *last = &r->g->nodes[s->step[s->n - 1]];
    const struct sequence_attrs attrs = {.reverse = s->towards < 0};
    const int in[4] = {s->x, first->in[1], first->in[2], first->in[3]}, made = r->g->n_nodes;
    const bool c = has_c(first);
    int out[2];
    TRY(rewrite_note(r, "turn %d steps up to %s %s into %s", s->n, last->op->name, last->name, s->op->name));
    TRY(graph_append(r->g, s->op, last->name, &attrs, in, 4, out, r->err));
    for (int k = 0; k < 4; k++)
        r->uses[in[k]]++;
    if (s->joined >= 0)
        take_output(r, made, 0, s->joined, 0);
    if (c)
        take_output(r, made, 1, s->step[s->n - 1], 1);
    remove_steps(r, s);
    for (int t = 0; t < s->n; t++)
        if (r->uses[r->g->nodes[s->step[t]].out[0]] > 0)
            TRY(append_slice(r, s, t, r->g->nodes[made].out[0]));
    TRY(places_add(r, places, s->step[0]));
done:
    return st;
}

enum clcnn_status rewrite_find_sequences(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    struct sequence s = {0};
    match_drop_unread(r, joins_states);
    for (int i = 0; r->options->gpu && i < places.nodes; i++) {
        TRY(find(r, i, &s));
        if (s.n > 0)
            TRY(replace(r, &s, &places));
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    free(s.step);
    return st;
}
