/* conv_sparse_mask.cl: convolution of maps with channels in blocks that computes only what is not zero, for CPU
 * devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * A step of its own makes a mask of V bits of each pixel and block of channels. The other one walks the bits: a value
 * that is not zero is multiplied by KV vectors of filters for each of the S pixels of a row that it counts for, whose
 * sums are in registers; it moves on with them, pixel by pixel. The sums of all rows of a tile are kept in memory
 * meanwhile. Channel blocks and rows of taps are outermost, so that their weights stay in the first cache for a tile.
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; masks [N][ceil(C/V)][H][W] of 16 bits; w packed by
 * conv_pack.cl: [groups][blocks of KV*V filters][C/groups][R][S][KV*V], zeros for missing filters. Lanes of y past K
 * are written as zeros. Groups, where there are several, are whole blocks.
 * Index map: masks: group = a run of `run` pixels, of n and block of channels. main: group = (blocks of filters of all
 * groups * N + n) * tiles + tile, tiles of `rows` rows by `columns` columns.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; S columns of the window, KV vectors of filters (S * KV + 1 vector
 * registers); SW stride along a row, 1 unless S is; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_sparse_mask_##x
#endif
#include "common/activation_vec.clh"
#include "common/bits.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#ifndef S
#define S 3
#endif
#ifndef KV
#define KV 8
#endif
#ifndef SW
#define SW 1
#endif
#define EXTRA (2 * (S - 1)) /* pixels beside a row of a tile, on both sides, whose sums are of no use */
#define WIDTH (KV * V)      /* filters of a block */

/* Adds to what is counted; the last of the groups says which form computes the layer, and leaves zeros. */
void FN(judge)(volatile global uint *counts, global uint *verdict, uint found, uint groups, long most)
{
    atomic_add(counts, found);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (atomic_inc(counts + 1) == groups - 1) {
        verdict[0] = atomic_xchg(counts, 0) <= most;
        verdict[1] = !verdict[0];
        atomic_xchg(counts + 1, 0);
    }
}

void FN(masks_body)(ulong group, SRC x, DST masks, DST counts, DST verdict, const struct conv_sparse_args *a)
{
    const int pixels = a->in[0] * a->in[1], runs = (pixels + a->run - 1) / a->run;
    const int blocks = a->c_blocks * a->groups, begin = (int)(group % runs) * a->run;
    const long map = group / runs;
    const int n = (int)(map / blocks), cb = (int)(map % blocks), end = min(begin + a->run, pixels);
    const int left = a->cg * a->groups - cb * V; /* lanes past the last channel hold anything */
    const uint there = left < V ? (1u << left) - 1 : (1u << V) - 1;
    SRC xb = x + n * a->src_n + (long)cb * pixels * V;
    global ushort *m = (global ushort *)masks + map * pixels;
    uint found = 0;
    for (int i = begin; i < end; i++) {
        m[i] = (ushort)(there & (a->skip ? FN(live_lanes)(VEC_CAT(as_int, V)(LOADV(xb, i * V))) : ~0u));
        found += popcount((uint)m[i]);
    }
    if (a->most >= 0)
        FN(judge)((global uint *)counts, (global uint *)verdict, found, (uint)(a->n * blocks * runs), a->most);
}

/* Adds to the sums of a row of a tile what a row of x gives by a row of taps, w; `from` up to `past`: steps of SW
 * columns from the first one under the tile on, of which x and masks are the first. */
