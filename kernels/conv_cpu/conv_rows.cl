/* conv_rows.cl: 2-D convolution for CPU devices: a work-item is one register tile.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * Tile: T pixels of an output row by KV float16 of filters (conv_rows.clh).
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl, filters innermost:
 * [groups][blocks][C/groups][R][S][KV*16], where blocks = ceil(K/groups / (KV*16)) and missing filters are
 * zeros.
 * Index map: group = ((block of filters * N + n) * P + oh) * ceil(Q/T) + tile of the row.
 * Work-group: WG = 1. Local memory: none.
 * Defines: T, KV, ROW (conv_rows.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_rows_##x
#endif
#include "common/columns.clh"
#include "conv_cpu/conv_rows.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int tiles = (a->out[2] + T - 1) / T;
    const int ow = (int)(group % tiles) * T;
    ulong rest = group / tiles;
    const int oh = (int)(rest % a->out[1]);
    rest /= a->out[1];
    const int n = (int)(rest % a->n);
    const int block = (int)(rest / a->n);
    const int cg = a->c / a->groups, kg = a->k / a->groups;
    const int blocks = (kg + KV * 16 - 1) / (KV * 16);
    const int g = block / blocks;
    const int k0 = block % blocks * (KV * 16); /* first filter within its group */
    SRC wp = w + (long)block * cg * a->ker[1] * a->ker[2] * (KV * 16);

    float tile[T][KV * 16];
    FN(tile)(tile, x + n * a->src_n, wp, g, oh * a->stride[1] - a->pad[1], ow * a->stride[2] - a->pad[2], a);

    /* Filters become rows of the output. */
    const int pixels = min(T, a->out[2] - ow), filters = min(KV * 16, kg - k0);
    for (int k = 0; k < filters; k++) {
        const int kk = g * kg + k0 + k;
        const long i = ((long)kk * a->out[1] + oh) * a->out[2] + ow;
        for (int t = 0; t < pixels; t++)
            y[n * a->dst_n + i + t] = EPILOGUE(tile[t][k], bias, kk, add, n * a->add_n + i + t, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
