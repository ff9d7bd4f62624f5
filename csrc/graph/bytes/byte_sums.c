/* byte_sums.c: sums whose results are rounded to bytes; see byte_pass.h. */
#include "graph/bytes/byte_pass.h"

#include <math.h>

/* ---- sums of products -------------------------------------------------------------------------------------------- */

/* Whole numbers of such size at most. */
static bool is_whole(const float *data, int64_t count, float least, float most)
{
    for (int64_t i = 0; i < count; i++)
        if (!(data[i] >= least && data[i] <= most) || rintf(data[i]) != data[i])
            return false;
    return true;
}

/* Whether sums of a filter's products with bytes, and its bias, fit 32 bits, and so do these sums times its factor. */
static bool sums_fit(const float *w, const float *bias, const float *factor, int64_t filters, int64_t each)
{
    for (int64_t k = 0; k < filters; k++) {
        double sum = bias ? fabs((double)bias[k]) : 0.0;
        for (int64_t i = 0; i < each; i++)
            sum += (BYTE_STEPS - 1) * fabs((double)w[k * each + i]);
        if (!(sum <= BYTE_MOST_SUM && sum * (double)factor[k] <= BYTE_MOST_SUM))
            return false;
    }
    return true;
}

static bool weights_fit(const struct byte_pass *b, const struct node *n, int factor)
{
    const struct clcnn_shape *shape = byte_shape(b, n->in[1]);
    const float *w = byte_constant(b, n->in[1]), *bias = byte_constant(b, n->in[2]);
    const int64_t k = shape->dim[0];
    return w && (bias || n->in[2] < 0) && is_whole(w, shape_count(shape), -128.0f, 127.0f) &&
           (!bias || is_whole(bias, k, -BYTE_MOST_SUM, BYTE_MOST_SUM)) &&
           sums_fit(w, bias, byte_constant(b, factor), k, shape_count(shape) / k);
}

/* Whether an algorithm takes the groups of a convolution. */
static bool groups_fit(const struct byte_pass *b, const struct node *n)
{
    const struct conv_attrs *a = n->attrs;
    const struct clcnn_shape *w = byte_shape(b, n->in[1]);
    return a->groups == 1 || w->dim[1] >= BYTE_FEW ||
           (a->groups == w->dim[0] && w->dim[1] == 1 && w->dim[0] > BYTE_FEW && a->dilation.v[0] == 1 &&
            a->dilation.v[1] == 1);
}

/* Whether so many numbers are one a channel, which is the second dimension of a map and the last one of rows. */
static bool has_channels(const struct clcnn_shape *s, bool map, int32_t channels)
{
    return s->rank > 0 && s->dim[map ? 1 : s->rank - 1] == channels;
}

/* The factor a filter as a constant of its own; *value -1: there is none. */
static enum clcnn_status factor_of(struct byte_pass *b, int constant, bool conv, int32_t filters, int *value)
{
    enum clcnn_status st = CLCNN_OK;
    const float *data = byte_constant(b, constant);
    const int64_t count = data ? shape_count(byte_shape(b, constant)) : 0;
    const struct clcnn_shape shape = {.rank = 1, .dim = {filters}};
    *value = -1;
    if (count != 1 && (count != filters || !has_channels(byte_shape(b, constant), conv, filters)))
        return CLCNN_OK;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(data[i]) || data[i] < 0.0f)
            return CLCNN_OK;
    TRY(graph_owned_constant(b->r->g, &shape, value, b->r->err));
    data = b->r->g->values[constant].data;
    for (int32_t i = 0; i < filters; i++)
        b->r->g->values[*value].owned[i] = data[count == 1 ? 0 : i];
done:
    return st;
}

/* round(conv(...)) times a constant, before it is rounded to steps: the convolution, and which constant. */
static struct node *sum_of(const struct byte_pass *b, const struct rounded *what, int *factor)
{
    const struct node *mul = match_op(b->r, what->x, &op_mul);
    if (!mul || what->to.scale != 1.0f)
        return NULL;
    const int at = rewrite_is_constant(b->r, mul->in[1]) ? 0 : 1;
    const struct node *round = match_op(b->r, byte_before_relu(b, mul->in[at], what->to.zero), &op_round);
    struct node *sum = round ? match_producer(b->r, round->in[0]) : NULL;
    *factor = mul->in[1 - at];
    return sum && (rewrite_is(sum, &op_conv) || rewrite_is(sum, &op_linear)) ? sum : NULL;
}

