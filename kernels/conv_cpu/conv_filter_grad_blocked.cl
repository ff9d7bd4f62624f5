/* conv_filter_grad_blocked.cl: the gradient of filters from maps with channels in blocks, for CPU devices: sums of CT
 * channels by KV vectors of filters stay in registers while the pixels of some rows go by.
 *
 *   dw[k][c][t][r][s] = sum_{n,od,oh,ow} dy[n][k][od][oh][ow]
 *                                        * x[n][g*C/g + c][od*sd - pd + t*dd][oh*sh - ph + r*dh][ow*sw - pw + s*dw]
 *
 * Layouts: x, dy [ceil(C/V)][D][H][W][V] with batch strides; sums [parts][tiles of
 * filters][c_tiles][T][R][S][CT][KV*V]; dw [K][C/groups][T][R][S].
 * Tiles: filters come in `bands` of band_k, which share their channels: all filters, or those of a group, or one vector
 * where groups are no whole blocks. A band has band_tiles tiles of KV vectors, and each of these c_tiles tiles of CT
 * channels, from those of the band's first group on. Products of a filter with other groups' channels are left out in
 * the end.
 * Order: an image of dy has D*H lines. A part of all lines is added up in ascending order, `span` of them at a time for
 * all tiles, and of these `rows` for all taps; `join` adds the parts up in ascending order.
 * Index map: main: group = part * shares + share; a work-item computes one of `shares` shares of the tiles of filters.
 * join: group = (tile of filters * KV + vector) * c_tiles + tile of channels.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; CT a divisor of V, or C or more; KV (CT * KV + KV + 1 vector registers). */
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
#define FN(x) conv_filter_grad_blocked_##x
#endif
#ifndef CT
#define CT 8
#endif
#ifndef KV
#define KV 3
#endif
#define TAPS 32 /* whose sums `join` holds */

/* First filter and channel of a tile. */
int FN(filter)(int tile, const struct filter_grad_args *a)
{
    return tile / a->band_tiles * a->band_k + tile % a->band_tiles * (KV * V);
}

int FN(channel)(int tile, int c_tile, const struct filter_grad_args *a)
{
    return tile / a->band_tiles * a->band_k / a->kg * a->cg / CT * CT + c_tile * CT;
}

/* Adds the lines [line, past) to the sums of tap t, r, s: of the filters at dy on, KV vectors `vectors` apart, and the
 * channels at x on. */
