/* rewrite_moves.c: chains of transposes and reshapes become one move.
 *
 * What such a chain gives is described by atoms: x's dimensions, split where a reshape asks for it, and the order in which the result
 * has them. A transpose changes the order of groups of atoms; a reshape groups them anew. Where atoms are in x's order in the end
 * nothing moved, and the chain is a reshape; else it is reshape(x, atoms), transpose, reshape, the reshapes being views. */
#include "graph/match.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ATOMS = 24 };

/* The value's dimensions are groups of atoms, in its order; an atom knows its place among those of x. */
struct atom {
    int32_t size;
    int place;
};
struct moved {
    struct atom atom[MAX_ATOMS];
    int first[CLCNN_MAX_RANK + 1]; /* of each dimension's group; after the last one the number of atoms */
    int rank, n;
};

static void begin(struct moved *m, const struct clcnn_shape *x)
{
    *m = (struct moved){.rank = x->rank, .n = x->rank};
    for (int d = 0; d < x->rank; d++) {
        m->atom[d] = (struct atom){x->dim[d], d};
        m->first[d] = d;
    }
    m->first[x->rank] = x->rank;
}

static void transpose(struct moved *m, const struct axes_attrs *a)
{
    const struct moved was = *m;
    m->n = 0;
    for (int d = 0; d < m->rank; d++) {
        m->first[d] = m->n;
        for (int k = was.first[a->axes.v[d]]; k < was.first[a->axes.v[d] + 1]; k++)
            m->atom[m->n++] = was.atom[k];
    }
}

/* Makes two atoms of atom k, the second one of `inner` elements; false when that cannot be. */
static bool split(struct moved *m, int k, int32_t inner)
{
    if (m->n == MAX_ATOMS || inner < 1 || m->atom[k].size % inner != 0)
        return false;
    const int place = m->atom[k].place;
    for (int i = 0; i < m->n; i++)
        m->atom[i].place += m->atom[i].place > place;
    memmove(&m->atom[k + 1], &m->atom[k], (size_t)(m->n - k) * sizeof m->atom[0]);
    m->n++;
    m->atom[k].size /= inner;
    m->atom[k + 1] = (struct atom){inner, place + 1};
    return true;
}

/* Atoms from the first on are grouped to y's dimensions. Atoms of one element at the end of a group go to it. */
static bool reshape(struct moved *m, const struct clcnn_shape *y)
{
    int k = 0;
    m->rank = y->rank;
    for (int d = 0; d < y->rank; d++) {
        int64_t size = 1;
        m->first[d] = k;
        for (; size < y->dim[d]; k++) {
            const int64_t left = y->dim[d] / size;
            if (k == m->n || y->dim[d] % size != 0)
                return false;
            if (m->atom[k].size > left && !split(m, k, (int32_t)(m->atom[k].size / left)))
                return false;
            size *= m->atom[k].size;
        }
        if (size != y->dim[d])
            return false;
    }
    m->first[y->rank] = m->n;
    for (; k < m->n; k++)
        if (m->atom[k].size != 1)
            return false;
    return true;
}

/* Drops atoms of one element, and joins those that are neighbours on both sides. */
static void simplify(struct moved *m)
{
    struct atom kept[MAX_ATOMS];
    int n = 0;
    for (int k = 0; k < m->n; k++)
        if (m->atom[k].size != 1)
            kept[n++] = m->atom[k];
    /* places, without gaps */
    for (int k = 0; k < n; k++) {
        int place = 0;
        for (int i = 0; i < n; i++)
            place += kept[i].place < kept[k].place;
        m->atom[k] = (struct atom){kept[k].size, place};
    }
    m->n = n;
    for (int k = 0; k + 1 < m->n;) {
        const int place = m->atom[k].place;
        if (m->atom[k + 1].place != place + 1) {
            k++;
            continue;
        }
        m->atom[k].size *= m->atom[k + 1].size;
        memmove(&m->atom[k + 1], &m->atom[k + 2], (size_t)(m->n - k - 2) * sizeof m->atom[0]);
        m->n--;
        for (int i = 0; i < m->n; i++)
            m->atom[i].place -= m->atom[i].place > place;
    }
}

/* ---- chains ----------------------------------------------------------------------------------------------- */

/* The moves up to `last`, latest first. Those before the last one compute what nothing else uses. */
struct chain {
    struct node *node[16];
    int n, transposes;
};

