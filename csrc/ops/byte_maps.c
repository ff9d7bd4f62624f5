/* byte_maps.c: operators on maps of bytes, which rewrites make of quantised layers. A map of C channels is [N, C/B, H, W, B], with the
 * channels innermost in blocks of B, 4 or 16; rows of any rank are [1, C/B, 1, rows, B]. Lanes past the last channel hold
 * anything. A byte stands for (byte - zero) * scale. */
#include "ops/rules.h"

enum { BLOCK = 16 };

static int32_t blocks_of(int32_t channels, int32_t block)
{
    return (channels + block - 1) / block;
}

static struct clcnn_shape map_of(int32_t n, int32_t channels, int32_t h, int32_t w, int32_t block)
{
    return (struct clcnn_shape){.rank = 5, .dim = {n, blocks_of(channels, block), h, w, block}};
}

static enum clcnn_status infer_to_bytes(struct infer *in, struct clcnn_err *err)
{
    const struct to_bytes_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    const bool map = x->rank == 4;
    in->n_out = 1;
    if (a->rows && x->rank >= 2) {
        const int32_t channels = x->dim[x->rank - 1];
        in->out[0] = map_of(1, channels, 1, (int32_t)(shape_count(x) / channels), a->block);
        return CLCNN_OK;
    }
    if (!map && x->rank != 2)
        return shape_fail(in, err, "input %s has neither 2 nor 4 dimensions", SHAPE(x));
    in->out[0] = map_of(x->dim[0], x->dim[1], map ? x->dim[2] : 1, map ? x->dim[3] : 1, a->block);
    return CLCNN_OK;
}

static enum clcnn_status infer_from_bytes(struct infer *in, struct clcnn_err *err)
{
    const struct from_bytes_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    if (x->rank != 5 || x->dim[1] != blocks_of(a->channels, x->dim[4]))
        return shape_fail(in, err, "input %s has no blocks of %d channels", SHAPE(x), (int)a->channels);
    in->out[0] = (struct clcnn_shape){.rank = a->rank, .dim = {x->dim[0], a->channels, x->dim[2], x->dim[3]}};
    if (a->rank == 2)
        in->out[0].dim[2] = in->out[0].dim[3] = 0;
    in->n_out = 1;
    if (a->rows.n == 0)
        return CLCNN_OK;
    int64_t pixels = 1;
    in->out[0].rank = a->rows.n + 1;
    for (int i = 0; i < a->rows.n; i++)
        pixels *= in->out[0].dim[i] = a->rows.v[i];
    in->out[0].dim[a->rows.n] = a->channels;
    if (pixels != (int64_t)x->dim[2] * x->dim[3])
        return shape_fail(in, err, "input %s has no %lld rows", SHAPE(x), (long long)pixels);
    return CLCNN_OK;
}

/* Weights of linear layers are [K, C]: a window of one pixel. */
static struct clcnn_shape window_of(const struct clcnn_shape *w)
{
    struct clcnn_shape window = *w;
    if (w->rank == 2) {
        window.rank = 4;
        window.dim[2] = window.dim[3] = 1;
    }
    return window;
}

static enum clcnn_status infer_byte_conv(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct byte_conv_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], w = window_of(&in->in[1]);
    const struct clcnn_shape map = {.rank = 4,
                                    .dim = {x->dim[0], w.dim[1] * a->conv.groups, x->dim[2], x->dim[3]}};
    struct clcnn_shape y;
    if (x->rank != 5 || x->dim[1] != blocks_of(map.dim[1], x->dim[4]))
        return shape_fail(in, err, "input %s has no blocks of %d channels", SHAPE(x), (int)map.dim[1]);
    TRY(rule_conv(in, &a->conv, &map, &w, &y, err));
    TRY(rule_vector(in, 2, "factor", y.dim[1], err));
    TRY(rule_vector(in, 3, "bias", y.dim[1], err));
    in->out[0] = map_of(y.dim[0], y.dim[1], y.dim[2], y.dim[3], BLOCK);
    in->n_out = 1;
done:
    return st;
}

static double macs_byte_conv(const struct infer *in)
{
    const struct clcnn_shape *y = &in->out[0];
    return (double)y->dim[0] * y->dim[2] * y->dim[3] * (double)shape_count(&in->in[1]);
}

static enum clcnn_status infer_byte_max_pool(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape *x = &in->in[0];
    const struct clcnn_shape map = {.rank = 4,
                                    .dim = {x->dim[0], x->dim[1] * x->dim[4], x->dim[2], x->dim[3]}};
    struct clcnn_shape y;
    TRY(rule_pool(in, in->attrs, &map, &y, err));
    in->out[0] = map_of(y.dim[0], y.dim[1], y.dim[2], y.dim[3], x->dim[4]);
    in->n_out = 1;
done:
    return st;
}

static enum clcnn_status infer_byte_mean(struct infer *in, struct clcnn_err *err)
{
    (void)err;
    in->out[0] = in->in[0];
    in->out[0].dim[2] = in->out[0].dim[3] = 1;
    in->n_out = 1;
    return CLCNN_OK;
}

