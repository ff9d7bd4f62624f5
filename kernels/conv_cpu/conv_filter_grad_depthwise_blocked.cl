/* conv_filter_grad_depthwise_blocked.cl: the gradient of depthwise filters, one a channel, from maps with channels in
 * blocks, for CPU devices.
 *
 *   dw[c][0][t][r][s] = sum_{n,od,oh,ow} dy[n][c][od][oh][ow]
 *                                        * x[n][c][od*sd - pd + t*dd][oh*sh - ph + r*dh][ow*sw - pw + s*dw]
 *
 * Layouts: x, dy [ceil(C/V)][D][H][W][V] with batch strides; sums [parts][ceil(C/V)][T][R][S][V]; dw [C][T][R][S].
 * Order: an image of dy has D*H lines. A part of all lines is added up in ascending order, COLUMNS taps of a row at a
 * time; `join` adds the parts up in ascending order.
 * Index map: main: group = part * blocks + block. join: group = block.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; COLUMNS a divisor of S. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/filter_grad_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_filter_grad_depthwise_blocked_##x
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif

/* The first pixel of a line, and the one after the last, that a tap at `column` meets inside the image. */
int FN(first)(int column, const struct filter_grad_args *a)
{
    return column < 0 ? (-column + a->stride[2] - 1) / a->stride[2] : 0;
}

int FN(past)(int column, const struct filter_grad_args *a)
{
    return min(a->out[2], column < a->in[2] ? (a->in[2] - 1 - column) / a->stride[2] + 1 : 0);
}

/* Adds the pixels of a line to COLUMNS taps, the first of which is s; x: the row of the image under it. */
void FN(row)(SRC x, SRC dy, DST sums, int s, const struct filter_grad_args *a)
{
    const int column = s * a->dil[2] - a->pad[2], apart = a->dil[2] * V, step = a->stride[2] * V;
    const int last = column + (COLUMNS - 1) * a->dil[2];
    const int from = FN(first)(column, a), past = max(from, FN(past)(last, a)); /* pixels that all taps meet */
    FV acc[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        acc[i] = LOADV(sums, i * V);
    for (int i = 1; i < COLUMNS; i++)
        for (int w = FN(first)(column + i * a->dil[2], a); w < min(from, FN(past)(column + i * a->dil[2], a)); w++)
            acc[i] = fma(LOADV(x, (long)w * step + column * V + i * apart), LOADV(dy, w * V), acc[i]);
#pragma unroll 1
    for (int w = from; w < past; w++) {
        const FV slope = LOADV(dy, w * V);
        SRC at = x + (long)w * step + column * V;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            acc[i] = fma(LOADV(at, i * apart), slope, acc[i]);
    }
    for (int i = 0; i < COLUMNS - 1; i++)
        for (int w = past; w < FN(past)(column + i * a->dil[2], a); w++)
            acc[i] = fma(LOADV(x, (long)w * step + column * V + i * apart), LOADV(dy, w * V), acc[i]);
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        STOREV(acc[i], sums, i * V);
}

void FN(body)(ulong group, SRC x, SRC dy, DST sums, const struct filter_grad_args *a)
{
    const int blocks = (a->c + V - 1) / V, block = (int)(group % blocks), part = (int)(group / blocks);
    const long lines = (long)a->n * a->out[0] * a->out[1], row = (long)a->in[2] * V;
    const int begin = (int)(lines * part / a->parts), end = (int)(lines * (part + 1) / a->parts);
    const int rows = a->ker[0] * a->ker[1];
    SRC xb = x + (long)block * a->in[0] * a->in[1] * row;
    SRC db = dy + (long)block * a->out[0] * a->out[1] * a->out[2] * V;
    DST at = sums + group * rows * a->ker[2] * V;
    for (int i = 0; i < rows * a->ker[2]; i++)
        STOREV((FV)0.0f, at, i * V);
    for (int line = begin; line < end; line++) {
        const int oh = line % a->out[1], od = line / a->out[1] % a->out[0];
        const long n = line / a->out[1] / a->out[0];
        SRC dl = db + n * a->dst_n + ((long)od * a->out[1] + oh) * a->out[2] * V;
        for (int tr = 0; tr < rows; tr++) {
            const int id = od * a->stride[0] - a->pad[0] + tr / a->ker[1] * a->dil[0];
            const int ih = oh * a->stride[1] - a->pad[1] + tr % a->ker[1] * a->dil[1];
            if (id >= 0 && id < a->in[0] && ih >= 0 && ih < a->in[1])
                for (int s = 0; s < a->ker[2]; s += COLUMNS)
                    FN(row)(xb + n * a->src_n + ((long)id * a->in[1] + ih) * row, dl, at + (tr * a->ker[2] + s) * V, s,
                            a);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST sums, ulong sums_off, const struct filter_grad_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, sums + sums_off, &a);
}

void FN(join_body)(ulong group, SRC sums, DST dw, const struct filter_grad_args *a)
{
    const int taps = a->ker[0] * a->ker[1] * a->ker[2], c = (int)group * V, count = min(V, a->c - c);
    const long part = (long)((a->c + V - 1) / V) * taps * V;
    for (int tap = 0; tap < taps; tap++) {
        const long from = ((long)group * taps + tap) * V;
        FV sum = LOADV(sums, from);
        for (int p = 1; p < a->parts; p++)
            sum += LOADV(sums, from + p * part);
        float lanes[V];
        KEEPV(sum, lanes, 0);
        for (int i = 0; i < count; i++)
            dw[(c + i) * a->w_k + tap] = lanes[i];
    }
}

KERNEL FN(join)(SRC sums, ulong sums_off, DST dw, ulong dw_off, const struct filter_grad_args a)
{
    FN(join_body)(GROUP, sums + sums_off, dw + dw_off, &a);
}