enum clcnn_status byte_round_products(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    int constant, factor;
    struct known x;
    const struct node *n = sum_of(b, what, &constant);
    struct byte_conv_attrs attrs = {.y_zero = what->to.zero};
    if (!n || n->epi.add >= 0 || n->epi.act != ACT_none || rewrite_is_forced(b->r, n, &op_byte_conv))
        return CLCNN_OK;
    const bool conv = rewrite_is(n, &op_conv);
    if ((conv && byte_shape(b, n->in[0])->rank != 4) || !rewrite_is_constant(b->r, n->in[1]) ||
        (conv && !groups_fit(b, n)))
        return CLCNN_OK;
    const bool map =
        byte_shape(b, n->in[0])->rank > 2; /* else channels are the second and the last dimension */
    const int node = b->r->g->values[n->out[0]].producer;
    TRY(factor_of(b, constant, conv, byte_shape(b, n->in[1])->dim[0], &factor));
    if (factor < 0 || !weights_fit(b, n, factor))
        return CLCNN_OK;
    TRY(byte_of(b, n->in[0], conv ? BYTE_MAP : BYTE_ROWS, &x));
    if (x.bytes < 0 || x.scale != 1.0f || (conv ? x.rows : map && !x.rows))
        return CLCNN_OK;
    n = &b->r->g->nodes[node];
    attrs.x_zero = x.zero;
    attrs.conv =
        conv ? *(const struct conv_attrs *)n->attrs
             : (struct conv_attrs){.stride = {1, {1}}, .dilation = {1, {1}}, .padding = {1}, .groups = 1};
    const int inputs[] = {x.bytes, n->in[1], factor, n->in[2]};
    TRY(rewrite_note(b->r, "add up %s %s in bytes", n->op->name, n->name));
    *out = what->to;
    out->rows = x.rows;
    TRY(byte_append(b, &op_byte_conv, n->name, &attrs, inputs, COUNT_OF(inputs), &out->bytes));
done:
    return st;
}

/* ---- the sum of each channel ------------------------------------------------------------------------------------- */

/* The mean of a map, or its sum times a factor. */
static const struct node *mean_of(const struct byte_pass *b, int value, double *factor)
{
    const struct node *mul = match_op(b->r, value, &op_mul);
    const int at = mul ? match_scalar_operand(b->r, mul, factor) : -1;
    const struct node *n =
        at < 0 ? match_op(b->r, value, &op_reduce_mean) : match_op(b->r, mul->in[1 - at], &op_reduce_sum);
    const struct reduce_attrs *a = n ? n->attrs : NULL;
    if (!a || !a->keepdims || a->axes.n != 2 || a->axes.v[0] != 2 || byte_shape(b, n->in[0])->rank != 4)
        return NULL;
    if (at < 0)
        *factor = 1.0 / (double)shape_count_from(byte_shape(b, n->in[0]), 2);
    return n;
}

enum clcnn_status byte_round_mean(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    double factor = 0.0;
    struct known x;
    const struct node *sum = mean_of(b, what->x, &factor);
    if (!sum)
        return CLCNN_OK;
    const int node = b->r->g->values[sum->out[0]].producer;
    const double most = (double)shape_count_from(byte_shape(b, sum->in[0]), 2) * (BYTE_STEPS - 1);
    TRY(bytes_of_map(b, sum->in[0], BYTE_AS_THEY_ARE, &x));
    factor *= (double)x.scale / (double)what->to.scale;
    if (x.bytes < 0 || byte_shape(b, x.bytes)->dim[4] != BYTE_BLOCK ||
        !(most <= BYTE_MOST_SUM && fabs(factor) * most <= BYTE_MOST_SUM))
        return CLCNN_OK;
    const struct byte_mean_attrs attrs = {(float)factor, x.zero, what->to.zero};
    *out = what->to;
    TRY(byte_append(b, &op_byte_mean, b->r->g->nodes[node].name, &attrs, &x.bytes, 1, &out->bytes));
done:
    return st;
}

