/* rewrite_attention_views.c: operands and the result of attention as views of what lies before and after; see rewrite_attention.h. */
#include "graph/rewrite_attention.h"

#include <math.h>

struct value_view attention_matrices(const struct attention *a, int value, int64_t heads, int64_t rows,
                                     int64_t columns, bool turned)
{
    const int64_t matrix = rows * columns, size[] = {a->attrs.size[0], heads, rows, columns},
                  stride[] = {matrix * heads, matrix, turned ? 1 : columns, turned ? rows : 1};
    return view_of(value, size, stride);
}

/* An operand, of all heads or of one that is for all of them. */
static struct value_view operand_of(const struct rewriter *r, const struct attention *a, int value,
                                    int64_t rows, int64_t columns, bool turned)
{
    const int64_t matrices = shape_count(&r->g->values[value].shape) / (rows * columns);
    return attention_matrices(a, value, matrices / a->attrs.size[0], rows, columns, turned);
}

/* The result may go where the next nodes would bring it. */
static void step_on(const struct rewriter *r, struct attention *a)
{
    struct value_view view = a->result;
    struct node *n = a->product;
    while ((n = rewrite_sole_reader(r, view.value, n)) != NULL && view_after(r, n, &view)) {
        if (!view_is_taken(r, &a->attrs.run, &view))
            continue;
        a->result = view;
        a->last = n;
    }
}

bool attention_find_views(const struct rewriter *r, struct attention *a)
{
    const int32_t *size = a->attrs.size;
    a->operand[Q] = operand_of(r, a, a->scores->in[0], size[2], size[4], false);
    a->operand[K] = operand_of(r, a, a->scores->in[1], size[3], size[4], true);
    a->operand[V] = operand_of(r, a, a->product->in[1], size[3], size[5], false);
    a->result = attention_matrices(a, a->product->out[0], size[1], size[2], size[5], false);
    a->attrs.run = 1;
    bool taken = view_is_taken(r, &a->attrs.run, &a->result);
    for (int i = Q; i <= V; i++)
        taken = taken && view_is_taken(r, &a->attrs.run, &a->operand[i]);
    if (!taken)
        return false;
    for (int i = Q; i <= V; i++)
        view_step_back(r, &a->operand[i], &a->attrs.run, i == V ? NULL : &a->scale, NULL);
    step_on(r, a);
    for (int i = Q; i <= V; i++)
        view_strides(r->g, &a->operand[i], a->attrs.run, &a->attrs.in[i]);
    view_strides(r->g, &a->result, a->attrs.run, &a->attrs.out);
    a->attrs.scale = (float)a->scale;
    return isfinite(a->attrs.scale);
}
