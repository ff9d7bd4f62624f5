/* rewrite_elementwise.c: element-wise functions one after the other become one layer, since each of them would read and write its
 * map, and on GPUs take a launch. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 5 }; /* and elements below 2^31: what the kernel counts in */

/* Last first; `at` is the argument through which the one before it comes. */
struct line {
    struct node *node[ELEMENTWISE_PARTS];
    int at[ELEMENTWISE_PARTS];
    int n;
};

static bool is_floats(const struct rewriter *r, int value)
{
    return r->g->values[value].shape.dtype == CLCNN_FLOAT32;
}

static bool is_part(const struct rewriter *r, const struct node *n)
{
    if (!n || n->dead || n->epi.act != ACT_none || n->epi.add >= 0 ||
        rewrite_is_forced(r, n, &op_elementwise))
        return false;
    if (!eltwise_is_unary(n->op) && !eltwise_is_binary(n->op))
        return false;
    if (!r->options->gpu && rewrite_is(n, &op_pow)) /* known powers have kernels of their own there */
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (!is_floats(r, n->in[k]))
            return false;
    return is_floats(r, n->out[0]);
}

/* The argument of n that a part computes, for n alone and with n's shape: of two, the end of the longer line; -1: none. *length: of
 * the line up to n, as far as `most` parts. */
static int part_before(const struct rewriter *r, const struct node *n, int most, int *length)
{
    const struct value *v = r->g->values;
    int best = -1, longest = 0;
    for (int k = 0; k < n->n_in && most > 1; k++) {
        const struct node *p = rewrite_sole_producer(r, n->in[k]);
        int before = 0;
        if (!is_part(r, p) || !shape_equal(&v[n->in[k]].shape, &v[n->out[0]].shape))
            continue;
        part_before(r, p, most - 1, &before);
        if (before > longest) {
            longest = before;
            best = k;
        }
    }
    *length = 1 + longest;
    return best;
}

static struct line line_up_to(const struct rewriter *r, struct node *last)
{
    struct line line = {0};
    for (struct node *n = last; n && line.n < ELEMENTWISE_PARTS;) {
        int length;
        const int k = part_before(r, n, ELEMENTWISE_PARTS - line.n, &length);
        line.node[line.n] = n;
        line.at[line.n++] = k < 0 ? 0 : k;
        n = k < 0 ? NULL : &r->g->nodes[r->g->values[n->in[k]].producer];
    }
    /* the first one's map comes through its first argument, unless that is the smaller one */
    const struct node *first = line.node[line.n - 1];
    const struct value *v = r->g->values;
    if (first->n_in == 2 && shape_count(&v[first->in[1]].shape) > shape_count(&v[first->in[0]].shape))
        line.at[line.n - 1] = 1;
    return line;
}

/* Parts are forced to algorithms of the joined layer alone. */
static bool is_asked_for(const struct rewriter *r, const struct line *line)
{
    for (int k = 0; k < line->n; k++)
        if (rewrite_is_overridden(r, line->node[k]))
            return true;
    return false;
}

/* Whether all that is broadcast can lie beside a map on channel blocks. */
static bool all_lie_beside(const struct rewriter *r, const struct line *line)
{
    const struct value *v = r->g->values;
    const struct clcnn_shape *y = &v[line->node[0]->out[0]].shape;
    for (int k = 0; y->rank > 2 && k < line->n; k++)
        for (int i = 0; i < line->node[k]->n_in; i++)
            if (operand_part(line->node[k]->op, &v[line->node[k]->in[i]].shape, y) == PART_NONE)
                return false;
    return true;
}

static bool is_wanted(const struct rewriter *r, const struct line *line)
{
    const struct node *last = line->node[0];
    const struct clcnn_shape *y = &r->g->values[last->out[0]].shape;
    return line->n > 1 && y->rank <= MOST_DIMS && shape_count(y) <= INT32_MAX &&
           (r->options->gpu || (r->options->block > 0 && all_lie_beside(r, line)) || is_asked_for(r, line));
}

/* Attributes, inputs and name of the layer; false when memory is out. */
static bool describe(const struct line *line, struct elementwise_attrs *a, int *in, char *name, size_t room)
{
    size_t used = 0;
    name[0] = '\0';
    a->n = line->n;
    for (int k = 0; k < line->n; k++) {
        const int place = line->n - 1 - k;
        const struct node *n = line->node[place];
        const int at = line->at[place];
        a->part[k] = (struct elementwise_part){n->op, *(const struct eltwise_attrs *)n->attrs, at == 1};
        if (k == 0)
            in[0] = n->in[at];
        in[1 + k] = n->n_in == 2 ? n->in[1 - at] : -1;
        used += (size_t)snprintf(name + used, room - used, "%s%s", k ? "+" : "", n->name);
        if (used >= room)
            return false;
    }
    return true;
}

static enum clcnn_status join(struct rewriter *r, const struct line *line)
{
    struct node *last = line->node[0];
    char name[ELEMENTWISE_PARTS * (CLCNN_NAME_MAX + 1)];
    struct elementwise_attrs *a = clcnn_calloc(1, sizeof *a);
    int *in = clcnn_calloc(1 + ELEMENTWISE_PARTS, sizeof *in);
    char *copy = NULL;
    for (int k = 0; in && k < 1 + ELEMENTWISE_PARTS; k++)
        in[k] = -1;
    if (a && in && describe(line, a, in, name, sizeof name))
        copy = clcnn_strdup(name);
    if (!copy) {
        free(a);
        free(in);
        return clcnn_fail_mem(r->err, sizeof name);
    }
    for (int k = 1; k < line->n; k++)
        line->node[k]->dead = true;
    free(last->in);
    free(last->attrs);
    free(last->name);
    last->in = in;
    last->n_in = 1 + ELEMENTWISE_PARTS;
    last->attrs = a;
    last->name = copy;
    last->op = &op_elementwise;
    return CLCNN_OK;
}

/* From the last node on, so that a line is met at its end. */
enum clcnn_status rewrite_join_elementwise(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = r->g->n_nodes - 1; i >= 0; i--) {
        struct node *n = &r->g->nodes[i];
        if (!is_part(r, n))
            continue;
        const struct line line = line_up_to(r, n);
        if (!is_wanted(r, &line))
            continue;
        TRY(rewrite_note(r, "join %d element-wise functions up to %s %s", line.n, n->op->name, n->name));
        TRY(join(r, &line));
    }
done:
    return st;
}
