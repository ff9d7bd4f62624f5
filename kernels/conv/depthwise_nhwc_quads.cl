/* depthwise_nhwc_quads.cl: depthwise 2-D convolution of maps with channels last, quads of channels in registers.
 *
 *   y[n][oh][ow][c] = act( sum_{r,s} x[n][oh*sh - ph + r*dh][ow*sw - pw + s*DW][c] * w[c][0][r][s] + bias[c]
 *                          + add[n][oh][ow][c] )
 *
 * A work-item computes V neighbouring channels of TW neighbouring columns of a row of the result. Each row of pixels
 * under them is read once for all taps. Neighbouring items have neighbouring channels, so that what they read and write
 * lies side by side. Taps are added up in the order of (r, s). Pixels outside of a map are read at its edge, and count
 * as zeros: so no read waits in a branch for others.
 * Layouts: x, y, add NHWC with batch strides; w packed by entry pack: [KH * KW][C].
 * Index map: item = ((n * P + oh) * ceil(Q/TW) + columns) * C/V + channels, fewer than 2^32; pack: an element of w.
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), V 4 or 1 (divides C), TW (any), KH, KW (the window), SW (the stride between columns of an item),
 * DW (the dilation along a row), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) depthwise_nhwc_quads_##x
#endif
#ifndef V
#define V 4
#endif
#ifndef TW
#define TW 1
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#ifndef SW
#define SW 1
#endif
#ifndef DW
#define DW 1
#endif
#undef LANES
#undef SPAN
#if V == 4
#define LANES float4
#elif V == 1
#define LANES float
#else
#error "V must be 4 or 1"
#endif
#define SPAN ((TW - 1) * SW + (KW - 1) * DW + 1)

/* whole: they lie on a boundary of as many. */
LANES FN(load)(SRC p, bool whole)
{
#if V == 4
    return whole ? *(const global float4 *)p : vload4(0, p);
#else
    return *p;
#endif
}

void FN(store)(LANES v, DST p, bool whole)
{
#if V == 4
    if (whole)
        *(global float4 *)p = v;
    else
        vstore4(v, 0, p);
#else
    *p = v;
#endif
}

/* The channels `c` on, of which `add` holds as many as `sum`. */
LANES FN(finish)(LANES sum, SRC bias, int c, LANES add, const struct conv_args *a)
{
#if V == 4
    return (float4)(EPILOGUE_OF(sum.x, bias, c, add.x, a), EPILOGUE_OF(sum.y, bias, c + 1, add.y, a),
                    EPILOGUE_OF(sum.z, bias, c + 2, add.z, a), EPILOGUE_OF(sum.w, bias, c + 3, add.w, a));
#else
    return EPILOGUE_OF(sum, bias, c, add, a);
#endif
}

/* Columns of the result whose first tap is the pixel at `line` and `first` of a map. */
void FN(slide)(LANES sum[TW], SRC map, SRC w, int line, int first, const struct conv_args *a, bool whole)
{
#pragma unroll
    for (int r = 0; r < KH; r++) {
        const int ih = line + r * a->dil[1];
        const bool inside = (uint)ih < (uint)a->in[1];
        SRC row = map + (long)clamp(ih, 0, a->in[1] - 1) * a->in[2] * a->c;
        LANES v[SPAN];
#pragma unroll
        for (int e = 0; e < SPAN; e++) {
            const LANES pixel = FN(load)(row + (long)clamp(first + e, 0, a->in[2] - 1) * a->c, whole);
            v[e] = inside && (uint)(first + e) < (uint)a->in[2] ? pixel : (LANES)0.0f;
        }
#pragma unroll
        for (int s = 0; s < KW; s++) {
            const LANES tap = FN(load)(w + (long)(r * KW + s) * a->c, true);
#pragma unroll
            for (int t = 0; t < TW; t++)
                sum[t] = fma(v[t * SW + s * DW], tap, sum[t]);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const uint across = (uint)(a->c / V), strips = (uint)(a->out[2] + TW - 1) / TW;
    const uint item = (uint)group * WG + LANE, strip = item / across, row = strip / strips, n = row / (uint)a->out[1];
    const int c = (int)(item - strip * across) * V, ow = (int)(strip - row * strips) * TW,
              oh = (int)(row - n * (uint)a->out[1]);
    if (n < (uint)a->n) {
        const int line = oh * a->stride[1] - a->pad[1], first = ow * a->stride[2] - a->pad[2];
        const ulong apart =
            a->src_n | a->dst_n | (ulong)x / 4 | (ulong)y / 4 | (EPI_ADD ? a->add_n | (ulong)add / 4 : 0);
        const bool whole = apart % 4 == 0;
        SRC map = x + n * a->src_n + c;
        LANES sum[TW];
#pragma unroll
        for (int t = 0; t < TW; t++)
            sum[t] = 0.0f;
        if (whole)
            FN(slide)(sum, map, w + c, line, first, a, true);
        else
            FN(slide)(sum, map, w + c, line, first, a, false);
#pragma unroll
        for (int t = 0; t < TW; t++)
            if (ow + t < a->out[2]) {
                const long at = ((long)oh * a->out[2] + ow + t) * a->c + c;
                LANES other = 0.0f;
#if EPI_ADD
                other = FN(load)(add + n * a->add_n + at, whole);
#endif
                FN(store)(FN(finish)(sum[t], bias, c, other, a), y + n * a->dst_n + at, whole);
            }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}

/* Filters of channels become channels of taps. */
void FN(pack_body)(ulong group, SRC w, DST packed, const struct conv_args *a)
{
    const int taps = a->ker[1] * a->ker[2];
    const long i = (long)group * WG + LANE;
    if (i < (long)taps * a->c) {
        const int tap = (int)(i / a->c), c = (int)(i - (long)tap * a->c);
        packed[i] = w[c * a->w_k + tap];
    }
}

KERNEL FN(pack)(SRC w, ulong w_off, DST packed, ulong packed_off, const struct conv_args a)
{
    FN(pack_body)(GROUP, w + w_off, packed + packed_off, &a);
}
