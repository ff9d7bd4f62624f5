/* byte_values.c: what of a graph's floats is rounded to bytes; see byte_pass.h. */
#include "graph/bytes/byte_pass.h"

#include <math.h>

const struct clcnn_shape *byte_shape(const struct byte_pass *b, int value)
{
    return &b->r->g->values[value].shape;
}

const float *byte_constant(const struct byte_pass *b, int value)
{
    const struct value *v = value < 0 ? NULL : &b->r->g->values[value];
    return v && v->kind == VALUE_CONSTANT && v->shape.dtype == CLCNN_FLOAT32 ? v->data : NULL;
}

bool byte_is_known(const struct byte_pass *b, int value)
{
    return value < b->n_values && b->known[value].bytes >= 0;
}

/* ---- what is rounded -------------------------------------------------------------------------------------------- */

bool byte_rounding(const struct byte_pass *b, const struct node *n, struct rounded *out)
{
    const struct eltwise_attrs *a = n->attrs;
    double scale = 0.0;
    if (n->dead || !rewrite_is(n, &op_fake_quantize) || !(a->p1 >= 0.0f && a->p1 < BYTE_STEPS) ||
        rintf(a->p1) != a->p1)
        return false;
    *out = (struct rounded){n->in[0], {-1, a->p0, (int)a->p1, false}};
    const struct node *over = a->p0 == 1.0f ? match_op(b->r, n->in[0], &op_div) : NULL;
    if (over && match_scalar(b->r, over->in[1], &scale) && scale > 0.0 && isfinite(scale)) {
        out->x = over->in[0];
        out->to.scale = (float)scale;
    }
    return true;
}

static bool same_rounding(const struct rounded *a, const struct rounded *b)
{
    return a->x == b->x && a->to.scale == b->to.scale && a->to.zero == b->to.zero;
}

int byte_before_relu(const struct byte_pass *b, int value, int zero)
{
    const struct node *n = zero == 0 ? match_op(b->r, value, &op_relu) : NULL;
    return n ? n->in[0] : value;
}

bool byte_only_rounded(const struct byte_pass *b, int value, const struct rounded *as)
{
    const struct clcnn_graph *g = b->r->g;
    int found = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        struct rounded other;
        if (n->dead)
            continue;
        if (rewrite_is(n, &op_div) && n->in[0] == value) {
            const struct rounded inner = {n->out[0], {-1, 1.0f, as->to.zero, false}};
            double scale = 0.0;
            if (!match_scalar(b->r, n->in[1], &scale) || (float)scale != as->to.scale ||
                n->out[0] >= b->n_values || !byte_only_rounded(b, n->out[0], &inner))
                return false;
            found++;
        } else if (rewrite_is(n, &op_fake_quantize) && n->in[0] == value) {
            const struct eltwise_attrs *a = n->attrs;
            other = (struct rounded){value, {-1, a->p0, (int)a->p1, false}};
            if (!same_rounding(&other, as))
                return false;
            found++;
        }
    }
    return found == b->r->uses[value];
}

/* ---- new nodes -------------------------------------------------------------------------------------------------- */

enum clcnn_status byte_append(struct byte_pass *b, const struct op_def *op, const char *name,
                              const void *attrs, const int *inputs, int n_in, int *value)
{
    const enum clcnn_status st = graph_append(b->r->g, op, name, attrs, inputs, n_in, value, b->r->err);
    if (st == CLCNN_OK)
        b->order[b->n_order++] = b->r->g->n_nodes - 1;
    return st;
}

/* Rounds floats to bytes by themselves. */
static enum clcnn_status make_bytes(struct byte_pass *b, const struct node *n, const struct rounded *what,
                                    enum byte_make make, struct known *out)
{
    const struct clcnn_shape *x = byte_shape(b, what->x);
    const int in = what->x;
    const bool rows = make == BYTE_ROWS;
    const struct to_bytes_attrs attrs = {what->to.scale, what->to.zero,
                                         !rows && x->dim[1] <= BYTE_FEW ? BYTE_FEW : BYTE_BLOCK, rows};
    *out = what->to;
    out->rows = rows;
    if (!rows && x->rank != 4 && x->rank != 2)
        return CLCNN_OK;
    const enum clcnn_status st = byte_append(b, &op_to_bytes, n->name, &attrs, &in, 1, &out->bytes);
    if (st == CLCNN_OK)
        b->rounded[b->n_rounded++] = (struct rounded){what->x, *out};
    return st;
}

