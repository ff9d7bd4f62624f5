/* pool_ref.cl: max and average pooling over windows.
 *
 *   y[n][c][o] = max or mean over t of x[n][c][o * stride - pad + t * dil], taps outside of the input left out
 *
 * The mean divides by the taps inside the input, or with include_pad by those inside the padded input. NaN wins a max.
 * Layouts: N,C,(D,)(H,)W with batch strides. A row is one (n, c, d, h) of the output. A work-item keeps its columns in
 * private memory and walks over the window's taps outside of the loop over columns, which then is a vector loop.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: AVG (0: max, 1: average), STRIDE_W (0 = any, or the width's stride), WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "clcnn.clh"
#include "args.h"
#include "rows.clh"
#include "strided.clh"
#ifndef FN
#define FN(x) pool_ref_##x
#endif
#ifndef AVG
#define AVG 0
#endif
#ifndef STRIDE_W
#define STRIDE_W 0
#endif

/* Taps of a window that starts at `from` which lie in [low, high): the first one, and one past the last. */
int2 FN(taps)(int from, int dil, int ker, int low, int high)
{
    const int first = from >= low ? 0 : (low - from + dil - 1) / dil;
    const int past = high > from ? min(ker, (high - from + dil - 1) / dil) : 0;
    return (int2)(first, max(first, past));
}

/* As taps, but how many there are for the mean. */
int FN(count)(int o, int d, const struct pool_args *a)
{
    const int from = o * a->stride[d] - a->pad[d];
    const int low = a->include_pad ? -a->pad[d] : 0;
    const int high = a->in[d] + (a->include_pad ? a->pad_end[d] : 0);
    const int2 t = FN(taps)(from, a->dil[d], a->ker[d], low, high);
    return t.y - t.x;
}

/* acc[i - first] takes in the tap that sits `shift` after the window's start, for the columns inside the input. */
void FN(tap)(SRC xr, int shift, int first, float *acc, const struct pool_args *a)
{
    const int stride = STRIDE_W ? STRIDE_W : a->stride[2];
#if defined(RUNS) && RUNS
    const int low = max(first, shift >= 0 ? 0 : (stride - 1 - shift) / stride);
    const int high = min(first + ELEMS, min(a->out[2], a->in[2] > shift ? (a->in[2] - 1 - shift) / stride + 1 : 0));
    SRC at = xr + shift;
    for (int i = low; i < high; i++) {
        const float v = at[i * stride];
#if AVG
        acc[i - first] += v;
#else
        acc[i - first] = v > acc[i - first] || isnan(v) ? v : acc[i - first];
#endif
    }
#else
    for (int e = 0; e < ELEMS; e++) {
        const int i = first + e * LANES, at = i * stride + shift;
        if (i < a->out[2] && at >= 0 && at < a->in[2]) {
            const float v = xr[at];
#if AVG
            acc[e] += v;
#else
            acc[e] = v > acc[e] || isnan(v) ? v : acc[e];
#endif
        }
    }
#endif
}

void FN(body)(ulong group, SRC x, DST y, const struct pool_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const int first = (int)FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest;
        const int d0 = (int)od * a->stride[0] - a->pad[0], h0 = (int)oh * a->stride[1] - a->pad[1];
        const int2 td = FN(taps)(d0, a->dil[0], a->ker[0], 0, a->in[0]);
        const int2 th = FN(taps)(h0, a->dil[1], a->ker[1], 0, a->in[1]);
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        float acc[ELEMS];
        for (int e = 0; e < ELEMS; e++)
            acc[e] = AVG ? 0.0f : -INFINITY;
        for (int d = td.x; d < td.y; d++)
            for (int h = th.x; h < th.y; h++) {
                SRC xr = xc + ((long)(d0 + d * a->dil[0]) * a->in[1] + h0 + h * a->dil[1]) * a->in[2];
                for (int w = 0; w < a->ker[2]; w++)
                    FN(tap)(xr, w * a->dil[2] - a->pad[2], first, acc, a);
            }
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
#if AVG
        const int plane = FN(count)((int)od, 0, a) * FN(count)((int)oh, 1, a);
        FOR_COLUMNS(i, first, a->out[2])
            yr[i] = acc[SLOT_OF(i, first)] / (float)(plane * FN(count)((int)i, 2, a));
#else
        FOR_COLUMNS(i, first, a->out[2])
            yr[i] = acc[SLOT_OF(i, first)];
#endif
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
