/* conv_stem_wgmma.cl: conv_stem_mma.cl for Hopper's tensor cores (compute capability 9.0): 2-D convolution of few channels whose
 * filters all lie in local memory, and whose windows come there as they are in the image.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][c(d)][oh*sh - ph + r(d)][ow*sw - pw + s(d)] + bias[k] + add )
 *
 * with depth d = (c * R + r) * S + s, as filters have it, so that neighbouring work-items read neighbouring pixels, of different banks.
 * PRODUCTS 3 multiplies float32 as sums of two tf32 values, and sums over FLUSH of depth are added up in float32; PRODUCTS 1
 * rounds operands to tf32. A sum that is not a number is computed again by its definition.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_pack.cl as 1x1 filters of C * R * S channels.
 * Index map: group = part * blocks of BM filters + block; it computes the tiles part, part + at_once, ..., and brings the next one while
 * it multiplies; tile = (image * tiles down + tile row) * tiles across + tile column, of TH x TW pixels.
 * A warp computes a row of them.
 * Work-group: WG, two on a multiprocessor. Local memory: STEM_WGMMA_BYTES, of which a barrier takes 128, filters PARTS * BM floats for each
 * depth, offsets one, and each of two windows C * ((TH-1)*sh + R) * ((TW-1)*sw + S) (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 256, BM 64, PRODUCTS 1 or 3, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh); all but the last three required. */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) conv_stem_wgmma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "mma.clh"
#include "wgmma.clh"
#define TH STEM_TILE_HIGH
#define TW STEM_TILE_WIDE
#define RESIDENT 2
#define PARTS (PRODUCTS == 3 ? 2 : 1) /* of a filter */
#define FLUSH STEM_WGMMA_FLUSH
#define RESULTS (BM / 2)

/* A tile: image, first pixel; and the size of its window. */
struct FN(tile) {
    int n, row, column, high, wide;
};

struct FN(tile) FN(tile_of)(uint tile, const struct conv_args *a)
{
    const uint across = (uint)(a->out[2] + TW - 1) / TW, down = (uint)(a->out[1] + TH - 1) / TH, row = tile / across;
    struct FN(tile) t;
    t.column = (int)(tile - row * across) * TW;
    t.n = (int)(row / down);
    t.row = (int)(row - (uint)t.n * down) * TH;
    t.high = (TH - 1) * a->stride[1] + a->ker[1];
    t.wide = (TW - 1) * a->stride[2] + a->ker[2];
    return t;
}

/* The window is on its way. */
void FN(bring)(local float *window, SRC x, const struct FN(tile) *t, const struct conv_args *a)
{
    const int top = t->row * a->stride[1] - a->pad[1], left = t->column * a->stride[2] - a->pad[2];
    for (int i = LANE / 32; i < a->c * t->high; i += WG / 32) {
        const int c = i / t->high, h = top + i - c * t->high;
        const bool inside = h >= 0 && h < a->in[1];
        const global float *from = x + t->n * a->src_n + ((long)c * a->in[1] + (inside ? h : 0)) * a->in[2];
        for (int j = LANE % 32; j < t->wide; j += 32) {
            const bool there = inside && left + j >= 0 && left + j < a->in[2];
            COPY4(LOCAL_ADDRESS(window + i * t->wide + j), from + (there ? left + j : 0), there ? 4 : 0);
        }
    }
    COPIES_CLOSE;
}

void FN(wait)(uint bar, uint parity)
{
    uint done = 0;
    while (!done)
        BARRIER_TEST(done, bar, parity);
}

/* Filters of the block come whole; what tf32 leaves out of them goes behind them. */
void FN(bring_filters)(local float4 *filters, uint bar, SRC w, int block, int depth)
{
    const int all = BM * depth;
    if (LANE == 0) {
        BARRIER_INIT(bar, 1);
        BARRIERS_VISIBLE;
        BARRIER_EXPECT(bar, all * 4);
        BULK_COPY(LOCAL_ADDRESS(filters), w + (long)block * all, all * 4, bar);
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the others wait for a barrier that there is */
    FN(wait)(bar, 0);
#if PRODUCTS == 3
    for (int i = LANE; i < all / 4; i += WG)
        filters[all / 4 + i] = filters[i] - as_float4(as_uint4(filters[i]) & 0xffffe000u);
    BARRIERS_VISIBLE;
#endif
}

/* A work-item's share of 8 of depth, two neighbouring pixels `apart` in the window, as sums of two tf32 values. */
void FN(split)(uint high[4], uint low[4], const local float *v, int apart, int at, int next)
{
    const float x[4] = {v[at], v[at + apart], v[next], v[next + apart]};
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if PRODUCTS == 3
        high[i] = TF32_ROUNDED(x[i]);
        low[i] = TF32_LOW(x[i], high[i]);
#else
        TF32_NEAREST(high[i], x[i]);
        low[i] = 0;
#endif
    }
}

void FN(multiply)(float sum[RESULTS], const local float *pixels, int apart, const local int *offset, uint filters, int depth)
{
    const uint rest = filters + (uint)(BM * depth * 4);
    float d[RESULTS];
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = d[i] = 0.0f;
    for (int at = 0; at < depth; at += FLUSH) {
        uint high[2][4], low[2][4];
#pragma unroll
        for (int i = 0; i < FLUSH / 8; i++) {
            const uint slab = (uint)(at + 8 * i) * (BM * 4);
            FN(split)(high[i % 2], low[i % 2], pixels, apart, offset[at + 8 * i], offset[at + 8 * i + 4]);
            WGMMA(d, high[i % 2], low[i % 2], DESCRIPTOR(filters + slab), DESCRIPTOR(rest + slab), i);
            if (i > 0)
                WGMMA_WAIT(d, 1); /* the registers of the step before are free again */
        }
        WGMMA_WAIT(d, 0);
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            sum[i] += d[i];
    }
}