void FN(tap)(SRC x, SRC dy, DST sums, bool begins, int line, int past, int t, int r, int s, const long *vectors,
             const struct filter_grad_args *a)
{
    const int column = s * a->dil[2] - a->pad[2], stride = a->stride[2];
    const int first = column < 0 ? (-column + stride - 1) / stride : 0;
    const int end = min(a->out[2], column < a->in[2] ? (a->in[2] - 1 - column) / stride + 1 : 0);
    const int step = stride * V;
    int oh = line % a->out[1], od = line / a->out[1] % a->out[0], n = line / a->out[1] / a->out[0];
    FV acc[CT][KV];
#pragma unroll
    for (int c = 0; c < CT; c++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[c][v] = begins ? (FV)0.0f : LOADV(sums, (c * KV + v) * V);
    for (; line < past; line++) {
        const int ih = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
        const int id = od * a->stride[0] - a->pad[0] + t * a->dil[0];
        if (ih >= 0 && ih < a->in[1] && id >= 0 && id < a->in[0]) {
            SRC xp = x + n * a->src_n + (((long)id * a->in[1] + ih) * a->in[2] + first * stride + column) * V;
            SRC dp = dy + n * a->dst_n + (((long)od * a->out[1] + oh) * a->out[2] + first) * V;
#pragma unroll 1
            for (int w = first; w < end; w++, xp += step, dp += V) {
                FV slope[KV];
#pragma unroll
                for (int v = 0; v < KV; v++)
                    slope[v] = LOADV(dp, vectors[v]);
#pragma unroll
                for (int c = 0; c < CT; c++) {
                    const FV value = xp[c];
#pragma unroll
                    for (int v = 0; v < KV; v++)
                        acc[c][v] = fma(value, slope[v], acc[c][v]);
                }
            }
        }
        if (++oh == a->out[1]) {
            oh = 0;
            if (++od == a->out[0]) {
                od = 0;
                n++;
            }
        }
    }
#pragma unroll
    for (int c = 0; c < CT; c++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            STOREV(acc[c][v], sums, (c * KV + v) * V);
}

void FN(body)(ulong group, SRC x, SRC dy, DST sums, const struct filter_grad_args *a)
{
    const int share = (int)(group % a->shares), part = (int)(group / a->shares), tiles = a->bands * a->band_tiles;
    const long lines = (long)a->n * a->out[0] * a->out[1];
    const int from = (int)(lines * part / a->parts), past = (int)(lines * (part + 1) / a->parts);
    const int low = (int)((long)tiles * share / a->shares), high = (int)((long)tiles * (share + 1) / a->shares);
    const long x_map = (long)a->in[0] * a->in[1] * a->in[2] * V, dy_map = (long)a->out[0] * a->out[1] * a->out[2] * V;
    const int taps = a->ker[0] * a->ker[1] * a->ker[2], blocks = (a->k + V - 1) / V;
    for (int line = from; line < past; line += a->span)
        for (int tile = low; tile < high; tile++) {
            const int block = FN(filter)(tile, a) / V;
            long vectors[KV];
#pragma unroll
            for (int v = 0; v < KV; v++)
                vectors[v] = (min(block + v, blocks - 1) - block) * dy_map;
            for (int ct = 0; ct < a->c_tiles; ct++) {
                const int c = FN(channel)(tile, ct, a);
                DST at = sums + (((long)part * tiles + tile) * a->c_tiles + ct) * taps * (CT * KV * V);
                for (int begin = line; c < a->c && begin < min(line + a->span, past); begin += a->rows)
                    for (int tap = 0; tap < taps; tap++)
                        FN(tap)(x + c / V * x_map + c % V, dy + block * dy_map, at + tap * (CT * KV * V), begin == from,
                                begin, min(min(begin + a->rows, line + a->span), past), tap / a->ker[2] / a->ker[1],
                                tap / a->ker[2] % a->ker[1], tap % a->ker[2], vectors, a);
            }
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST sums, ulong sums_off, const struct filter_grad_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, sums + sums_off, &a);
}

void FN(join_body)(ulong group, SRC sums, DST dw, const struct filter_grad_args *a)
{
    const int ct = (int)(group % a->c_tiles), v = (int)(group / a->c_tiles % KV), tile = (int)(group / a->c_tiles / KV);
    const int first = FN(filter)(tile, a), k = first + v * V, c = FN(channel)(tile, ct, a);
    const int taps = a->ker[0] * a->ker[1] * a->ker[2];
    const long part = (long)a->bands * a->band_tiles * a->c_tiles * taps * (CT * KV * V);
    const int filters = min(min(V, a->k - k), tile / a->band_tiles * a->band_k + a->band_k - k);
    SRC at = sums + (group / a->c_tiles / KV * a->c_tiles + ct) * taps * (CT * KV * V) + v * V;
    int base[V]; /* the first channel of each filter's group */
    for (int j = 0; j < filters; j++)
        base[j] = (k + j) / a->kg * a->cg;
    const int all = min(CT, a->c - c) * taps; /* of a filter side by side, unless some are of other groups */
    for (int from = 0, i = 0, tap = 0; from < all; from += TAPS) {
        float sums_of[TAPS * V];
        const int past = min(from + TAPS, all);
        for (int q = from; q < past; q++) {
            const long place = (tap * CT + i) * (KV * V);
            FV sum = LOADV(at, place);
            for (int p = 1; p < a->parts; p++)
                sum += LOADV(at, place + p * part);
            KEEPV(sum, sums_of, (q - from) * V);
            if (++tap == taps) {
                tap = 0;
                i++;
            }
        }
        for (int j = 0; j < filters; j++) {
            const int own = (base[j] - c) * taps, end = min(past, own + a->cg * taps);
            DST to = dw + (k + j) * a->w_k - own;
            for (int q = max(from, own); q < end; q++)
                to[q] = sums_of[(q - from) * V + j];
        }
    }
}

KERNEL FN(join)(SRC sums, ulong sums_off, DST dw, ulong dw_off, const struct filter_grad_args a)
{
    FN(join_body)(GROUP, sums + sums_off, dw + dw_off, &a);
}
