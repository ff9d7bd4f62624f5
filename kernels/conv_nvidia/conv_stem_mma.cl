/* conv_stem_mma.cl: convolution of few channels on NVIDIA tensor cores: the window of a group's pixels lies in local
 * memory as it is in the image, and fragments are read from there by a table of offsets.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][c(d)][oh*sh - ph + r(d)][ow*sw - pw + s(d)] + bias[k] + add )
 *
 * with depth d = (r * S + s) * C + c. Products and sums are those of conv_mma.cl; with PRODUCTS 3 a sum that is not a
 * number is computed again by its definition. With VOLUME 1 windows have several planes, whose taps follow one another,
 * and images are the planes of the result.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_mma_pack.cl.
 * Index map: group = ((image * tiles down + tile row) * tiles across + tile column) * blocks of BM filters + block; a
 * tile has TH x TW pixels. A warp computes 32 filters (BM 16: 16) by 16 * WM pixels.
 * Work-group: WG. Local memory: CAPACITY floats, of which the window takes C * ((TH-1)*sh + R) * ((TW-1)*sw + S) for
 * each plane and a zero, and the offsets one for each depth.
 * Defines: WG 256, BM 16, 32 or 64 (required), PRODUCTS 3 (default) or 1, VOLUME 0 (default) or 1, EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh), ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) conv_stem_mma_##x
#endif
#ifndef BM
#error "BM is required, and so is a device with PTX"
#endif
#ifndef PRODUCTS
#define PRODUCTS 3
#endif
#ifndef VOLUME
#define VOLUME 0
#endif
#include "common/map_words.clh"
#define TH STEM_TILE_HIGH
#define TW STEM_TILE_WIDE
#define CAPACITY STEM_CAPACITY
#define WM (BM > 32 ? BM / 32 : 1)
#define MI (BM > 16 ? 2 : 1)
#define NJ (2 * WM)
/* Column c of fragment j: pairs of fragments interleave, so that a work-item's four results of a pair are
 * neighbours. */
#define PIXEL(j, c) ((j) / 2 * 16 + (c)*2 + (j) % 2)

#define PLANES(size) (VOLUME ? (size)[0] : 1)

/* A group's tile: block of filters, item and plane of the result, first pixel; and its window. */
struct FN(tile) {
    int block, n, plane, row, column, high, wide;
};

struct FN(tile) FN(tile_of)(ulong group, const struct conv_args *a)
{
    const uint blocks = (uint)(a->k + BM - 1) / BM, across = (uint)(a->out[2] + TW - 1) / TW;
    const uint down = (uint)(a->out[1] + TH - 1) / TH, all = (uint)group, tile = all / blocks, row = tile / across;
    struct FN(tile) t;
    t.block = (int)(all - tile * blocks);
    t.column = (int)(tile - row * across) * TW;
    const uint image = row / down, planes = (uint)PLANES(a->out);
    t.n = (int)(image / planes);
    t.plane = (int)(image - (uint)t.n * planes);
    t.row = (int)(row - image * down) * TH;
    t.high = (TH - 1) * a->stride[1] + a->ker[1];
    t.wide = (TW - 1) * a->stride[2] + a->ker[2];
    return t;
}

/* The window, a zero behind it, and where depth d of a pixel lies from the pixel's own place on. */
void FN(load_window)(local float *window, local int *offset, SRC x, SRC w, const struct FN(tile) *t,
                     const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
    const int top = t->row * a->stride[1] - a->pad[1], left = t->column * a->stride[2] - a->pad[2];
    const int rows = PLANES(a->ker) * a->c * t->high, lane = LANE % 32;
    for (int i = LANE / 32; i < rows; i += WG / 32) {
        const int of = i / t->high, h = top + i - of * t->high, p = VOLUME ? of / a->c : 0, c = of - p * a->c;
        const int plane = VOLUME ? t->plane * a->stride[0] - a->pad[0] + p : 0;
        const bool level = VOLUME ? plane >= 0 && plane < a->in[0] : true;
        const bool inside = level && h >= 0 && h < a->in[1];
        const global float *from =
            x + t->n * a->src_n + (inside ? (((long)c * PLANES(a->in) + plane) * a->in[1] + h) * a->in[2] : 0);
        for (int j = lane; j < t->wide; j += 32) {
            const bool there = inside && left + j >= 0 && left + j < a->in[2];
            COPY4(LOCAL_ADDRESS(window + i * t->wide + j), from + (there ? left + j : 0), there ? 4 : 0);
        }
    }
    COPIES_CLOSE;
    /* in the first layer of a run filters come from memory */
    for (int d = LANE * 2; d < ma->depth * (BM / 16); d += WG * 2)
        if (t->block * (BM / 16) + d / ma->depth < (a->k + 15) / 16)
            PREFETCH_L2(w + ((long)t->block * (BM / 16) * ma->depth + d) * 16);
    const int flat = a->ker[1] * a->ker[2];
    for (int d = LANE; d < ma->depth; d += WG) {
        const int all = d / a->c, p = VOLUME ? all / flat : 0, tap = all - p * flat, r = tap / a->ker[2];
        const int c = p * a->c + d - all * a->c;
        offset[d] = all < PLANES(a->ker) * flat ? (c * t->high + r) * t->wide + tap - r * a->ker[2] : -1;
    }
    if (LANE == 0)
        window[rows * t->wide] = 0.0f;
    COPIES_WAIT(0);
}