static enum clcnn_status make_windows(struct byte_pass *b, const struct node *n, struct known *of)
{
    const struct pool_attrs attrs = *(const struct pool_attrs *)n->attrs;
    const int in = of->bytes;
    return byte_append(b, &op_byte_max_pool, n->name, &attrs, &in, 1, &of->bytes);
}

const struct rounded *byte_find(const struct byte_pass *b, const struct rounded *what)
{
    for (int i = 0; i < b->n_rounded; i++)
        if (b->rounded[i].to.bytes >= 0 && same_rounding(&b->rounded[i], what))
            return &b->rounded[i];
    return NULL;
}

static bool keeps_channels(const struct byte_pass *b, const struct node *n)
{
    const struct clcnn_shape *x = byte_shape(b, n->in[0]), *y = byte_shape(b, n->out[0]);
    return rewrite_is_reshape(n) && x->rank == 4 && y->rank == 2 && shape_count_from(x, 2) == 1 &&
           x->dim[1] == y->dim[1];
}

bool byte_keeps_rows(const struct byte_pass *b, const struct node *n)
{
    const struct clcnn_shape *x = byte_shape(b, n->in[0]), *y = byte_shape(b, n->out[0]);
    return rewrite_is_reshape(n) && x->rank >= 2 && y->rank >= 2 &&
           x->dim[x->rank - 1] == y->dim[y->rank - 1];
}

/* The node that gives a value, alone or as one of its parts; NULL: none does. */
static const struct node *made_by(const struct byte_pass *b, int value)
{
    const struct value *v = &b->r->g->values[value];
    const struct node *n = v->kind == VALUE_NODE ? &b->r->g->nodes[v->producer] : NULL;
    return n && !n->dead && (n->n_out == 1 || rewrite_is(n, &op_split)) ? n : NULL;
}

/* The first of the channels of its input that a node gives as this value; -1: it does something else. */
static int32_t first_channel(const struct byte_pass *b, const struct node *n, int value)
{
    const struct clcnn_shape *x = byte_shape(b, n->in[0]), *y = byte_shape(b, value);
    int32_t first = 0;
    struct clcnn_shape same = *y;
    same.dim[1] = x->dim[1];
    if (x->rank != 4 || y->rank != 4 || !shape_equal(x, &same))
        return -1;
    if (rewrite_is(n, &op_slice)) {
        const struct slice_attrs *a = n->attrs; /* of all dimensions */
        return rewrite_all_equal(&a->steps, 1) ? a->starts.v[1] : -1;
    }
    if (!rewrite_is(n, &op_split) || ((const struct split_attrs *)n->attrs)->dim != 1)
        return -1;
    for (int i = 0; n->out[i] != value; i++)
        first += ((const struct split_attrs *)n->attrs)->sizes.v[i];
    return first;
}

/* Whether a value is some blocks of channels of its producer's input: which ones. The last one may be in part empty. */
static bool takes_blocks(const struct byte_pass *b, const struct node *n, int value, int32_t blocks[2])
{
    const int32_t first = first_channel(b, n, value);
    if (first < 0)
        return false;
    const int32_t past = first + byte_shape(b, value)->dim[1];
    blocks[0] = first / BYTE_BLOCK;
    blocks[1] = (past + BYTE_BLOCK - 1) / BYTE_BLOCK;
    return first % BYTE_BLOCK == 0 && (past % BYTE_BLOCK == 0 || past == byte_shape(b, n->in[0])->dim[1]);
}

static enum clcnn_status take_blocks(struct byte_pass *b, const char *name, const int32_t blocks[2],
                                     struct known *of)
{
    const struct byte_join_attrs attrs = {blocks[0], blocks[1] - blocks[0]};
    const int in = of->bytes;
    return byte_append(b, &op_byte_join, name, &attrs, &in, 1, &of->bytes);
}

