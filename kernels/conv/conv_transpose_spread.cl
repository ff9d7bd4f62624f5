/* conv_transpose_spread.cl: the strided transposed convolution by windows of one element, from what it gives at stride
 * 1.
 *
 *   y[n][k][o] = act( (o = i * stride ? z[n][k][i] : 0) + bias[k] + add[n][k][o] )
 *
 * Layouts: z [N][K][D][H][W] of the input's size, y, add NC(D)HW, all with batch strides.
 * Work-group: WG cells in row-major order of (n, k, d, h, w), `cells` down and across: the elements of y from one that
 * has a pixel up to the next ones. Local memory: none.
 * Defines: WG, INDEX (uint, or ulong, the default: that of cells), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef INDEX
#define INDEX ulong
#endif
#include "common/strided.clh"
#ifndef FN
#define FN(x) conv_transpose_spread_##x
#endif

void FN(body)(ulong group, SRC z, SRC bias, SRC add, DST y, const struct conv_spread_args *s)
{
    const struct conv_args *a = &s->conv;
    INDEX rest = (INDEX)group * WG + LANE;
    if (rest < (INDEX)s->count) {
        TAKE_DIGIT(w, rest, s->cells[2]);
        TAKE_DIGIT(h, rest, s->cells[1]);
        TAKE_DIGIT(d, rest, s->cells[0]);
        TAKE_DIGIT(k, rest, a->k);
        const long n = rest, channel = (long)a->out[0] * a->out[1] * a->out[2];
        const bool there = d < a->in[0] && h < a->in[1] && w < a->in[2];
        const float pixel = there ? z[n * a->src_n + ((k * a->in[0] + d) * a->in[1] + h) * a->in[2] + w] : 0.0f;
        for (int od = (int)d * a->stride[0]; od < min(((int)d + 1) * a->stride[0], a->out[0]); od++)
            for (int oh = (int)h * a->stride[1]; oh < min(((int)h + 1) * a->stride[1], a->out[1]); oh++)
                for (int ow = (int)w * a->stride[2]; ow < min(((int)w + 1) * a->stride[2], a->out[2]); ow++) {
                    const bool own =
                        od == (int)d * a->stride[0] && oh == (int)h * a->stride[1] && ow == (int)w * a->stride[2];
                    const long i = k * channel + ((long)od * a->out[1] + oh) * a->out[2] + ow;
                    y[n * a->dst_n + i] = EPILOGUE(own ? pixel : 0.0f, bias, k, add, n * a->add_n + i, a);
                }
    }
}

KERNEL FN(main)(SRC z, ulong z_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct conv_spread_args a)
{
    FN(body)(GROUP, z + z_off, bias + bias_off, add + add_off, y + y_off, &a);
}
