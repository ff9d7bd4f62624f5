/* rewrite_branches.c: convolutions of one input whose results are added become one, and so do the input itself or a batch
 * normalisation of it that is added to a convolution: networks are trained with such branches (RepVGG, Ding et al. 2021; MobileOne,
 * Vasu et al. 2023), and often exported with them.
 *
 *   conv(x, w, b) + conv(x, v, c)  =>  conv(x, w + v, b + c)     v has zeros where its filters are smaller than those of w
 *   conv(x, w, b) + (s x + t)      =>  conv(x, w + s, b + t)     s at a filter's tap of its own channel and pixel
 */
#include "graph/match.h"

#include <string.h>

/* What is added: a convolution, or s x + t as one with a filter of one tap a channel. */
struct branch {
    struct node *node; /* NULL: the input itself */
    int input;
    bool is_conv;
    struct clcnn_shape w; /* of the filters */
    struct conv_attrs attrs;
};

static bool is_plain(const struct rewriter *r, const struct node *n)
{
    return n->epi.act == ACT_none && n->epi.add < 0 && !rewrite_is_overridden(r, n);
}

static bool is_conv_branch(const struct rewriter *r, const struct node *n)
{
    return n && rewrite_is(n, &op_conv) && is_plain(r, n) && rewrite_weights_are_constant(r, n) &&
           r->g->values[n->in[1]].shape.dtype == CLCNN_FLOAT32;
}

static struct branch conv_branch(const struct rewriter *r, struct node *n)
{
    return (struct branch){
        .node = n,
        .input = n->in[0],
        .is_conv = true,
        .w = r->g->values[n->in[1]].shape,
        .attrs = *(const struct conv_attrs *)n->attrs,
    };
}

/* A convolution of `value`'s own channels, one tap each. */
static struct branch channel_branch(const struct rewriter *r, struct node *n, int value)
{
    const struct clcnn_shape *x = &r->g->values[value].shape;
    struct branch b = {.node = n, .input = value, .w = {.rank = x->rank, .dim = {x->dim[1], 1}}};
    b.attrs.groups = x->dim[1];
    for (int d = 2; d < x->rank; d++) {
        b.w.dim[d] = 1;
        b.attrs.stride.v[d - 2] = b.attrs.dilation.v[d - 2] = 1;
    }
    return b;
}

/* What `value` may be of a sum; whether both are of the same input is for the caller to look at. */
static struct branch branch_of(const struct rewriter *r, int value)
{
    struct node *n = rewrite_sole_producer(r, value);
    if (is_conv_branch(r, n))
        return conv_branch(r, n);
    if (n && rewrite_is(n, &op_batch_norm) && is_plain(r, n) && rewrite_norm_is_constant(r, n))
        return channel_branch(r, n, n->in[0]);
    return channel_branch(r, NULL, value);
}

/* Whether `small` is `large` with fewer taps, and then the one of large that its first tap is, along each dimension. */
static bool is_within(const struct branch *large, const struct branch *small, int32_t at[CLCNN_MAX_RANK])
{
    if (large->input != small->input || large->w.rank != small->w.rank || large->w.dim[0] != small->w.dim[0])
        return false;
    for (int d = 2; d < large->w.rank; d++) {
        const int k = d - 2;
        const int32_t ahead = large->attrs.padding.v[k] - small->attrs.padding.v[k],
                      dilation = large->attrs.dilation.v[k];
        const bool one = small->w.dim[d] == 1 || small->attrs.dilation.v[k] == dilation;
        if (!one || large->attrs.stride.v[k] != small->attrs.stride.v[k] || ahead % dilation != 0)
            return false;
        at[d] = ahead / dilation;
        if (at[d] < 0 || at[d] + small->w.dim[d] > large->w.dim[d])
            return false;
    }
    return true;
}

/* The input itself costs nothing where it is added in an epilogue, so that only depthwise filters, which are all read through
 * anyway, take it. */
static bool can_take(const struct branch *large, const struct branch *small, int32_t at[CLCNN_MAX_RANK])
{
    if (!large->is_conv || !is_within(large, small, at))
        return false;
    if (small->is_conv)
        return small->attrs.groups == large->attrs.groups;
    const bool depthwise = large->attrs.groups == large->w.dim[0];
    return large->w.dim[1] * large->attrs.groups == large->w.dim[0] && (small->node || depthwise);
}

/* ---- new weights ------------------------------------------------------------------------------------------ */