void FN(row)(SRC x, const global ushort *masks, SRC w, long w_step, float *sums, int from, int past)
{
    FV acc[S][KV];
    float *at = sums + from * WIDTH;
#pragma unroll
    for (int s = 1; s < S; s++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[s][v] = LOADV(at, (S - 1 - s) * WIDTH + v * V);
    for (int i = from; i < past; i++, at += WIDTH) {
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[0][v] = LOADV(at, (S - 1) * WIDTH + v * V);
        for (uint left = masks[i * SW]; left; left &= left - 1) {
            const int c = FIRST_BIT(left);
            const FV value = x[i * (SW * V) + c];
            SRC wc = w + c * w_step;
#pragma unroll
            for (int s = 0; s < S; s++)
#pragma unroll
                for (int v = 0; v < KV; v++)
                    acc[s][v] = fma(value, LOADV(wc, s * WIDTH + v * V), acc[s][v]);
        }
#pragma unroll
        for (int v = 0; v < KV; v++)
            KEEPV(acc[S - 1][v], at, v * V);
#pragma unroll
        for (int s = S - 1; s > 0; s--)
#pragma unroll
            for (int v = 0; v < KV; v++)
                acc[s][v] = acc[s - 1][v];
    }
#pragma unroll
    for (int s = 1; s < S; s++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            KEEPV(acc[s][v], at, (S - 1 - s) * WIDTH + v * V);
}

/* Steps of SW columns from `from` to 0, at least 0. */
#define STEPS(from) (max(from, 0) + SW - 1) / SW

void FN(body)(ulong group, SRC x, SRC masks, SRC w, SRC bias, SRC add, DST y, const struct conv_sparse_args *a)
{
    const int wide = (a->out[1] + a->columns - 1) / a->columns, tiles = (a->out[0] + a->rows - 1) / a->rows * wide;
    const int tile = (int)(group % tiles), n = (int)(group / tiles % a->n), block = (int)(group / tiles / a->n);
    const int g = block / a->k_blocks, k0 = g * a->kg + block % a->k_blocks * WIDTH, past_k = (g + 1) * a->kg;
    const int oh = tile / wide * a->rows, ow = tile % wide * a->columns;
    const int rows = min(a->rows, a->out[0] - oh), columns = min(a->columns, a->out[1] - ow);
    const int pitch = (a->columns + EXTRA) * WIDTH, plane = a->in[0] * a->in[1];
    const int col = ow * SW - a->pad[1], from = STEPS(-col), past = min(columns + S - 1, STEPS(a->in[1] - col));
    const long w_step = (long)a->ker * (S * WIDTH);
    SRC wb = w + (long)block * a->cg * w_step;
    SRC xn = x + n * a->src_n;
    const global ushort *mn = (const global ushort *)masks + (long)n * a->groups * a->c_blocks * plane;
    float sums[SPARSE_MASK_PIXELS * WIDTH] __attribute__((aligned(64)));
    for (int i = 0; i < rows * pitch; i += V)
        KEEPV((FV)0.0f, sums, i);
    for (int cb = 0; cb < a->c_blocks; cb++, wb += V * w_step)
        for (int r = 0; r < a->ker; r++)
            for (int row = 0; row < rows; row++) {
                const int ih = (oh + row) * a->stride - a->pad[0] + r * a->dil;
                if (ih >= 0 && ih < a->in[0]) {
                    const long at = (long)(g * a->c_blocks + cb) * plane + ih * a->in[1] + col;
                    FN(row)(xn + at * V, mn + at, wb + r * (S * WIDTH), w_step, sums + row * pitch, from, past);
                }
            }
    const long map = (long)a->out[0] * a->out[1] * V;
    for (int v = 0; v < KV && k0 + v * V < past_k; v++) {
        const int k = k0 + v * V;
        /* never -0, which would show the sign of a sum of zeros */
        const FV b = FN(bias)(bias, k, a->k, &a->epi) + 0.0f;
        for (int row = 0; row < rows; row++) {
            const float *from_sums = sums + row * pitch + (S - 1) * WIDTH + v * V;
            const long at = k / V * map + ((long)(oh + row) * a->out[1] + ow) * V;
            for (int i = 0; i < columns; i++)
                FN(store)(LOADV(from_sums, i * WIDTH), b, add + n * a->add_n, y + n * a->dst_n, at + i * V, a->k - k,
                          &a->epi);
        }
    }
}

KERNEL FN(masks)(SRC x, ulong x_off, DST masks, ulong masks_off, DST counts, ulong counts_off, DST verdict,
                 ulong verdict_off, const struct conv_sparse_args a)
{
    FN(masks_body)(GROUP, x + x_off, masks + masks_off, counts + counts_off, verdict + verdict_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC masks, ulong masks_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add,
                ulong add_off, DST y, ulong y_off, const struct conv_sparse_args a)
{
    FN(body)(GROUP, x + x_off, masks + masks_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
