/* byte_moves: maps of floats to bytes and back, and bytes to others; see kernels/bytes/to_bytes.cl, kernels/bytes/from_bytes.cl and
 * kernels/bytes/byte_lookup.cl. */
#include "algos/bytes/byte_common.h"

/* The floats and the bytes of a move; `each`: rows of pixels of an item that work-items take runs of. Rows are one run of pixels,
 * of all items and channels together. */
static void emit_move(const struct problem *p, struct emit *e, const char *file, const struct operand *floats,
                      const struct operand *bytes, size_t each, bool rows, struct byte_move_args a)
{
    const size_t parts = rows ? 1 : (size_t)bytes->shape.dim[0] * each;
    const size_t lines =
        ceil_div((size_t)shape_count_from(&bytes->shape, 2) / (size_t)bytes->shape.dim[4], 16);
    a.src_n = p->in[0].batch_stride;
    a.dst_n = p->out[0].batch_stride;
    a.n = rows ? bytes->shape.dim[3] / floats->shape.dim[0] : bytes->shape.dim[0];
    a.c = rows ? floats->shape.dim[floats->shape.rank - 1] : floats->shape.dim[1];
    a.pixels = bytes->shape.dim[2] * bytes->shape.dim[3];
    a.run = 16 * bytes_run(p, parts, lines);
    struct step *s = emit_step(e, file, "main", parts * ceil_div((size_t)a.pixels, (size_t)a.run), 1);
    step_define(s, "B", bytes->shape.dim[4]);
    step_define(s, "ROWS", rows);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, 4.0 * (double)shape_count(&floats->shape) + (double)shape_count(&bytes->shape));
}

static void emit_to(const struct problem *p, struct emit *e)
{
    const struct to_bytes_attrs *attrs = p->attrs;
    const struct clcnn_shape *y = &p->out[0].shape;
    const size_t fours = (size_t)y->dim[1] * (size_t)(y->dim[4] / 4);
    emit_move(p, e, "to_bytes", &p->in[0], &p->out[0], fours, attrs->rows,
              (struct byte_move_args){.scale = attrs->scale, .zero = attrs->zero});
}

static void emit_from(const struct problem *p, struct emit *e)
{
    const struct from_bytes_attrs *attrs = p->attrs;
    emit_move(p, e, "from_bytes", &p->out[0], &p->in[0], (size_t)attrs->channels, attrs->rows.n > 0,
              (struct byte_move_args){.scale = attrs->scale, .zero = attrs->zero});
}

static void emit_lookup(const struct problem *p, struct emit *e)
{
    const size_t count = (size_t)shape_count_from(&p->in[0].shape, 1), n = (size_t)p->in[0].shape.dim[0];
    const struct byte_lookup_args a = {
        .src_n = p->in[0].batch_stride,
        .dst_n = p->out[0].batch_stride,
        .n = (i32)n,
        .count = (i64)count,
        .run = 64 * (i64)bytes_run(p, n, ceil_div(count, 64)),
    };
    struct step *s = emit_step(e, "byte_lookup", "main", n * ceil_div(count, (size_t)a.run), 1);
    step_define(s, "PERMUTES", device_traits(p->device).byte_permutes);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, 2.0 * (double)(n * count));
}

static void emit_join(const struct problem *p, struct emit *e)
{
    const struct byte_join_attrs *attrs = p->attrs;
    int32_t at = 0; /* of an input's first block among all */
    for (int i = 0; i < p->n_in; at += p->in[i].shape.dim[1], i++) {
        const int32_t first = attrs->first > at ? attrs->first : at, end = attrs->first + attrs->count,
                      here = at + p->in[i].shape.dim[1], past = end < here ? end : here;
        if (first < past)
            emit_byte_blocks(e, p, i, first - at, first - attrs->first, past - first);
    }
}

const struct algo_def algo_to_bytes_ref = {
    .name = "ref",
    .doc = "vectors of 16 pixels of four channels",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_to,
};

const struct algo_def algo_from_bytes_ref = {
    .name = "ref",
    .doc = "element by element",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_from,
};

const struct algo_def algo_byte_lookup_ref = {
    .name = "ref",
    .doc = "vectors of 64 bytes",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_lookup,
};

const struct algo_def algo_byte_join_ref = {
    .name = "ref",
    .doc = "pixel by pixel, 16 channels at a time",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_join,
};
