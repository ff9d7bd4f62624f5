/* attention_common.c: where the operands of attention lie; see attention.h. */
#include "algos/attention/attention.h"
#include "algos/common/rows.h"

enum { Q, K, V, MASK, OUTER };
enum { MASK_IN_PARTS = 3 }; /* a define of the kernels */

static bool masked(const struct problem *p)
{
    return p->n_in > MASK && p->in[MASK].present;
}

/* Strides along items, heads, rows and columns of an operand whose last dimensions these are, and along runs of one item. */
static void strides_of(const struct operand *o, i64 out[VIEW_STRIDES])
{
    int64_t strides[CLCNN_MAX_RANK];
    const int skipped = 4 - o->shape.rank;
    operand_strides(o, strides);
    for (int i = 0; i < 4; i++)
        out[i] = i < skipped ? 0 : strides[i - skipped];
    out[4] = out[0];
}

/* A mask in two parts, as a rewrite has found it. */
static bool in_parts(const struct problem *p)
{
    return ((const struct attention_attrs *)p->attrs)->wide > 0;
}

static void mask_strides(const struct problem *p, struct attention_args *a)
{
    const struct operand *mask = &p->in[MASK];
    struct clcnn_shape to = {.rank = 4, .dim = {a->n, a->heads, a->l, a->s}};
    int64_t strides[CLCNN_MAX_RANK];
    if (mask->shape.rank == 4 && mask->shape.dim[0] > 1)
        to.dim[0] =
            mask->shape.dim[0]; /* a part of the items where a rewrite has found that it comes again */
    a->period = to.dim[0];
    operand_broadcast(mask, &to, strides);
    for (int i = 0; i < 4; i++)
        a->mask[i] = strides[i];
}

struct attention_args attention_args_of(const struct problem *p)
{
    const struct attention_attrs *at = p->attrs;
    struct attention_args a = {
        .n = at->size[0],
        .heads = at->size[1],
        .l = at->size[2],
        .s = at->size[3],
        .d = at->size[4],
        .e = at->size[5],
        .period = 1,
        .run = at->viewed ? at->run : 1,
        .scale = at->scale,
    };
    i64 *const strides[] = {a.q, a.k, a.v};
    for (int i = 0; i < COUNT_OF(strides); i++) {
        if (at->viewed)
            operand_view_strides(&at->in[i], &p->in[i], VIEW_STRIDES, strides[i]);
        else
            strides_of(&p->in[i], strides[i]);
    }
    if (at->viewed)
        operand_view_strides(&at->out, &p->out[0], VIEW_STRIDES, a.y);
    else
        strides_of(&p->out[0], a.y);
    if (in_parts(p)) {
        a.wide = at->wide;
        operand_view_strides(&at->mask[0], &p->in[MASK], 4, a.mask);
        operand_view_strides(&at->mask[1], &p->in[OUTER], 4, a.outer);
        a.period = a.n;
    } else if (masked(p)) {
        mask_strides(p, &a);
    }
    return a;
}

void attention_finish(struct step *s, const struct problem *p, const struct attention_args *a)
{
    attention_finish_with(s, p, a, in_parts(p) ? MASK_IN_PARTS : masked(p),
                          masked(p) ? p->in[MASK].view : VIEW_NONE);
}

void attention_finish_with(struct step *s, const struct problem *p, const struct attention_args *a, int kind,
                           int mask)
{
    const struct attention_attrs *at = p->attrs;
    const double scores = (double)a->n * a->heads * a->l * a->s;
    step_define(s, "MASK", kind);
    step_define(s, "CAUSAL", at->is_causal);
    for (int i = 0; i < MASK; i++)
        step_read_at(s, p->in[i].view, at->viewed ? at->in[i].offset : 0);
    step_read_at(s, mask, in_parts(p) ? at->mask[0].offset : 0);
    step_read_at(s, in_parts(p) ? p->in[OUTER].view : VIEW_NONE, at->mask[1].offset);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    const double bytes =
        4.0 * a->n * a->heads * ((double)a->l * (a->d + a->e) + (double)a->s * (a->d + a->e));
    step_cost(s, scores * (a->d + a->e),
              bytes + (masked(p) ? 4.0 * (double)shape_count(&p->in[MASK].shape) : 0) +
                  (in_parts(p) ? 4.0 * (double)shape_count(&p->in[OUTER].shape) : 0));
}
