/* byte_conv: register tiles of sums of products of bytes; see kernels/bytes/byte_conv.cl. */
#include "algos/bytes/byte_common.h"

/* Pixels and vectors of filters that 32 registers hold beside what they are made of. cost: of a product, by that of the first. */
struct byte_tile {
    int t, kv;
    double cost;
};
static const struct byte_tile byte_tiles[] = {
    {14, 2, 1.0}, {7, 3, 1.0}, {4, 4, 1.1}, {28, 1, 1.15}, {1, 8, 1.5}};

/* A window of one pixel: the map is one long row, of the pixels that are read. */
static bool is_pointwise(const struct byte_sizes *s)
{
    return s->ker[0] == 1 && s->ker[1] == 1;
}

static void make_row(struct byte_sizes *s)
{
    s->out[1] *= s->out[0];
    s->out[0] = s->stride[0] = s->stride[1] = 1;
}

static struct byte_tile best_tile(const struct byte_sizes *z)
{
    struct byte_sizes s = *z;
    const struct byte_tile *best = &byte_tiles[COUNT_OF(byte_tiles) - 1];
    double least = 0.0;
    if (is_pointwise(&s))
        make_row(&s);
    for (int i = COUNT_OF(byte_tiles) - 1; i >= 0; i--) {
        const struct byte_tile *t = &byte_tiles[i];
        const double work = t->cost * t->t * t->kv * (double)ceil_div((size_t)s.out[1], (size_t)t->t) *
                            (double)ceil_div((size_t)s.k, (size_t)(16 * t->kv)) *
                            byte_span(&s, 16 * t->kv, s.block);
        if (t->t <= s.out[1] && (least == 0.0 || work < least)) {
            best = t;
            least = work;
        }
    }
    return *best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    (void)why;
    const struct byte_sizes s = byte_sizes_of(p);
    const struct byte_tile tile = best_tile(&s);
    DECIDE(p, tile);
    return true;
}

/* The map with its border, where it has one. */
static struct byte_map map_of(struct emit *e, const struct problem *p, const struct byte_sizes *s)
{
    const struct conv_attrs *a = &((const struct byte_conv_attrs *)p->attrs)->conv;
    const bool padded = a->padding.v[0] || a->padding.v[1] || a->padding.v[2] || a->padding.v[3];
    const bool point = is_pointwise(s), strided = s->stride[0] > 1 || s->stride[1] > 1;
    const int ones[2] = {1, 1};
    int size[2];
    for (int d = 0; d < 2; d++)
        size[d] = point ? s->out[d] : (s->out[d] - 1) * s->stride[d] + (s->ker[d] - 1) * s->dil[d] + 1;
    if (padded || (point && strided))
        return emit_byte_pad(e, p, s, size, point ? s->stride : ones);
    return byte_map_of(p, s);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct byte_sizes s = byte_sizes_of(p);
    struct byte_tile tile;
    DECIDED(p, tile);
    const struct byte_map x = map_of(e, p, &s);
    if (is_pointwise(&s))
        make_row(&s);
    const int span = byte_span(&s, 16 * tile.kv, s.block);
    const struct byte_pack_args pack = {
        .w_k = p->in[1].batch_stride,
        .k = s.k,
        .c = s.c_group,
        .taps = s.ker[0] * s.ker[1],
        .q = s.block / 4,
        .c_blocks = span,
        .k_blocks = (i32)ceil_div((size_t)s.k, (size_t)(16 * tile.kv)),
        .k_group = s.k_group,
        .last = s.blocks - span,
    };
    const int packed = emit_byte_packed(e, p, &pack, "main", tile.kv);
    const size_t row = ceil_div((size_t)s.out[1], (size_t)tile.t), all = row * (size_t)s.out[0];
    const bool few = shape_count(&p->in[1].shape) > shape_count(&p->in[0].shape) / s.n;
    const int per_item = bytes_run(p, (size_t)s.n * (size_t)pack.k_blocks, all);
    struct byte_conv_args a = {
        .together = few ? s.n : 1,
        .c_blocks = span,
        .k_blocks = pack.k_blocks,
        .k_group = s.k_group,
        .c_group = s.c_group,
        .last = pack.last,
        .out = {s.out[0], s.out[1]},
        .ker = {s.ker[0], s.ker[1]},
        .row = x.size[1] * s.block,
        .stride = s.stride[0],
        .dil = {s.dil[0], s.dil[1]},
        .chunks = (i32)ceil_div(all, (size_t)per_item),
        .per_item = per_item,
    };
    struct step *step =
        emit_step(e, "byte_conv", "main", (size_t)s.n * (size_t)a.k_blocks * (size_t)a.chunks, 1);
    step_define(step, "T", tile.t);
    step_define(step, "KV", tile.kv);
    step_define(step, "SW", s.stride[1]);
    step_define(step, "Q", s.block / 4);
    byte_conv_step(step, p, &s, &x, packed, &a);
}

const struct algo_def algo_byte_conv_products = {
    .name = "products",
    .doc = "register tiles of dot products of four bytes",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
