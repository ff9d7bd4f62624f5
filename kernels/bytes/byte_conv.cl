/* byte_conv.cl: convolution of maps of bytes by dot products of four bytes, for CPU devices: a work-item computes
 * register tiles.
 *
 *   s[n][k][oh][ow] = bias[k] + sum_{c,r,s} (x[n][c][oh*sh + r*dh][ow*SW + s*dw] - x_zero) * w[k][c][r][s]
 *   y = limit(round(factor[k] * s), 0 to 255 after adding zero), or of that and a map: limit(round(own*y + other*add +
 *   shift))
 *
 * Layouts: x [C/B][H][W][B], B = 4 * Q, rows `row` and blocks `plane` bytes apart, which has its border already; y and
 * add [K/16][H][W][16]; w packed by byte_conv_pack.cl: [blocks of KV*16 filters][C/B][R][S][Q][KV][16][4], then the sum
 * of each filter (int).
 * Index map: group = ((first of `together` items * blocks of filters + block) * those items + item) * chunks + chunk; a
 * work-item computes the tiles chunk * per_item ... of an item's rows. The last tile of a row overlaps its neighbour.
 * Work-group: WG = 1. Local memory: none.
 * Defines: T pixels of a tile, at most those of a row; KV vectors of filters (T * KV + KV + 1 vector registers); SW
 * stride along a row; Q groups of four channels in a block, 4 or 1; DOTS, ADD (bytes.clh). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_conv_##x
#endif
#include "bytes/bytes.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef SW
#define SW 1
#endif
#ifndef Q
#define Q 4
#endif

/* The tile whose input begins at x, for filters from k on; y and add: where its first pixel has them. */
void FN(tile)(SRC_OF(uchar) x, SRC_OF(char) w, const int16 *begin, SRC factor, SRC_OF(uchar) add, DST_OF(uchar) y,
              int k, const struct byte_conv_args *a)
{
    int16 acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = begin[v];
    for (int cb = 0; cb < a->c_blocks; cb++, x += a->plane)
        for (int r = 0; r < a->ker[0]; r++) {
            SRC_OF(uchar) src = x + (long)(r * a->dil[0]) * a->row;
            for (int s = 0; s < a->ker[1]; s++, src += a->dil[1] * (4 * Q))
#pragma unroll
                for (int q = 0; q < Q; q++, w += KV * 64) {
                    IN_ORDER
                    int16 filters[KV];
#pragma unroll
                    for (int v = 0; v < KV; v++)
                        filters[v] = *(const global unaligned_int16 *)(w + v * 64);
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        const int16 four = *(const global int *)(src + (t * SW * Q + q) * 4);
#pragma unroll
                        for (int v = 0; v < KV; v++)
                            DOT(acc[t][v], four, filters[v]);
                    }
                }
        }
    const struct byte_steps steps = a->steps; /* copies: stores of y cannot change them */
#pragma unroll
    for (int v = 0; v < KV; v++)
        if (k + v * 16 < steps.filters) {
            const float16 f = FN(factors)(factor, k + v * 16, &steps);
            const long at = v * a->out_plane;
#if T < 4
#pragma unroll
            for (int t = 0; t < T; t++)
                FN(store_pixel)(acc[t][v], f, add, y, at + t * 16, &steps);
#else
#pragma unroll
            for (int t = 0; t < T; t += 4) { /* the last four may overlap those before */
                const int from = t + 4 <= T ? t : T - 4;
                FN(store_pixels)(&acc[from][v], KV, f, add, y, at + from * 16, &steps);
            }
#endif
        }
}

void FN(body)(ulong group, SRC_OF(uchar) x, SRC_OF(char) w, SRC factor, SRC bias, SRC_OF(uchar) add, DST_OF(uchar) y,
              const struct byte_conv_args *a)
{
    const int chunk = (int)(group % (ulong)a->chunks);
    const long part = (long)(group / (ulong)a->chunks), of = (long)a->together * a->k_blocks;
    const int n = (int)(part / of) * a->together + (int)(part % a->together);
    const int block = (int)(part % of / a->together), k = block * (KV * 16);
    const long per_block = (long)a->c_blocks * a->ker[0] * a->ker[1] * (Q * KV * 64);
    const global int *totals = (const global int *)(w + per_block * a->k_blocks) + k;
    const long first = FN(first_block)(k, a->k_group, a->c_group, 4 * Q, a->last);
    int16 begin[KV];
    for (int v = 0; v < KV; v++)
        begin[v] =
            FN(biases)(bias, k + v * 16, &a->steps) - a->x_zero * *(const global unaligned_int16 *)(totals + v * 16);
    const int per_row = (a->out[1] + T - 1) / T, end = min((chunk + 1) * a->per_item, per_row * a->out[0]);
    for (int i = chunk * a->per_item; i < end; i++) {
        const int oh = i / per_row, ow = min(i % per_row * T, a->out[1] - T);
        const long at = (long)block * KV * a->out_plane + ((long)oh * a->out[1] + ow) * 16;
        FN(tile)(x + n * a->src_n + first * a->plane + (long)(oh * a->stride) * a->row + (long)(ow * SW) * (4 * Q),
                 w + block * per_block, begin, factor, add + n * a->add_n + at, y + n * a->dst_n + at, k, a);
    }
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, SRC_OF(char) w, ulong w_off, SRC factor, ulong factor_off, SRC bias,
                ulong bias_off, SRC_OF(uchar) add, ulong add_off, DST_OF(uchar) y, ulong y_off,
                const struct byte_conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, factor + factor_off, bias + bias_off, add + add_off, y + y_off, &a);
}