/* sum = filters by pixels, those of 16 filters from number `block` of sixteen on, of which the last one stands for
 * those that there are not; `place` are the pixels' own places in the window. */
void FN(multiply)(float sum[MI][NJ][4], SRC w, int block, const local float *window, const local int *offset, int zero,
                  const int place[NJ], const struct conv_mma_args *ma)
{
    const int lane = LANE % 32, t = lane % 4, last = (ma->conv.k - 1) / 16;
    const global float *from[MI];
#pragma unroll
    for (int i = 0; i < MI; i++)
        from[i] = w + (long)min(block + i, last) * ma->depth * 16 + lane * 4;
#pragma unroll
    for (int i = 0; i < MI * NJ * 4; i++)
        sum[i / 4 / NJ][i / 4 % NJ][i % 4] = 0.0f;
    for (int d = 0; d < ma->depth; d += 16) {
#pragma unroll
        for (int step = 0; step < 2; step++) {
            uint ah[MI][4], al[MI][4], bh[NJ][2], bl[NJ][2];
#pragma unroll
            for (int i = 0; i < MI; i++) {
                float v[4];
                vstore4(*(const global float4 *)(from[i] + (d + step * 8) * 16), 0, v);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    ah[i][e] = PRODUCTS == 3 ? TF32_ROUNDED(v[e]) : TF32_NEAR(v[e]);
                    al[i][e] = TF32_LOW(v[e], ah[i][e]);
                }
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int at = offset[d + step * 8 + t + 4 * e];
#pragma unroll
                for (int j = 0; j < NJ; j++) {
                    const float v = window[at < 0 ? zero : place[j] + at];
                    bh[j][e] = PRODUCTS == 3 ? TF32_ROUNDED(v) : TF32_NEAR(v);
                    bl[j][e] = TF32_LOW(v, bh[j][e]);
                }
            }
#if PRODUCTS == 3
            float part[MI][NJ][4];
#pragma unroll
            for (int i = 0; i < MI * NJ; i++)
                MMA_FIRST(part[i / NJ][i % NJ], al[i / NJ], bh[i % NJ]);
#pragma unroll
            for (int i = 0; i < MI * NJ; i++)
                MMA(part[i / NJ][i % NJ], ah[i / NJ], bl[i % NJ]);
#else
            float(*const part)[NJ][4] = sum;
#endif
#pragma unroll
            for (int i = 0; i < MI * NJ; i++)
                MMA(part[i / NJ][i % NJ], ah[i / NJ], bh[i % NJ]);
#if PRODUCTS == 3
#pragma unroll
            for (int i = 0; i < MI * NJ * 4; i++)
                sum[i / 4 / NJ][i / 4 % NJ][i % 4] += part[i / 4 / NJ][i / 4 % NJ][i % 4];
#endif
        }
    }
}

/* Pixels of a channel of the result, and of those the ones before a plane of it. */
long FN(map)(const struct conv_args *a)
{
    return (long)PLANES(a->out) * a->out[1] * a->out[2];
}

long FN(before)(const struct FN(tile) *t, const struct conv_args *a)
{
    return VOLUME ? (long)t->plane * a->out[1] * a->out[2] : 0;
}

/* The sum for filter k by its definition. */
float FN(define)(SRC w, const local float *window, const local int *offset, int place, int k,
                 const struct conv_mma_args *ma)
{
    float sum = 0.0f;
    for (int d = 0; d < ma->depth; d++)
        if (offset[d] >= 0)
            sum = fma(
                window[place + offset[d]],
                w[((long)(k / 16) * ma->depth + d / 8 * 8) * 16 + k % 8 * 16 + d % 4 * 4 + d / 4 % 2 * 2 + k / 8 % 2],
                sum);
    return sum;
}

