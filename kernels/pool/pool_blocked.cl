/* pool_blocked.cl: maximum and average pooling of maps with channels in blocks, over windows or torch's adaptive bins,
 * for CPU devices.
 *
 *   windows   y[n][c][o] = max or mean over t of x[n][c][o * stride - pad + t * dil], taps outside left out
 *   bins      y[n][c][o] = max or mean of x[n][c][floor(o * in / out) .. ceil((o + 1) * in / out) - 1], in each
 *             dimension
 *
 * The mean divides by the taps inside the input, or with include_pad by those inside the padded input. NaN wins a max.
 * Layouts: x, y [ceil(C/V)][D][H][W][V] with batch strides; lanes of y past C are written as zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `rows` output rows, of all slices', of
 * one block of channels.
 * Work-group: WG = 1. Local memory: none.
 * Of the argument block: average, 0: the maximum; kind, POOL_BINS, or 2 or 3: windows of that height and width, whose
 * taps are unrolled where they have one slice, at dilation 1; 0: any windows.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) pool_blocked_##x
#endif
#include "pool/pool_taps.clh"

/* NaN wins a max wherever it comes; comparisons alone would forget it. Its bits without the sign exceed infinity's:
 * keeping the largest costs less than a comparison and a mask each time. */
#define UV VEC_CAT(uint, V)
#define AS_UV VEC_CAT(as_uint, V)
#define NOTE_NAN(v) worst = avg ? worst : max(worst, AS_UV(v) & 0x7fffffffu)
#define WITH_NAN(all) (worst > 0x7f800000u ? (FV)NAN : (all))

/* What output o sees along dimension d: first position, one past the last, step, and what the mean divides by. */
int4 FN(range)(int o, int d, const struct pool_blocked_args *a)
{
    if (a->kind == POOL_BINS) {
        const int first = (int)((long)o * a->in[d] / a->out[d]);
        const int past = (int)((((long)o + 1) * a->in[d] + a->out[d] - 1) / a->out[d]);
        return (int4)(first, past, 1, past - first);
    }
    const int from = o * a->stride[d] - a->pad[d], dil = a->dil[d];
    const int2 in = FN(taps)(from, dil, a->ker[d], 0, a->in[d]);
    const int2 counted = a->include_pad ? FN(taps)(from, dil, a->ker[d], -a->pad[d], a->in[d] + a->pad_end[d]) : in;
    return (int4)(from + in.x * dil, from + in.y * dil, dil, counted.y - counted.x);
}

/* Inlined by force, so that avg and ker are numbers; static, since compilers complain of loops in a copy that takes any
 * ker. */
#define UNROLLED static __attribute__((always_inline))

/* Any window or bin. */
UNROLLED FV FN(pool)(SRC x, int4 d, int4 h, int4 w, bool avg, const struct pool_blocked_args *a)
{
    FV all = avg ? 0.0f : -INFINITY;
    UV worst = 0;
    for (int id = d.x; id < d.y; id += d.z)
        for (int ih = h.x; ih < h.y; ih += h.z) {
            SRC row = x + ((long)id * a->in[0] + ih) * a->in[1] * V;
            FV part = avg ? 0.0f : -INFINITY; /* a row by itself: short sums keep the error small */
            for (int iw = w.x; iw < w.y; iw += w.z) {
                const FV v = LOADV(row, (long)iw * V);
                part = avg ? part + v : v > part ? v : part;
                NOTE_NAN(v);
            }
            all = avg ? all + part : part > all ? part : all;
        }
    return avg ? all / (float)((long)d.w * h.w * w.w) : WITH_NAN(all);
}

/* A window of ker x ker that lies inside altogether. */
UNROLLED FV FN(inside)(SRC x, int width, int ker, bool avg)
{
    FV all = avg ? 0.0f : -INFINITY;
    UV worst = 0;
#pragma unroll 1
    for (int r = 0; r < ker; r++, x += (long)width * V)
#pragma unroll
        for (int s = 0; s < ker; s++) {
            const FV v = LOADV(x, s * V);
            all = avg ? all + v : v > all ? v : all;
            NOTE_NAN(v);
        }
    return avg ? all / (float)(ker * ker) : WITH_NAN(all);
}

