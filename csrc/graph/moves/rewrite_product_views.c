/* rewrite_product_views.c: matrix products read their operands where they lie and write the result where it belongs: transposes,
 * slices and splits around them are left out, and factors become the product's own.
 *
 *   matmul(transpose(slice(x)) * c, ..)      =>  a view of x, alpha = c
 *   transpose(matmul(a, b))                  =>  a view as result; of matrices that are turned, b^T a^T
 *
 * Matrices lie along one of their axes element by element, as kernels load them and as they store results along columns. */
#include "graph/rewrite_views.h"
#include "graph/match.h"

#include <math.h>
#include <stdlib.h>

enum { ITEM, HEAD, ROW, COLUMN };
enum { SIZE_M = 2, SIZE_N, SIZE_K };

struct product {
    struct node *node, *last; /* the product, and the node that gives what it gives in the end */
    struct value_view operand[2], result;
    double alpha;
    bool moved; /* there is more to leave out than reshapes */
    struct matmul_attrs attrs;
};

/* Rows, or columns, that are neighbours in memory. */
static bool is_dense(const struct value_view *view, int axis)
{
    const struct view_axis *a = &view->axis[axis];
    return a->n == 0 || (a->n == 1 && a->part[0].stride == 1);
}

static bool is_readable(const struct value_view *view)
{
    const bool one_row = view->axis[ROW].n == 0, one_column = view->axis[COLUMN].n == 0;
    return one_row || one_column ? is_dense(view, ROW) && is_dense(view, COLUMN)
                                 : is_dense(view, ROW) || is_dense(view, COLUMN);
}

/* A value's matrices one after the other, items and heads of which are aligned on the right of `rank` dimensions. */
static struct value_view matrices(const struct rewriter *r, int value, int rank)
{
    const struct clcnn_shape *s = &r->g->values[value].shape;
    int64_t size[VIEW_AXES] = {1, 1, 1, 1}, stride[VIEW_AXES] = {0}, dense = 1;
    for (int d = s->rank - 1; d >= 0; dense *= s->dim[d--]) {
        const int from_end = s->rank - d, axis = from_end == 3 && rank == 3 ? ITEM : VIEW_AXES - from_end;
        size[axis] = s->dim[d];
        stride[axis] = dense;
    }
    return view_of(value, size, stride);
}

static bool find_product(const struct rewriter *r, struct node *n, struct product *p)
{
    const struct clcnn_shape *a = &r->g->values[n->in[0]].shape, *b = &r->g->values[n->in[1]].shape,
                             *y = &r->g->values[n->out[0]].shape;
    if (a->rank < 2 || b->rank < 2 || y->rank > VIEW_AXES || shape_count(y) == 0)
        return false;
    const int lead = y->rank - 2;
    *p = (struct product){
        .node = n,
        .last = n,
        .alpha = 1.0,
        .operand = {matrices(r, n->in[0], y->rank), matrices(r, n->in[1], y->rank)},
        .result = matrices(r, n->out[0], y->rank),
        .attrs =
            {
                .viewed = true,
                .size = {lead > 0 ? y->dim[0] : 1, lead > 1 ? y->dim[1] : 1, y->dim[lead], y->dim[lead + 1],
                         a->dim[a->rank - 1]},
                .run = 1,
            },
    };
    return a->dim[a->rank - 1] > 0 && view_is_taken(r, &p->attrs.run, &p->result) &&
           view_is_taken(r, &p->attrs.run, &p->operand[0]) && view_is_taken(r, &p->attrs.run, &p->operand[1]);
}

static void step_back(const struct rewriter *r, struct product *p, int i)
{
    struct value_view view = p->operand[i];
    double alpha = p->alpha;
    if (!view_step_back(r, &view, &p->attrs.run, &alpha, is_readable) || rewrite_is_constant(r, view.value))
        return;
    p->operand[i] = view;
    p->alpha = alpha;
    p->moved = true;
}

/* The result may go where the next nodes would bring it, which may multiply it, too. What is added to it has the old shape. */
static void step_on(const struct rewriter *r, struct product *p)
{
    struct value_view view = p->result;
    struct node *n = p->node;
    double alpha = p->alpha, number;
    bool moved = false;
    if (n->epi.add >= 0)
        return;
    while ((n = rewrite_sole_reader(r, view.value, n)) != NULL && !rewrite_is_overridden(r, n)) {
        const int x = p->node->epi.act == ACT_none && n->epi.act == ACT_none && n->epi.add < 0
                          ? match_scaled(r, n, &number)
                          : -1;
        if (x >= 0) {
            alpha *= number;
            view.value = n->out[0];
        } else if (!view_after(r, n, &view)) {
            return;
        }
        moved = moved || !rewrite_is_reshape(n);
        if (!moved || !(is_dense(&view, ROW) || is_dense(&view, COLUMN)) ||
            !view_is_taken(r, &p->attrs.run, &view))
            continue;
        p->result = view;
        p->alpha = alpha;
        p->last = n;
        p->moved = true;
    }
}

static void swap_axes(struct value_view *view)
{
    const struct view_axis rows = view->axis[ROW];
    view->axis[ROW] = view->axis[COLUMN];
    view->axis[COLUMN] = rows;
}

/* The transpose of the result, the product of the operands' transposes. */
static void turn(struct product *p)
{
    const struct value_view left = p->operand[0];
    const int32_t rows = p->attrs.size[SIZE_M];
    p->operand[0] = p->operand[1];
    p->operand[1] = left;
    swap_axes(&p->operand[0]);
    swap_axes(&p->operand[1]);
    swap_axes(&p->result);
    p->attrs.size[SIZE_M] = p->attrs.size[SIZE_N];
    p->attrs.size[SIZE_N] = rows;
}

static enum clcnn_status view_product(struct rewriter *r, struct product *p)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *n = p->node;
    struct matmul_attrs *attrs = n->attrs;
    TRY(rewrite_note(r, "let matmul %s read and write views%s", n->name,
                     p->alpha != 1.0 ? ", and multiply by a constant" : ""));
    if (!is_dense(&p->result, COLUMN))
        turn(p);
    *attrs = p->attrs;
    attrs->alpha = (float)p->alpha;
    attrs->result = r->g->values[p->last->out[0]].shape;
    for (int i = 0; i < 2; i++) {
        n->in[i] = p->operand[i].value;
        view_strides(r->g, &p->operand[i], attrs->run, &attrs->in[i]);
    }
    view_strides(r->g, &p->result, attrs->run, &attrs->out);
    if (p->last != n) {
        for (struct node *after = n; after != p->last; after->dead = true)
            after = rewrite_sole_reader(r, after->out[0], after);
        rewrite_move(r, n, p->last);
    }
    TRY(view_drop_unread(r, p->last));
done:
    return st;
}

enum clcnn_status rewrite_view_products(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        struct product p;
        if (n->dead || !rewrite_is(n, &op_matmul) || ((const struct matmul_attrs *)n->attrs)->viewed ||
            !find_product(r, n, &p))
            continue;
        step_back(r, &p, 0);
        step_back(r, &p, 1);
        step_on(r, &p);
        if (p.moved && isfinite((float)p.alpha))
            TRY(view_product(r, &p));
    }
done:
    return st;
}