static enum clcnn_status infer_byte_join(struct infer *in, struct clcnn_err *err)
{
    const struct byte_join_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    int32_t blocks = 0;
    for (int i = 0; i < in->n_in; i++) {
        struct clcnn_shape like = in->in[i];
        if (like.rank == 5) {
            blocks += like.dim[1];
            like.dim[1] = x->dim[1];
        }
        if (like.rank != 5 || !shape_equal(&like, x))
            return shape_fail(in, err, "input %s is no map of bytes like %s", SHAPE(&in->in[i]), SHAPE(x));
    }
    if (a->first < 0 || a->count < 1 || a->first + a->count > blocks)
        return shape_fail(in, err, "there are no %d blocks from %d on in %d", (int)a->count, (int)a->first,
                          (int)blocks);
    in->out[0] = *x;
    in->out[0].dim[1] = a->count;
    in->n_out = 1;
    return CLCNN_OK;
}

static enum clcnn_status infer_byte_scale(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *g = &in->in[1];
    if (input_present(in, 2) && !shape_equal(g, &in->in[2]))
        return shape_fail(in, err, "scale %s and shift %s are not the same", SHAPE(g), SHAPE(&in->in[2]));
    if (x->rank != 5 || x->dim[4] != BLOCK || g->rank != 4 || x->dim[1] != blocks_of(g->dim[1], BLOCK))
        return shape_fail(in, err, "input %s has not a number for each channel of the map", SHAPE(g));
    in->out[0] = *x;
    in->n_out = 1;
    return CLCNN_OK;
}

static enum clcnn_status infer_byte_lookup(struct infer *in, struct clcnn_err *err)
{
    if (in->in[0].rank != 5 || shape_count(&in->in[1]) != 256)
        return shape_fail(in, err, "input %s is no map of bytes, or there are no 256 bytes to look up",
                          SHAPE(&in->in[0]));
    in->out[0] = in->in[0];
    in->n_out = 1;
    return CLCNN_OK;
}

const struct op_def op_to_bytes = {
    .name = "to_bytes",
    .doc = "the nearest of 256 steps of x, as bytes on channel blocks; NaN becomes the zero point; made by "
           "rewrites",
    .inputs = "x",
    .attrs_size = sizeof(struct to_bytes_attrs),
    .types = "f > u",
    .infer = infer_to_bytes,
    .by_item = true,
    .internal = true,
};

const struct op_def op_from_bytes = {
    .name = "from_bytes",
    .doc = "the numbers that a map of bytes stands for; made by rewrites",
    .inputs = "x",
    .attrs_size = sizeof(struct from_bytes_attrs),
    .types = "u > f",
    .infer = infer_from_bytes,
    .by_item = true,
    .internal = true,
};

const struct op_def op_byte_conv = {
    .name = "byte_conv",
    .doc = "convolution of a map of bytes with whole numbers from -128 to 127, added up exactly, times a "
           "factor a channel, "
           "rounded to bytes; made by rewrites",
    .inputs = "x w factor bias?",
    .attrs_size = sizeof(struct byte_conv_attrs),
    .types = "u f f f > u",
    .infer = infer_byte_conv,
    .macs = macs_byte_conv,
    .by_item = true,
    .internal = true,
};

const struct op_def op_byte_max_pool = {
    .name = "byte_max_pool",
    .doc = "the maximum of windows of a map of bytes; made by rewrites",
    .inputs = "x",
    .attrs_size = sizeof(struct pool_attrs),
    .types = "u > u",
    .infer = infer_byte_max_pool,
    .by_item = true,
    .internal = true,
};

const struct op_def op_byte_mean = {
    .name = "byte_mean",
    .doc = "a factor times the sum of each channel of a map of bytes, rounded to bytes; made by rewrites",
    .inputs = "x",
    .attrs_size = sizeof(struct byte_mean_attrs),
    .types = "u > u",
    .infer = infer_byte_mean,
    .by_item = true,
    .internal = true,
};

const struct op_def op_byte_lookup = {
    .name = "byte_lookup",
    .doc = "what a table of 256 bytes has for each byte of a map; made by rewrites",
    .inputs = "x table",
    .types = "u u > u",
    .infer = infer_byte_lookup,
    .by_item = true,
    .internal = true,
};

const struct op_def op_byte_scale = {
    .name = "byte_scale",
    .doc =
        "a map of bytes times a number a channel and a factor, and a shift a channel, rounded to bytes; made "
        "by rewrites",
    .inputs = "x scale shift?",
    .attrs_size = sizeof(struct byte_mean_attrs),
    .types = "u f f > u",
    .infer = infer_byte_scale,
    .internal = true,
};

const struct op_def op_byte_join = {
    .name = "byte_join",
    .doc = "maps of bytes side by side, or some of their blocks of channels; made by rewrites",
    .inputs = "xs...",
    .attrs_size = sizeof(struct byte_join_attrs),
    .types = "u > u",
    .infer = infer_byte_join,
    .internal = true,
};
