/* conv_pool_rows.cl: 2-D convolution, epilogue and pooling for CPU devices: a work-item is one register tile,
 * whose rows are computed one after the other and pooled before anything is stored.
 *
 *   y[n][k][ph][pw] = max or mean over i < PH, j < PW of m[n][k][ph * PH + i][pw * PW + j]
 *   m[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * NaN wins a maximum. What lies beyond the last whole window is not computed.
 * Tile: PH rows of T pixels by KV float16 of filters (conv_rows.clh); they make T/PW pixels of y.
 * Layouts: x, y, add NCHW with batch strides, add of the convolution's size; w packed by conv_pack.cl,
 * filters innermost: [groups][blocks][C/groups][R][S][KV*16], where blocks = ceil(K/groups / (KV*16)) and
 * missing filters are zeros.
 * Index map: group = ((block of filters * N + n) * rows of y + ph) * ceil(columns of y / (T/PW)) + tile of
 * the row.
 * Work-group: WG = 1. Local memory: none.
 * Defines: T (a multiple of PW), KV, ROW (conv_rows.clh), PH, PW, AVG (conv_pool.clh), EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "fused/conv_pool_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_pool_rows_##x
#endif
#include "common/columns.clh"
#include "conv_cpu/conv_rows.clh"
#include "fused/conv_pool.clh"
#if T % PW
#error "a tile must hold whole windows: T must be a multiple of PW"
#endif
#define WINDOWS (T / PW)

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_pool_args *p)
{
    const struct conv_args *a = &p->conv;
    const int tiles = (p->pooled[1] + WINDOWS - 1) / WINDOWS;
    const int pw = (int)(group % tiles) * WINDOWS;
    ulong rest = group / tiles;
    const int ph = (int)(rest % p->pooled[0]);
    rest /= p->pooled[0];
    const int n = (int)(rest % a->n);
    const int block = (int)(rest / a->n);
    const int cg = a->c / a->groups, kg = a->k / a->groups;
    const int blocks = (kg + KV * 16 - 1) / (KV * 16);
    const int g = block / blocks;
    const int k0 = block % blocks * (KV * 16); /* first filter within its group */
    const int windows = min(WINDOWS, p->pooled[1] - pw), filters = min(KV * 16, kg - k0);
    SRC wp = w + (long)block * cg * a->ker[1] * a->ker[2] * (KV * 16);

    float pooled[WINDOWS][KV * 16];
    for (int q = 0; q < WINDOWS; q++)
        for (int k = 0; k < KV * 16; k++)
            pooled[q][k] = POOL_START;
    for (int i = 0; i < PH; i++) {
        const int oh = ph * PH + i, ow = pw * PW;
        float tile[T][KV * 16];
        FN(tile)(tile, x + n * a->src_n, wp, g, oh * a->stride[1] - a->pad[1], ow * a->stride[2] - a->pad[2], a);
        for (int t = 0; t < windows * PW; t++)
            for (int k = 0; k < filters; k++) {
                const int kk = g * kg + k0 + k;
                const float m = EPILOGUE(tile[t][k], bias, kk, add,
                                         n * a->add_n + ((long)kk * a->out[1] + oh) * a->out[2] + ow + t, a);
                pooled[t / PW][k] = POOL(pooled[t / PW][k], m);
            }
    }
    for (int k = 0; k < filters; k++) {
        DST row = y + n * a->dst_n + ((long)(g * kg + k0 + k) * p->pooled[0] + ph) * p->pooled[1] + pw;
        for (int q = 0; q < windows; q++)
            row[q] = POOL_END(pooled[q][k]);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_pool_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