/* ---- sums of two maps -------------------------------------------------------------------------------------------- */

/* The convolution that gives these bytes, if nothing but one sum reads what they stand for; NULL else. */
static struct node *own_conv(const struct byte_pass *b, int value, const struct known *k)
{
    struct node *n = k->bytes < 0 ? NULL : match_op(b->r, k->bytes, &op_byte_conv);
    if (!n || n->epi.add >= 0 || b->r->uses[value] != 1)
        return NULL;
    const struct node *mul = match_op(b->r, value, &op_mul);
    const int before = mul ? mul->in[b->known[mul->in[0]].bytes == k->bytes ? 0 : 1] : value;
    for (int i = 0; i < b->n_values; i++)
        if (b->known[i].bytes == k->bytes && i != value && (i != before || b->r->uses[i] != 1))
            return NULL;
    return n;
}

static void forget(struct byte_pass *b, int bytes)
{
    for (int i = 0; i < b->n_values; i++)
        if (b->known[i].bytes == bytes)
            b->known[i].bytes = -1;
    for (int i = 0; i < b->n_rounded; i++)
        if (b->rounded[i].to.bytes == bytes)
            b->rounded[i].to.bytes = -1;
}

/* Puts a node behind all that are there by now. */
static void move_last(struct byte_pass *b, int node)
{
    for (int i = 0; i < b->n_order; i++)
        if (b->order[i] == node)
            b->order[i] = -1;
    b->order[b->n_order++] = node;
}

/* As onnxruntime adds such maps: fma(a, a.scale/scale, fma(b, b.scale/scale, shift)). */
static void add_to(struct byte_pass *b, struct node *conv, const struct known k[2], int own,
                   const struct rounded *what)
{
    struct byte_conv_attrs *a = conv->attrs;
    const float first = k[0].scale / what->to.scale, second = k[1].scale / what->to.scale;
    a->own = own ? second : first;
    a->other = own ? first : second;
    a->own_last = own == 0;
    a->shift = (float)what->to.zero - fmaf(first, (float)k[0].zero, second * (float)k[1].zero);
    conv->epi.add = k[1 - own].bytes;
    move_last(b, (int)(conv - b->r->g->nodes));
}

enum clcnn_status byte_round_maps(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    const int x = byte_before_relu(b, what->x, what->to.zero);
    const struct node *add = match_op(b->r, x, &op_add);
    struct known k[2];
    if (!add || !byte_only_rounded(b, what->x, what) || (x != what->x && b->r->uses[x] != 1) ||
        add->in[0] == add->in[1])
        return CLCNN_OK;
    const int in[] = {add->in[0], add->in[1]}, node = b->r->g->values[add->out[0]].producer;
    for (int i = 0; i < 2; i++)
        TRY(byte_of(b, in[i], BYTE_AS_THEY_ARE, &k[i]));
    for (int i = 0; i < 2; i++)
        if (k[i].bytes < 0 && k[1 - i].bytes >= 0 && k[1 - i].rows)
            TRY(byte_of(b, in[i], BYTE_ROWS, &k[i]));
    if (k[0].bytes < 0 || k[1].bytes < 0 || k[0].rows != k[1].rows ||
        !shape_equal(byte_shape(b, k[0].bytes), byte_shape(b, k[1].bytes)))
        return CLCNN_OK;
    struct node *first = own_conv(b, in[0], &k[0]), *second = own_conv(b, in[1], &k[1]);
    if (!first && !second)
        return CLCNN_OK;
    const int own = first ? 0 : 1;
    TRY(rewrite_note(b->r, "add %s to bytes", b->r->g->nodes[node].name));
    add_to(b, own ? second : first, k, own, what);
    *out = what->to;
    out->bytes = k[own].bytes;
    out->rows = k[own].rows;
    forget(b, out->bytes);
done:
    return st;
}