static struct chain chain_up_to(const struct rewriter *r, struct node *last)
{
    struct chain c = {0};
    for (struct node *n = last;
         n && rewrite_is_move(n) && c.n < COUNT_OF(c.node) && !rewrite_is_overridden(r, n);
         n = rewrite_sole_producer(r, n->in[0])) {
        c.node[c.n++] = n;
        c.transposes += rewrite_is(n, &op_transpose);
    }
    return c;
}

/* What the first `n` nodes of the chain, counted from the last one, make of their input; false when it is no one move.
 * Reshapes alone move nothing, whatever they split. */
static bool follow(const struct rewriter *r, const struct chain *c, int n, int transposes, struct moved *m)
{
    begin(m, &r->g->values[c->node[n - 1]->in[0]].shape);
    for (int i = n - 1; i >= 0 && transposes > 0; i--) {
        if (rewrite_is(c->node[i], &op_transpose))
            transpose(m, c->node[i]->attrs);
        else if (!reshape(m, &r->g->values[c->node[i]->out[0]].shape))
            return false;
    }
    return true;
}

/* Makes n a reshape, or a transpose, of `x`; `list` has its dimensions. */
static enum clcnn_status make(struct rewriter *r, struct node *n, const struct op_def *op, int x,
                              const int32_t *list, int count)
{
    void *attrs = clcnn_calloc(1, op->attrs_size);
    if (!attrs)
        return clcnn_fail_mem(r->err, op->attrs_size);
    struct ints *to =
        op == &op_transpose ? &((struct axes_attrs *)attrs)->axes : &((struct shape_attrs *)attrs)->shape;
    to->n = count;
    memcpy(to->v, list, (size_t)count * sizeof *list);
    free(n->attrs);
    n->attrs = attrs;
    n->op = op;
    n->in[0] = x;
    return CLCNN_OK;
}

/* A reshape to the shape of what it computes. */
static enum clcnn_status make_reshape(struct rewriter *r, struct node *n, int x)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    return make(r, n, &op_reshape, x, y->dim, y->rank);
}

static void set_shape(struct rewriter *r, int value, const struct moved *m, bool of_x)
{
    struct clcnn_shape *s = &r->g->values[value].shape;
    s->rank = m->n;
    for (int k = 0; k < m->n; k++)
        s->dim[of_x ? m->atom[k].place : k] = m->atom[k].size;
}

static bool moves_nothing(const struct moved *m)
{
    for (int k = 0; k < m->n; k++)
        if (m->atom[k].place != k)
            return false;
    return true;
}

/* The last nodes of the chain become reshape, transpose, reshape (or as few of them as do); the others are gone. */
static enum clcnn_status write(struct rewriter *r, const struct chain *c, int n, const struct moved *m)
{
    enum clcnn_status st = CLCNN_OK;
    int x = c->node[n - 1]->in[0];
    struct node *const *node = c->node;
    int32_t perm[CLCNN_MAX_RANK];
    const bool nothing = moves_nothing(m);
    for (int i = nothing ? 1 : 3; i < n; i++)
        node[i]->dead = true;
    if (nothing)
        return make_reshape(r, node[0], x);
    for (int k = 0; k < m->n; k++)
        perm[k] = m->atom[k].place;
    if (n == 2) { /* two transposes: their dimensions are the atoms */
        node[1]->dead = true;
        return make(r, node[0], &op_transpose, x, perm, m->n);
    }
    set_shape(r, node[2]->out[0], m, true);
    set_shape(r, node[1]->out[0], m, false);
    TRY(make_reshape(r, node[2], x));
    TRY(make(r, node[1], &op_transpose, node[2]->out[0], perm, m->n));
    TRY(make_reshape(r, node[0], node[1]->out[0]));
done:
    return st;
}

/* Of a chain, the longest end that is one move: of at least two transposes, or of two moves that move nothing. */
static enum clcnn_status join(struct rewriter *r, const struct chain *c)
{
    enum clcnn_status st = CLCNN_OK;
    struct moved m, simple;
    int transposes = c->transposes;
    for (int n = c->n; n > 1 || (n > 0 && transposes > 0);
         transposes -= rewrite_is(c->node[--n], &op_transpose)) {
        if (!follow(r, c, n, transposes, &m))
            continue;
        simple = m;
        simplify(&simple);
        const bool nothing = moves_nothing(&simple);
        if ((transposes == 1 && !nothing) || simple.n > CLCNN_MAX_RANK ||
            (n == 2 && !nothing && m.n != m.rank))
            continue;
        TRY(rewrite_note(r,
                         nothing ? "turn %d moves up to %s %s into a reshape" : "join %d moves up to %s %s",
                         n, c->node[0]->op->name, c->node[0]->name));
        TRY(write(r, c, n, n == 2 && !nothing ? &m : &simple));
        break;
    }
done:
    return st;
}

