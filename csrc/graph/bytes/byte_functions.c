/* byte_functions.c: what is computed element by element from one map of bytes, and rounded, is a table of 256 bytes: the same functions
 * of all that a byte can stand for. See byte_pass.h. */
#include "graph/bytes/byte_pass.h"

/* What a value is made of. base: the bytes, -1: there are none by now. */
struct chain {
    int base, functions;
    bool rows;
};

/* The table that made bytes of others; NULL: they are not made so. */
static const struct byte_table *table_of(const struct byte_pass *b, int bytes)
{
    for (int i = 0; i < b->n_tables; i++)
        if (b->tables[i].bytes == bytes)
            return &b->tables[i];
    return NULL;
}

static bool is_number(const struct byte_pass *b, int value)
{
    return byte_constant(b, value) && shape_count(byte_shape(b, value)) == 1;
}

static bool is_function(const struct byte_pass *b, const struct node *n)
{
    return n && !n->dead && n->n_out == 1 && n->epi.add < 0 && n->epi.act == ACT_none &&
           (eltwise_is_unary(n->op) || eltwise_is_binary(n->op)) &&
           byte_shape(b, n->out[0])->dtype == CLCNN_FLOAT32;
}

/* Whether a value of this shape is made of one map of bytes, element by element. */
static bool follow(const struct byte_pass *b, int value, const struct clcnn_shape *shape, struct chain *c)
{
    if (value < 0 || is_number(b, value))
        return value >= 0;
    if (!shape_equal(byte_shape(b, value), shape))
        return false;
    if (byte_is_known(b, value)) {
        const struct byte_table *t = table_of(b, b->known[value].bytes);
        const int base = t ? t->base : b->known[value].bytes;
        const bool same = c->base < 0 || c->base == base;
        c->base = base;
        c->rows = b->known[value].rows;
        return same;
    }
    const struct node *n = match_producer(b->r, value);
    if (!is_function(b, n) || ++c->functions > BYTE_MOST_FUNCTIONS)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!follow(b, n->in[i], shape, c))
            return false;
    return true;
}

/* All that bytes can stand for, as a map of 16 channels and 16 pixels, whose bytes are in this order. */
static enum clcnn_status all_steps(struct byte_pass *b, const struct known *k, int *value)
{
    const struct clcnn_shape shape = {.rank = 4, .dim = {1, BYTE_BLOCK, BYTE_STEPS / BYTE_BLOCK, 1}};
    const enum clcnn_status st = graph_owned_constant(b->r->g, &shape, value, b->r->err);
    for (int i = 0; st == CLCNN_OK && i < BYTE_STEPS; i++)
        b->r->g->values[*value].owned[i % BYTE_BLOCK * (BYTE_STEPS / BYTE_BLOCK) + i / BYTE_BLOCK] =
            (float)(i - k->zero) * k->scale;
    return st;
}

/* What a value is for each of the 256 bytes of its base. */
static enum clcnn_status tabulate(struct byte_pass *b, int value, int *out)
{
    enum clcnn_status st = CLCNN_OK;
    int in[2] = {-1, -1};
    if (is_number(b, value)) {
        *out = value;
    } else if (byte_is_known(b, value)) {
        const struct known k = b->known[value];
        const struct byte_table *t = table_of(b, k.bytes);
        const struct from_bytes_attrs attrs = {
            .scale = k.scale, .zero = k.zero, .channels = BYTE_BLOCK, .rank = 4};
        if (t)
            TRY(byte_append(b, &op_from_bytes, "table", &attrs, &t->table, 1, out));
        else
            TRY(all_steps(b, &k, out));
    } else {
        const int node = b->r->g->values[value].producer, count = b->r->g->nodes[node].n_in;
        for (int i = 0; i < count; i++)
            TRY(tabulate(b, b->r->g->nodes[node].in[i], &in[i]));
        const struct node *n = &b->r->g->nodes[node];
        TRY(byte_append(b, n->op, n->name, n->attrs, in, count, out));
    }
done:
    return st;
}

enum clcnn_status byte_round_function(struct byte_pass *b, const struct rounded *what, struct known *out)
{
    enum clcnn_status st = CLCNN_OK;
    struct chain c = {.base = -1};
    int floats = -1;
    struct known moved; /* parts of maps, and the like, are known when they are asked for */
    TRY(byte_of(b, what->x, BYTE_AS_THEY_ARE, &moved));
    if (!follow(b, what->x, byte_shape(b, what->x), &c) || c.base < 0)
        return CLCNN_OK;
    const struct node *n = match_producer(b->r, what->x);
    const char *name = n ? n->name : "bytes"; /* graph_append() copies it */
    struct byte_table t = {.base = c.base};
    const struct to_bytes_attrs attrs = {.scale = what->to.scale, .zero = what->to.zero, .block = BYTE_BLOCK};
    TRY(tabulate(b, what->x, &floats));
    TRY(byte_append(b, &op_to_bytes, name, &attrs, &floats, 1, &t.table));
    const int inputs[] = {t.base, t.table};
    TRY(byte_append(b, &op_byte_lookup, name, NULL, inputs, 2, &t.bytes));
    TRY(rewrite_note(b->r, "look up %d functions of bytes", c.functions));
    b->tables[b->n_tables++] = t;
    *out = what->to;
    out->bytes = t.bytes;
    out->rows = c.rows;
done:
    return st;
}
