/* conv_transpose_spread.cl: the strided transposed convolution by windows of one element, from what it gives at stride 1.
 *
 *   y[n][k][o] = act( (o = i * stride ? z[n][k][i] : 0) + bias[k] + add[n][k][o] )
 *
 * Layouts: z dense [N][K][D][H][W] of the input's size; y, add NC(D)HW with batch strides. A row is one (n, k, d, h) of
 * y.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) conv_transpose_spread_##x
#endif

/* The input's coordinate that output o of dimension d has, or -1. */
int FN(source)(int o, int d, const struct conv_args *a)
{
    const int i = o / a->stride[d];
    return i * a->stride[d] == o && i < a->in[d] ? i : -1;
}

void FN(body)(ulong group, SRC z, SRC bias, SRC add, DST y, const struct conv_spread_args *s)
{
    const struct conv_args *a = &s->conv;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(k, rest, a->k);
        const long n = rest, at = ((k * a->out[0] + od) * a->out[1] + oh) * (long)a->out[2];
        const int ih = FN(source)((int)oh, 1, a), id = FN(source)((int)od, 0, a);
        SRC zr = z + (((n * a->k + k) * a->in[0] + id) * a->in[1] + ih) * a->in[2];
        FOR_COLUMNS(i, first, a->out[2])
        {
            const int iw = FN(source)((int)i, 2, a);
            const float v = ih >= 0 && id >= 0 && iw >= 0 ? zr[iw] : 0.0f;
            y[n * a->dst_n + at + i] = EPILOGUE(v, bias, k, add, n * a->add_n + at + i, a);
        }
    }
}

KERNEL FN(main)(SRC z, ulong z_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct conv_spread_args a)
{
    FN(body)(GROUP, z + z_off, bias + bias_off, add + add_off, y + y_off, &a);
}
