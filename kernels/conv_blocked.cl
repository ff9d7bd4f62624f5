/* conv_blocked.cl: 2-D convolution of maps with channels in blocks, for CPU devices: a work-item computes register tiles.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/B)][H][W][B] with batch strides; w packed by conv_pack.cl:
 * [groups][K/groups/(KV*B)][C/groups/B][R][S][B][KV*B], zeros for missing filters and channels. C/groups and K/groups are
 * multiples of B when there are groups; lanes of y past K are written as zeros.
 * Tile: T pixels of an output row by KV vectors of B filters, accumulators in registers. DIRECT: the tile's input is read
 * where it lies (no padding, rows of at least T pixels: the last tile of a row overlaps its neighbour and stores what is
 * new). Otherwise the columns that the taps of a row need are first copied, zeros outside the image, to a private row.
 * Index map: group = (block of filters * N + n) * chunks + chunk; a work-item computes the tiles chunk * per_item ... of the
 * output's rows, for one block of filters: its weights stay in the cache.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector registers);
 * SW stride along a row; DIRECT 0 or 1; ROW columns of the private row; EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#include "vec.clh"
#ifndef FN
#define FN(x) conv_blocked_##x
#endif
#include "activation_vec.clh"
#include "blocked_store.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef SW
#define SW 1
#endif
#ifndef DIRECT
#define DIRECT 0
#endif
#ifndef ROW
#define ROW 128
#endif

/* One tile: x of the group's first channel block, w of the block of filters; kk the first filter. */
void FN(tile)(SRC x, SRC w, SRC bias, SRC add, DST y, int kk, int oh, int ow, const struct conv_blocked_args *a)
{
    const long plane = (long)a->in[0] * a->in[1] * V;
#if DIRECT
    const int first = min(ow, a->out[1] - T); /* the last tile starts earlier */
    const int col = first * SW;
#else
    const int first = ow;
    const int col = ow * SW - a->pad[1];
    const int cols = (T - 1) * SW + (a->ker[1] - 1) * a->dil[1] + 1;
    const int left = min(max(-col, 0), cols), right = min(cols, a->in[1] - col); /* columns [left, right) exist */
    float copy[ROW * V] __attribute__((aligned(64)));
    for (int j = 0; j < left; j++)
        STOREV((FV)0.0f, copy, j * V);
    for (int j = max(right, left); j < cols; j++)
        STOREV((FV)0.0f, copy, j * V);
#endif
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = 0.0f;
    for (int cb = 0; cb < a->c_blocks; cb++, x += plane)
        for (int r = 0; r < a->ker[0]; r++, w += a->ker[1] * (V * KV * V)) {
            const int ih = oh * a->stride - a->pad[0] + r * a->dil[0];
            if (ih < 0 || ih >= a->in[0])
                continue;
            SRC src = x + ((long)ih * a->in[1] + col) * V;
#if DIRECT
            SRC row = src;
#else
            for (int j = left; j < right; j++)
                STOREV(LOADV(src, j * V), copy, j * V);
            const float *row = copy;
#endif
            SRC wp = w;
            for (int s = 0; s < a->ker[1]; s++, row += a->dil[1] * V)
#pragma unroll 1
                for (int c = 0; c < V; c++, wp += KV * V) {
                    FV f[KV];
#pragma unroll
                    for (int v = 0; v < KV; v++)
                        f[v] = LOADV(wp, v * V);
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        const FV value = row[t * SW * V + c];
#pragma unroll
                        for (int v = 0; v < KV; v++)
                            acc[t][v] = fma(value, f[v], acc[t][v]);
                    }
                }
        }

    /* Out of the registers, so that the epilogue is compiled once. */
    float sums[KV][T * V] __attribute__((aligned(64)));
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            STOREV(acc[t][v], sums[v], t * V);
    const long out_plane = (long)a->out[0] * a->out[1] * V;
    const int end = min(T, a->out[1] - first);
    for (int v = 0, k = kk; v < KV && k < a->k; v++, k += V) {
        const long i = k / V * out_plane + ((long)oh * a->out[1] + first) * V;
        const FV b = FN(bias)(bias, k, a->k);
        for (int t = ow - first; t < end; t++)
            FN(store)(LOADV(sums[v], t * V), b, add, y, i + t * V, a->k - k, a->p0, a->p1);
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_blocked_args *a)
{
    const int chunk = (int)(group % a->chunks);
    const ulong rest = group / a->chunks;
    const int n = (int)(rest % a->n), block = (int)(rest / a->n);
    const int g = block / a->k_blocks; /* of groups > 1, whose blocks are full */
    const int kk = g * a->kg + block % a->k_blocks * (KV * V);
    const int tiles = (a->out[1] + T - 1) / T;
    const int begin = chunk * a->per_item, end = min(begin + a->per_item, tiles * a->out[0]);
    int oh = begin / tiles, ow = begin % tiles * T;
    SRC xn = x + n * a->src_n + (long)g * a->c_blocks * a->in[0] * a->in[1] * V;
    SRC wp = w + (long)block * a->c_blocks * a->ker[0] * a->ker[1] * (V * KV * V);
    for (int i = begin; i < end; i++) {
        FN(tile)(xn, wp, bias, add + n * a->add_n, y + n * a->dst_n, kk, oh, ow, a);
        ow += T;
        if (ow >= a->out[1]) {
            ow = 0;
            oh++;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