/* Which tap of a filter of `large` the t-th one of `small` is. */
static int64_t tap_of(const struct clcnn_shape *large, const struct clcnn_shape *small, const int32_t *at,
                      int64_t t)
{
    int64_t tap = 0, step = 1;
    for (int d = large->rank - 1; d >= 2; d--) {
        tap += (at[d] + t % small->dim[d]) * step;
        t /= small->dim[d];
        step *= large->dim[d];
    }
    return tap;
}

static double factor_of(const struct rewriter *r, const struct branch *b, int64_t channel)
{
    return b->node ? rewrite_norm_scale(r->g, b->node, channel) : 1.0;
}

static double shift_of(const struct rewriter *r, const struct branch *b, int64_t channel)
{
    if (!b->node || (b->is_conv && b->node->in[2] < 0))
        return 0.0;
    const struct value *v = r->g->values;
    if (b->is_conv)
        return ((const float *)v[b->node->in[2]].data)[channel];
    return rewrite_norm_shift(r->g, b->node, channel);
}

static void add_conv(const struct rewriter *r, const struct branch *large, const struct branch *small,
                     const int32_t *at, float *to)
{
    const float *from = r->g->values[small->node->in[1]].data;
    const int64_t taps = shape_count_from(&small->w, 2), room = shape_count_from(&large->w, 2),
                  filters = (int64_t)large->w.dim[0] * large->w.dim[1];
    for (int64_t t = 0; t < taps; t++) {
        const int64_t tap = tap_of(&large->w, &small->w, at, t);
        for (int64_t k = 0; k < filters; k++)
            to[k * room + tap] = (float)((double)to[k * room + tap] + from[k * taps + t]);
    }
}

static void add_channels(const struct rewriter *r, const struct branch *large, const struct branch *small,
                         const int32_t *at, float *to)
{
    const int64_t room = shape_count_from(&large->w, 2), channels = large->w.dim[1],
                  tap = tap_of(&large->w, &small->w, at, 0);
    for (int64_t k = 0; k < large->w.dim[0]; k++) {
        float *own = &to[(k * channels + k % channels) * room + tap];
        *own = (float)(*own + factor_of(r, small, k));
    }
}

/* The weights of `large` for it alone to change. */
static enum clcnn_status own_weights(struct rewriter *r, const struct branch *large, float **to)
{
    enum clcnn_status st = CLCNN_OK;
    const float *old;
    TRY(rewrite_own_input(r, large->node, 1, NULL, &old, to));
    if (*to != old)
        memcpy(*to, old, shape_bytes(&large->w));
done:
    return st;
}

static enum clcnn_status add_shifts(struct rewriter *r, const struct branch *large,
                                    const struct branch *small)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape shape = {.rank = 1, .dim = {large->w.dim[0]}};
    const float *old;
    float *to;
    TRY(rewrite_own_input(r, large->node, 2, &shape, &old, &to));
    for (int64_t k = 0; k < large->w.dim[0]; k++)
        to[k] = (float)((old ? old[k] : 0.0) + shift_of(r, small, k));
done:
    return st;
}

/* ---- the pass --------------------------------------------------------------------------------------------- */

static enum clcnn_status merge(struct rewriter *r, struct node *sum, const struct branch *large,
                               const struct branch *small, const int32_t *at)
{
    enum clcnn_status st = CLCNN_OK;
    float *to;
    TRY(own_weights(r, large, &to));
    if (small->is_conv)
        add_conv(r, large, small, at, to);
    else
        add_channels(r, large, small, at, to);
    TRY(add_shifts(r, large, small));
    if (!large->node->zeros.known && small->node)
        large->node->zeros = small->node->zeros; /* both read the same input */
    if (small->node) {
        TRY(rewrite_note(r, "add %s %s to the weights of conv %s", small->node->op->name, small->node->name,
                         large->node->name));
        match_remove(r, small->node);
    } else {
        TRY(rewrite_note(r, "add its input to the weights of conv %s", large->node->name));
    }
    rewrite_move(r, large->node, sum);
done:
    return st;
}

enum clcnn_status rewrite_merge_branches(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead || !rewrite_is(n, &op_add) || !is_plain(r, n) ||
            !shape_equal(&r->g->values[n->in[0]].shape, &r->g->values[n->in[1]].shape))
            continue;
        const struct branch b[2] = {branch_of(r, n->in[0]), branch_of(r, n->in[1])};
        int32_t at[CLCNN_MAX_RANK];
        if (can_take(&b[0], &b[1], at))
            TRY(merge(r, n, &b[0], &b[1], at));
        else if (can_take(&b[1], &b[0], at))
            TRY(merge(r, n, &b[1], &b[0], at));
    }
done:
    return st;
}
