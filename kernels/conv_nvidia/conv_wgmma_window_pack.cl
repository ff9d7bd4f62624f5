/* conv_wgmma_window_pack.cl: filters of 3x3 convolutions as cores of Hopper's tensor cores, for conv_wgmma_window.cl.
 *
 *   dst[b][q][r][s][h][p][j][f][i][e] = part p of w[BM*b + 8*j + i][16*q + 8*h + 4*f + e][r][s]
 *
 * for blocks b of BM filters, chunks q of WINDOW_CHANNELS channels, tap r, s. With PRODUCTS 3 part 0 is a tf32 and part
 * 1 what it leaves out; with PRODUCTS 1 there is one part, the nearest tf32. Zeros where there is no such filter.
 * Work-group: WG filters' values of part 0. Local memory: none. Defines: WG (any), BM (a multiple of 8), PRODUCTS 1 or
 * 3 (default). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_wgmma_window_pack_##x
#endif
#ifndef BM
#define BM 32
#endif
#ifndef PRODUCTS
#define PRODUCTS 3
#endif
#define ROW (3 * WINDOW_CHANNELS * BM) /* values of a row of taps */
#define PARTS (PRODUCTS == 3 ? 2 : 1)

void FN(body)(ulong group, SRC w, DST dst, const struct conv_window_pack_args *a)
{
    const long i = (long)group * WG + LANE, rows = i / ROW;
    const int chunks = a->c / WINDOW_CHANNELS, inside = (int)(i % ROW), b = (int)(rows / 3 / chunks);
    if (b < (a->k + BM - 1) / BM) {
        const int s = inside / (WINDOW_CHANNELS * BM), h = inside / (BM * 8) % 2;
        const int k = b * BM + inside % (BM * 8) / 64 * 8 + inside / 4 % 8;
        const int c = (int)(rows / 3 % chunks) * WINDOW_CHANNELS + h * 8 + inside / 32 % 2 * 4 + inside % 4;
        const float v = k < a->k ? w[k * a->w_k + c * 9 + (int)(rows % 3) * 3 + s] : 0.0f;
        const uint bits = as_uint(v);
        DST to = dst + rows * (ROW * PARTS) + inside / (BM * 8) * (PARTS * BM * 8) + inside % (BM * 8);
#if PRODUCTS == 3
        const float high = isfinite(v) ? as_float(bits & 0xffffe000u) : v;
        to[0] = high;
        to[BM * 8] = isfinite(v) ? v - high : 0.0f;
#else
        to[0] = isnan(v) ? v : as_float((bits + 0x1000u) & 0xffffe000u);
#endif
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_window_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
