/* byte_joins.c: maps of bytes side by side, and maps times a number a channel; see byte_pass.h. */
#include "graph/bytes/byte_pass.h"

/* ---- maps side by side ------------------------------------------------------------------------------------------- */

/* The bytes of a map with other steps. */
static enum clcnn_status with_steps(struct byte_pass *b, int value, const struct known *to, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    const struct rounded what = {value, {-1, to->scale, to->zero, false}};
    const struct rounded *found = byte_find(b, &what);
    TRY(bytes_of_map(b, value, BYTE_AS_THEY_ARE, out));
    if (out->bytes < 0 || (out->scale == to->scale && out->zero == to->zero))
        return CLCNN_OK;
    if (found) {
        *out = found->to;
        return CLCNN_OK;
    }
    TRY(byte_round_function(b, &what, out));
    if (out->bytes >= 0)
        b->rounded[b->n_rounded++] = (struct rounded){value, {out->bytes, to->scale, to->zero, false}};
done:
    return st;
}

/* Whether one input of a concatenation fills whole blocks, or is the last one. */
static bool fills_blocks(const struct byte_pass *b, int value, bool last)
{
    const struct clcnn_shape *s = byte_shape(b, value);
    return last || s->dim[1] % BYTE_BLOCK == 0;
}

enum clcnn_status byte_round_concat(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node *n = match_op(b->r, what->x, &op_concat);
    int bytes[BYTE_MOST_JOINED];
    if (!n || ((const struct dim_attrs *)n->attrs)->dim != 1 || byte_shape(b, what->x)->rank != 4 ||
        n->n_in > BYTE_MOST_JOINED)
        return CLCNN_OK;
    const int node = b->r->g->values[what->x].producer, count = n->n_in;
    bool some = false;
    for (int i = 0; i < count; i++) {
        const int value = n->in[i];
        some = some || byte_is_known(b, value);
        if (!fills_blocks(b, value, i == count - 1))
            return CLCNN_OK;
    }
    for (int i = 0; i < count; i++) { /* all of them, before anything is made of one */
        struct known k;
        TRY(bytes_of_map(b, b->r->g->nodes[node].in[i], some ? BYTE_MAP : BYTE_AS_THEY_ARE, &k));
        if (k.bytes < 0 || byte_shape(b, k.bytes)->dim[4] != BYTE_BLOCK)
            return CLCNN_OK;
    }
    for (int i = 0; i < count; i++) {
        struct known k;
        TRY(with_steps(b, b->r->g->nodes[node].in[i], &what->to, &k));
        if (k.bytes < 0)
            return CLCNN_OK;
        bytes[i] = k.bytes;
    }
    struct byte_join_attrs attrs = {0};
    for (int i = 0; i < count; i++)
        attrs.count += byte_shape(b, bytes[i])->dim[1];
    *out = what->to;
    TRY(rewrite_note(b->r, "concatenate %s in bytes", b->r->g->nodes[node].name));
    TRY(byte_append(b, &op_byte_join, b->r->g->nodes[node].name, &attrs, bytes, count, &out->bytes));
done:
    return st;
}

/* ---- maps times a number a channel ------------------------------------------------------------------------------- */

/* y = scale x + shift, numbers of each channel; a shift of -1: none. */
struct affine {
    int x, scale, shift;
    const char *name;
};

static bool is_gate(const struct byte_pass *b, int value, const struct clcnn_shape *map)
{
    const struct clcnn_shape *s = byte_shape(b, value);
    return s->rank == 4 && map->rank == 4 && s->dtype == CLCNN_FLOAT32 && s->dim[1] == map->dim[1] &&
           (s->dim[0] == 1 || s->dim[0] == map->dim[0]) && shape_count_from(s, 2) == 1;
}

static bool is_map(const struct byte_pass *b, int value, const struct clcnn_shape *y)
{
    return byte_is_known(b, value) && !b->known[value].rows &&
           byte_shape(b, b->known[value].bytes)->dim[4] == BYTE_BLOCK && shape_equal(byte_shape(b, value), y);
}

static bool of_product(const struct byte_pass *b, int value, struct affine *a)
{
    const struct node *mul = match_op(b->r, value, &op_mul);
    const struct clcnn_shape *y = byte_shape(b, value);
    if (!mul || mul->epi.add >= 0 || mul->epi.act != ACT_none)
        return false;
    for (int at = 0; at < 2; at++)
        if (is_map(b, mul->in[at], y) && is_gate(b, mul->in[1 - at], y)) {
            *a = (struct affine){mul->in[at], mul->in[1 - at], -1, mul->name};
            return true;
        }
    return false;
}

/* Batch normalisation: (x - mean) weight / sqrt(var + eps) + bias, the shift in steps of `step`. */
static enum clcnn_status of_norm(struct byte_pass *b, const struct node *n, double step, struct affine *a)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape shape = {.rank = 4, .dim = {1, byte_shape(b, n->in[0])->dim[1], 1, 1}};
    *a = (struct affine){n->in[0], -1, -1, n->name};
    if (!rewrite_norm_is_constant(b->r, n))
        return CLCNN_OK;
    int scale, shift;
    TRY(graph_owned_constant(b->r->g, &shape, &scale, b->r->err));
    TRY(graph_owned_constant(b->r->g, &shape, &shift, b->r->err));
    for (int32_t c = 0; c < shape.dim[1]; c++) {
        b->r->g->values[scale].owned[c] = (float)rewrite_norm_scale(b->r->g, n, c);
        b->r->g->values[shift].owned[c] = (float)(rewrite_norm_shift(b->r->g, n, c) / step);
    }
    a->scale = scale;
    a->shift = shift;
done:
    return st;
}

enum clcnn_status byte_round_affine(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    const int value = byte_before_relu(b, what->x, what->to.zero);
    const struct node *norm = match_op(b->r, value, &op_batch_norm);
    struct affine a = {.scale = -1};
    if (norm && norm->epi.act == ACT_none && norm->epi.add < 0 &&
        is_map(b, norm->in[0], byte_shape(b, value)))
        TRY(of_norm(b, norm, (double)what->to.scale, &a));
    else if (!of_product(b, value, &a))
        return CLCNN_OK;
    if (a.scale < 0)
        return CLCNN_OK;
    const struct known x = b->known[a.x];
    const struct byte_mean_attrs attrs = {x.scale / what->to.scale, x.zero, what->to.zero};
    const int inputs[] = {x.bytes, a.scale, a.shift};
    *out = what->to;
    TRY(rewrite_note(b->r, "multiply %s in bytes", a.name));
    TRY(byte_append(b, &op_byte_scale, a.name, &attrs, inputs, COUNT_OF(inputs), &out->bytes));
done:
    return st;
}