/* Whether a value holds what was rounded, moved to other places. *what: how it is rounded again. */
static bool rounded_and_moved(const struct byte_pass *b, int value, struct rounded *what)
{
    const struct node *n = match_producer(b->r, value);
    while (n && !n->dead && (rewrite_is_reshape(n) || rewrite_is(n, &op_transpose)))
        n = match_producer(b->r, n->in[0]);
    if (!n || !byte_rounding(b, n, what))
        return false;
    what->x = value;
    what->to.scale = ((const struct eltwise_attrs *)n->attrs)->p0;
    return true;
}

static enum clcnn_status find_or_make(struct byte_pass *b, const struct node *n, const struct rounded *what,
                                      enum byte_make make, struct known *out)
{
    const struct rounded *found = byte_find(b, what);
    if (!found)
        return make_bytes(b, n, what, make, out);
    *out = found->to;
    return CLCNN_OK;
}

int byte_times_number(const struct byte_pass *b, const struct node *mul, double *factor)
{
    const int at = match_scalar_operand(b->r, mul, factor);
    const bool fits = at >= 0 && *factor > 0.0 && isfinite(*factor) &&
                      shape_equal(byte_shape(b, mul->in[1 - at]), byte_shape(b, mul->out[0]));
    return fits ? 1 - at : -1;
}

/* Rows times one number, as they were rounded to whole ones. */
static enum clcnn_status of_product(struct byte_pass *b, const struct node *mul, struct known *out)
{
    double factor = 0.0;
    const int at = byte_times_number(b, mul, &factor);
    if (at < 0)
        return CLCNN_OK;
    const enum clcnn_status st = byte_of(b, mul->in[at], BYTE_ROWS, out);
    if (out->scale != 1.0f || !out->rows)
        out->bytes = -1;
    out->scale = (float)factor;
    return st;
}

enum clcnn_status bytes_of_map(struct byte_pass *b, int value, enum byte_make make, struct known *out)
{
    const enum clcnn_status st = byte_of(b, value, make, out);
    if (out->rows)
        *out = (struct known){.bytes = -1};
    return st;
}

enum clcnn_status byte_of(struct byte_pass *b, int value, enum byte_make make, struct known *out)
{
    int32_t blocks[2];
    enum clcnn_status st = CLCNN_OK;
    struct rounded what;
    *out = (struct known){.bytes = -1};
    if (value >= b->n_values)
        return CLCNN_OK;
    *out = b->known[value];
    const struct node *n = made_by(b, value);
    if (out->bytes >= 0 || !n)
        return CLCNN_OK;
    if (rewrite_is(n, &op_max_pool) && byte_shape(b, value)->rank == 4 &&
        byte_shape(b, value)->dim[1] > BYTE_FEW) {
        TRY(bytes_of_map(b, n->in[0], make, out));
        if (out->bytes >= 0 && byte_shape(b, out->bytes)->dim[4] == BYTE_BLOCK)
            TRY(make_windows(b, match_producer(b->r, value), out));
        else
            out->bytes = -1;
    } else if (takes_blocks(b, n, value, blocks)) {
        TRY(bytes_of_map(b, n->in[0], make, out));
        if (out->bytes >= 0 && byte_shape(b, out->bytes)->dim[4] == BYTE_BLOCK)
            TRY(take_blocks(b, made_by(b, value)->name, blocks, out));
        else
            out->bytes = -1;
    } else if (keeps_channels(b, n)) {
        TRY(bytes_of_map(b, n->in[0], make, out));
    } else if (byte_keeps_rows(b, n)) {
        TRY(byte_of(b, n->in[0], make == BYTE_ROWS ? make : BYTE_AS_THEY_ARE, out));
        if (!out->rows)
            out->bytes = -1;
    } else if (make && byte_rounding(b, n, &what)) {
        TRY(find_or_make(b, n, &what, make, out));
        out->scale = ((const struct eltwise_attrs *)match_producer(b->r, value)->attrs)->p0;
    } else if (make == BYTE_ROWS && rounded_and_moved(b, value, &what)) {
        TRY(find_or_make(b, n, &what, make, out));
    } else if (make == BYTE_ROWS && rewrite_is(n, &op_mul)) {
        TRY(of_product(b, n, out));
    }
    b->known[value] = *out;
done:
    return st;
}