/* A window anywhere: branches around taps outside, which are the same from row to row. */
UNROLLED FV FN(edge)(SRC x, int h, int w, int ker, bool avg, const struct pool_blocked_args *a)
{
    FV all = avg ? 0.0f : -INFINITY;
    UV worst = 0;
#pragma unroll
    for (int r = 0; r < ker; r++)
        if (h + r >= 0 && h + r < a->in[0]) {
            SRC row = x + ((long)(h + r) * a->in[1] + w) * V;
#pragma unroll
            for (int s = 0; s < ker; s++)
                if (w + s >= 0 && w + s < a->in[1]) {
                    const FV v = LOADV(row, s * V);
                    all = avg ? all + v : v > all ? v : all;
                    NOTE_NAN(v);
                }
        }
    const int high = a->include_pad ? min(h + ker, a->in[0] + a->pad_end[0]) - h : min(h + ker, a->in[0]) - max(h, 0);
    const int wide = a->include_pad ? min(w + ker, a->in[1] + a->pad_end[1]) - w : min(w + ker, a->in[1]) - max(w, 0);
    return avg ? all / (float)(high * wide) : WITH_NAN(all);
}

/* Output columns [first, past), whatever their windows are; ker: 0 when they are not square and small. */
UNROLLED void FN(columns)(SRC x, DST y, int od, int oh, int first, int past, int lanes, int ker, bool avg,
                          const struct pool_blocked_args *a)
{
    const int4 d = ker ? (int4)(0) : FN(range)(od, 2, a), h = ker ? (int4)(0) : FN(range)(oh, 0, a);
    for (int ow = first; ow < past; ow++) {
        FV v = ker ? FN(edge)(x, oh * a->stride[0] - a->pad[0], ow * a->stride[1] - a->pad[1], ker, avg, a)
                   : FN(pool)(x, d, h, FN(range)(ow, 1, a), avg, a);
        if (lanes < V)
            v = select((FV)0.0f, v, LANES_V < (IV)lanes);
        STOREV(v, y, ow * V);
    }
}

/* A row of square windows. */
UNROLLED void FN(square)(SRC x, DST y, int oh, int lanes, int ker, bool avg, const struct pool_blocked_args *a)
{
    int left = 0, right = 0; /* columns whose windows lie inside */
    const int h = oh * a->stride[0] - a->pad[0];
    SRC first = x + ((long)h * a->in[1] - a->pad[1]) * V;
    if (h >= 0 && h + ker <= a->in[0] && lanes >= V && a->in[1] + a->pad[1] >= ker) {
        left = min((a->pad[1] + a->stride[1] - 1) / a->stride[1], a->out[1]);
        right = max(left, min((a->in[1] + a->pad[1] - ker) / a->stride[1] + 1, a->out[1]));
    }
    FN(columns)(x, y, 0, oh, 0, left, lanes, ker, avg, a);
    for (int ow = left; ow < right; ow++)
        STOREV(FN(inside)(first + (long)ow * a->stride[1] * V, a->in[1], ker, avg), y, ow * V);
    FN(columns)(x, y, 0, oh, right, a->out[1], lanes, ker, avg, a);
}

UNROLLED void FN(row)(SRC x, DST y, int od, int oh, int lanes, bool avg, const struct pool_blocked_args *a)
{
    const int kind = a->ker[2] > 1 ? 0 : a->kind;
    SRC slice = x + (long)od * a->stride[2] * a->in[0] * a->in[1] * V; /* where windows have one */
    if (kind == 2)
        FN(square)(slice, y, oh, lanes, 2, avg, a);
    else if (kind == 3)
        FN(square)(slice, y, oh, lanes, 3, avg, a);
    else
        FN(columns)(x, y, od, oh, 0, a->out[1], lanes, 0, avg, a);
}

void FN(body)(ulong group, SRC x, DST y, const struct pool_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V, rows = a->out[2] * a->out[0], parts = (rows + a->rows - 1) / a->rows;
    const int first = (int)(group % parts) * a->rows, past = min(first + a->rows, rows);
    const int block = (int)(group / parts % blocks);
    const long n = (long)(group / parts / blocks);
    SRC xb = x + n * a->x_n + (long)block * a->in[2] * a->in[0] * a->in[1] * V;
    DST yr = y + n * a->y_n + ((long)block * rows + first) * a->out[1] * V;
    for (int row = first; row < past; row++, yr += (long)a->out[1] * V) {
        const int od = row / a->out[0], oh = row % a->out[0];
        if (a->average)
            FN(row)(xb, yr, od, oh, a->c - block * V, true, a);
        else
            FN(row)(xb, yr, od, oh, a->c - block * V, false, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct pool_blocked_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