/* Filters k0 + 8 * h, h < 2 * MI, and four neighbouring pixels for each pair of fragments. */
void FN(store)(const float sum[MI][NJ][4], int k0, int ahead, const struct FN(tile) *t, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_args *a)
{
    const int lane = LANE % 32;
    const ulong apart = (ulong)a->out[2] | a->dst_n | (EPI_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
    const bool wide = apart % 4 == 0 && (ulong)y % (4 * Y_BYTES) == 0;
#pragma unroll
    for (int j = 0; j < NJ; j += 2) {
        const int pixel = ahead + PIXEL(j, 2 * (lane % 4)), oh = t->row + pixel / TW, ow = t->column + pixel % TW;
        const long p = FN(before)(t, a) + (long)oh * a->out[2] + ow, map = FN(map)(a);
#pragma unroll
        for (int h = 0; h < 2 * MI; h++) {
            const int k = k0 + 8 * h, e = h % 2 * 2, i = h / 2;
            const long yi = t->n * a->dst_n + k * map + p, ai = t->n * a->add_n + k * map + p;
            const float v[4] = {sum[i][j][e], sum[i][j + 1][e], sum[i][j][e + 1], sum[i][j + 1][e + 1]};
            if (k < a->k && oh < a->out[1]) {
                if (wide && ow < a->out[2]) {
                    float other[4];
#if EPI_ADD
                    vstore4(LOAD_ADD4(add + ai), 0, other);
#endif
                    const float4 four =
                        (float4)(EPILOGUE(v[0], bias, k, other, 0, a), EPILOGUE(v[1], bias, k, other, 1, a),
                                 EPILOGUE(v[2], bias, k, other, 2, a), EPILOGUE(v[3], bias, k, other, 3, a));
                    STORE_Y4(four, y + yi);
                } else {
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        if (ow + c < a->out[2])
                            STORE_Y(EPILOGUE_OF(v[c], bias, k, LOAD_ADD(add, ai + c), a), y, yi + c);
                }
            }
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_mma_args *ma,
              local float4 *scratch)
{
    const struct conv_args *a = &ma->conv;
    const struct FN(tile) t = FN(tile_of)(group, a);
    const int lane = LANE % 32, warp = LANE / 32, zero = PLANES(a->ker) * a->c * t.high * t.wide;
    local float *window = (local float *)scratch;
    local int *offset = (local int *)(window + zero + 1);
    FN(load_window)(window, offset, x, w, &t, ma);
    barrier(CLK_LOCAL_MEM_FENCE);

    const int ahead = warp / WM * NJ * 8, block16 = t.block * WM * MI + warp % WM * MI;
    int place[NJ];
#pragma unroll
    for (int j = 0; j < NJ; j++) {
        const int pixel = ahead + PIXEL(j, lane / 4);
        place[j] = pixel / TW * a->stride[1] * t.wide + pixel % TW * a->stride[2];
    }
    float sum[MI][NJ][4];
    FN(multiply)(sum, w, block16, window, offset, zero, place, ma);
    const int k0 = block16 * 16 + lane / 4;
    if (k0 < a->k) {
        FN(store)(sum, k0, ahead, &t, bias, add, y, a);
        uint lost = 0; /* results that are not numbers */
#pragma unroll
        for (int i = 0; i < (PRODUCTS == 3 ? MI * NJ * 4 : 0); i++)
            lost |= (uint)isnan(sum[i / 4 / NJ][i / 4 % NJ][i % 4]) << i;
        if (lost)
#pragma unroll 1
            for (int i = 0; i < MI * NJ * 4; i++) {
                const int k = k0 + i / 4 / NJ * 16 + i / 2 % 2 * 8;
                const int pixel = ahead + PIXEL(i / 4 % NJ, lane % 4 * 2 + i % 2);
                const int oh = t.row + pixel / TW, ow = t.column + pixel % TW;
                if ((lost >> i & 1) && k < a->k && oh < a->out[1] && ow < a->out[2]) {
                    const long p = k * FN(map)(a) + FN(before)(&t, a) + (long)oh * a->out[2] + ow;
                    const int at = pixel / TW * a->stride[1] * t.wide + pixel % TW * a->stride[2];
                    STORE_Y(EPILOGUE_OF(FN(define)(w, window, offset, at, k, ma), bias, k,
                                        LOAD_ADD(add, t.n * a->add_n + p), a),
                            y, t.n * a->dst_n + p);
                }
            }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[CAPACITY / 4];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