/* A transpose that undoes an earlier one, whoever else uses that: its result is the earlier one's input. */
static bool undoes(const struct rewriter *r, const struct node *n, int *x)
{
    const struct node *before = match_op(r, n->in[0], &op_transpose);
    if (!rewrite_is(n, &op_transpose) || !before)
        return false;
    const struct ints *p = &((const struct axes_attrs *)before->attrs)->axes,
                      *q = &((const struct axes_attrs *)n->attrs)->axes;
    for (int d = 0; d < q->n; d++)
        if (p->v[q->v[d]] != d)
            return false;
    *x = before->in[0];
    return true;
}

/* ---- tokens and maps ----------------------------------------------------------------------------------------- */

/* Whether `map` is [N, C, pixels..] of more dimensions than `flat`, [N, C, all pixels]. */
static bool is_map_of(const struct clcnn_shape *map, const struct clcnn_shape *flat)
{
    return map->rank > 3 && flat->rank == 3 && map->dim[0] == flat->dim[0] && map->dim[1] == flat->dim[1];
}

static bool swaps_last_two(const struct rewriter *r, const struct node *n)
{
    const struct ints *p = &((const struct axes_attrs *)n->attrs)->axes;
    return rewrite_is(n, &op_transpose) && p->n == 3 && p->v[0] == 0 && p->v[1] == 2 &&
           !rewrite_is_overridden(r, n);
}

/* [N, pixels.., C] of the map [N, C, pixels..]. */
static struct clcnn_shape channels_last(const struct clcnn_shape *map)
{
    struct clcnn_shape s = *map;
    for (int d = 1; d < s.rank - 1; d++)
        s.dim[d] = map->dim[d + 1];
    s.dim[s.rank - 1] = map->dim[1];
    return s;
}

/* reshape(transpose(tokens)) and transpose(reshape(map)), whose numbers of pixels are one dimension in between, become
 * transposes of maps and reshapes of tokens, so that the transpose itself can read or write channel blocks. */
enum clcnn_status rewrite_tokens_to_maps(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        struct node *before = n->dead || !rewrite_is_move(n) ? NULL : rewrite_sole_producer(r, n->in[0]);
        if (!before || !rewrite_is_move(before) || rewrite_is_overridden(r, n))
            continue;
        const struct clcnn_shape x = r->g->values[before->in[0]].shape, y = r->g->values[n->out[0]].shape;
        const struct clcnn_shape *between = &r->g->values[n->in[0]].shape;
        const bool to_map = swaps_last_two(r, before) && rewrite_is_reshape(n) && is_map_of(&y, between);
        const bool to_tokens = swaps_last_two(r, n) && rewrite_is_reshape(before) && is_map_of(&x, between);
        if (!to_map && !to_tokens)
            continue;
        const struct clcnn_shape last = channels_last(to_map ? &y : &x);
        int32_t to_first[CLCNN_MAX_RANK] = {0, last.rank - 1}, to_last[CLCNN_MAX_RANK] = {0};
        for (int d = 1; d < last.rank - 1; d++) {
            to_first[d + 1] = d;
            to_last[d] = d + 1;
        }
        to_last[last.rank - 1] = 1;
        r->g->values[n->in[0]].shape = last;
        if (to_map) {
            TRY(make_reshape(r, before, before->in[0]));
            TRY(make(r, n, &op_transpose, n->in[0], to_first, last.rank));
        } else {
            TRY(make(r, before, &op_transpose, before->in[0], to_last, last.rank));
            TRY(make_reshape(r, n, n->in[0]));
        }
    }
done:
    return st;
}

/* From the last node on, so that a chain is met at its end. */
enum clcnn_status rewrite_join_moves(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = r->g->n_nodes - 1; i >= 0; i--) {
        struct node *n = &r->g->nodes[i];
        int x = -1;
        if (n->dead || !rewrite_is_move(n))
            continue;
        const struct chain c = chain_up_to(r, n);
        TRY(join(r, &c));
        if (n->dead || !undoes(r, n, &x) || rewrite_is_overridden(r, n))
            continue;
        TRY(rewrite_note(r, "let transpose %s undo the one before", n->name));
        r->uses[n->in[0]]--;
        r->uses[x]++;
        TRY(make_reshape(r, n, x));
    }
done:
    return st;
}