/* One sum by its definition; pixel: in the window. */
float FN(define)(SRC w, const local float *pixel, const local int *offset, int k, const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
    float sum = 0.0f;
    for (int d = 0; d < a->c * a->ker[1] * a->ker[2]; d++)
        sum = fma(pixel[offset[d]],
                  w[((long)(k / BM) * (ma->depth / 8) + d / 8) * (BM * 8) + k % BM / 8 * 64 + d % 8 / 4 * 32 + k % 8 * 4 + d % 4],
                  sum);
    return sum;
}

/* Sums of a work-item: filters k0 + 8 * j + e, pixels `column` and the next one of a row. */
void FN(store)(const float sum[RESULTS], int k0, int n, int row, int column, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const long map = (long)a->out[1] * a->out[2], p = (long)row * a->out[2] + column;
    const ulong apart = (ulong)a->out[2] | a->dst_n | (EPI_ADD ? a->add_n | (ulong)add / 4 : 0);
    const bool pairs = apart % 2 == 0 && (ulong)y % 8 == 0; /* both pixels are neighbours in memory, on a boundary */
    if (row < a->out[1] && column < a->out[2])
#pragma unroll
        for (int j = 0; j < RESULTS / 2; j++) {
            const int k = k0 + j / 2 * 8 + j % 2, of = j / 2 * 4 + j % 2;
            const long yi = n * a->dst_n + k * map + p, ai = n * a->add_n + k * map + p;
            if (k < a->k) {
                if (pairs) {
                    *(global float2 *)(y + yi) = (float2)(EPILOGUE(sum[of], bias, k, add, ai, a),
                                                          EPILOGUE(sum[of + 2], bias, k, add, ai + 1, a));
                } else {
                    y[yi] = EPILOGUE(sum[of], bias, k, add, ai, a);
                    if (column + 1 < a->out[2])
                        y[yi + 1] = EPILOGUE(sum[of + 2], bias, k, add, ai + 1, a);
                }
            }
        }
}

#if PRODUCTS == 3
/* Results that are not numbers, computed again. */
void FN(mend)(const float sum[RESULTS], int k0, int n, int row, int column, SRC w, const local float *pixels, int apart,
              const local int *offset, SRC bias, SRC add, DST y, const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
    uint lost = 0;
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        lost |= (uint)isnan(sum[i]) << i;
    if (lost)
#pragma unroll 1
        for (int i = 0; i < RESULTS; i++) {
            const int k = k0 + i / 4 * 8 + i % 2, next = i / 2 % 2;
            if ((lost >> i & 1) && k < a->k && row < a->out[1] && column + next < a->out[2]) {
                const long p = ((long)k * a->out[1] + row) * a->out[2] + column + next;
                y[n * a->dst_n + p] =
                    EPILOGUE(FN(define)(w, pixels + next * apart, offset, k, ma), bias, k, add, n * a->add_n + p, a);
            }
        }
}
#endif

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_mma_args *ma,
              local float4 *scratch)
{
    const struct conv_args *a = &ma->conv;
    const int blocks = (a->k + BM - 1) / BM, block = (int)((uint)group % (uint)blocks);
    const int lane = LANE % 32, warp = LANE / 32, k0 = block * BM + lane % 4 * 2;
    uint tile = (uint)group / (uint)blocks;
    struct FN(tile) t = FN(tile_of)(tile, a);
    const int taps = a->ker[1] * a->ker[2], size = a->c * t.high * t.wide;
    const uint bar = LOCAL_ADDRESS(scratch);
    local float4 *filters = scratch + 8;
    local int *offset = (local int *)(filters + PARTS * BM / 4 * ma->depth);
    local float *window = (local float *)(offset + ma->depth);
    GROUPS_RESIDENT(RESIDENT);
    LOCAL_BYTES(STEM_WGMMA_BYTES);
    FN(bring)(window, x, &t, a);
    for (int d = LANE; d < ma->depth; d += WG) {
        const int c = d / taps, tap = d - c * taps, r = tap / a->ker[2];
        offset[d] = c < a->c ? (c * t.high + r) * t.wide + tap - r * a->ker[2] : 0; /* filters are zeros there */
    }
    FN(bring_filters)(filters, bar, w, block, ma->depth);
    for (int now = 0; tile < (uint)ma->tiles; now = 1 - now) {
        const local float *pixels = window + now * size + warp * a->stride[1] * t.wide + lane / 4 * 2 * a->stride[2];
        const int n = t.n, row = t.row + warp, column = t.column + lane / 4 * 2;
        float sum[RESULTS];
        COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        tile += (uint)ma->at_once;
        t = FN(tile_of)(tile, a);
        if (tile < (uint)ma->tiles)
            FN(bring)(window + (1 - now) * size, x, &t, a);
        FN(multiply)(sum, pixels, a->stride[2], offset + lane % 4, LOCAL_ADDRESS(filters), ma->depth);
        FN(store)(sum, k0, n, row, column, bias, add, y, a);
#if PRODUCTS == 3
        FN(mend)(sum, k0, n, row, column, w, pixels, a->stride[2], offset, bias, add, y, ma);
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
