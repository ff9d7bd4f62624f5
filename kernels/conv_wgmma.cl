/* conv_wgmma.cl: conv_mma.cl for Hopper's tensor cores (compute capability 9.0): 2-D convolution as a matrix
 * product whose filters come to local memory by bulk copies, and whose pixels come there as in conv_mma.cl and go on to
 * registers.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * with depth d = tap * padded + c as in conv_mma.cl, and PRODUCTS, SPLIT and sums that are no numbers as there.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_pack.cl.
 * Index map: group = ((split * conv groups + conv group) * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow))
 * * blocks of filters + block. Each of two warpgroups (128 work-items) computes BM filters by 64 pixels, a warp 16 of them;
 * the third one brings both operands, 8 of depth at once, to one of STAGES places, and gives registers to the others. With
 * BM 64 two groups share a multiprocessor, so that one multiplies while the other starts or stores.
 * Work-group: WG. Local memory: STAGES places and two barriers each, at most 47 KiB.
 * Defines: WG 384, BM 128 or 64, BN 128, BK 16, GATHER 0 or 2 (conv_gather.clh), SPLIT 0 or 1, PRODUCTS 1 or 3, PRE, PRE_ACT (conv_mma.clh), EPI_BIAS, EPI_ADD, EPI_ACT
 * (epilogue.clh); all but the last three required. */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) conv_wgmma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#endif
#include "mma.clh"
#include "wgmma.clh"
#define PARTS (PRODUCTS == 3 ? 2 : 1)
#define SLAB (BM * 8 * PARTS) /* floats */
#define STAGE ((SLAB + B_FLOATS + PARAMETERS) * 4) /* bytes: filters, then pixels and parameters (conv_gather.clh) */
#define FITTING (48000 / STAGE)
#define STAGES (FITTING > 8 ? 8 : FITTING)
#define RESULTS (BM / 2)
#if BM == 128
#define RESIDENT 1
#define BRING_REGISTERS 56
#define MULTIPLY_REGISTERS 224
#else
#define RESIDENT 2
#define BRING_REGISTERS 32
#define MULTIPLY_REGISTERS 104
#endif

/* Where filter k of conv group g lies at depth d; and its value, of which there are two parts. */
long FN(packed_at)(int g, int k, int d, const struct conv_mma_args *a)
{
    const int blocks = (a->conv.k / a->conv.groups + BM - 1) / BM;
    return (((long)g * blocks + k / BM) * (a->depth / 8) + d / 8) * SLAB + k % BM / 8 * 64 + d % 8 / 4 * 32 +
           k % 8 * 4 + d % 4;
}

float FN(packed)(SRC w, int g, int k, int d, const struct conv_mma_args *a)
{
    const long at = FN(packed_at)(g, k, d, a);
    return w[at] + (PRODUCTS == 3 ? w[at + BM * 8] : 0.0f);
}

#include "conv_mma.clh"

#define GATHER_STEP 8
#define BRINGERS 128
#define BRINGER (LANE - 256)
#include "conv_gather.clh"

void FN(wait)(uint bar, uint parity)
{
    uint done = 0;
    while (!done)
        BARRIER_TEST(done, bar, parity);
}

/* Steps of depth pass through STAGES places, each with barriers `full` and `empty`. */
struct FN(ring) {
    int place;
    uint parity;
};

struct FN(ring) FN(next)(struct FN(ring) r)
{
    return r.place + 1 == STAGES ? (struct FN(ring)){0, r.parity ^ 1} : (struct FN(ring)){r.place + 1, r.parity};
}

/* The warpgroup that brings filters (one of its work-items) and pixels, each step where a place is free. */
void FN(bring)(SRC x, SRC w, SRC scale, SRC shift, uint to, uint full, uint empty, const struct FN(tile) *t,
               const struct conv_mma_args *ma)
{
    struct FN(source) p = FN(source_of)(x, t, ma);
    const global float *from = w + FN(packed_at)(t->g, t->block * BM, t->chunk * BK, ma);
    struct FN(ring) r = {0, 1};
    for (int step = t->chunk * (BK / 8); step < t->end * (BK / 8); step++) {
        const uint place = to + r.place * STAGE, bar = full + r.place * 8;
        FN(wait)(empty + r.place * 8, r.parity);
        if (BRINGER == 0) {
            BARRIER_EXPECT(bar, SLAB * 4);
            BULK_COPY(place, from, SLAB * 4, bar);
        }
        FN(bring_pixels)(place + SLAB * 4, &p, step, ma, t);
        FN(bring_parameters)(place + (SLAB + B_FLOATS) * 4, scale, shift, step, t, ma);
        BARRIER_COPIES(bar);
        from += SLAB;
        r = FN(next)(r);
    }
}

/* A work-item's share of the pixels of a step, at v and B_AT(4, 0) further, as sums of two tf32 values; `of`: scale of its
 * channel. */
void FN(split)(uint high[4], uint low[4], const local float *v, const local float *of,
               const struct conv_mma_args *ma)
{
#pragma unroll
    for (int e = 0; e < 2; e++) {
        float2 pair = *(const local float2 *)(v + B_AT(4 * e, 0));
        pair.x = PREPARED(pair.x, of[4 * e], of[8 + 4 * e], ma);
        pair.y = PREPARED(pair.y, of[4 * e], of[8 + 4 * e], ma);
#if PRODUCTS == 3
        high[2 * e] = TF32_ROUNDED(pair.x);
        high[2 * e + 1] = TF32_ROUNDED(pair.y);
        low[2 * e] = TF32_LOW(pair.x, high[2 * e]);
        low[2 * e + 1] = TF32_LOW(pair.y, high[2 * e + 1]);
#else
        TF32_NEAREST(high[2 * e], pair.x);
        TF32_NEAREST(high[2 * e + 1], pair.y);
        low[2 * e] = low[2 * e + 1] = 0;
#endif
    }
}

/* This warp needs a place no more. */
void FN(release)(uint empty)
{
    if (LANE % 32 == 0)
        BARRIER_ARRIVE(empty);
}

/* The first two warpgroups: their share of the tile's sums, of which those over up to four steps are added up in float32.
 * `pixels`, `of`: the work-item's first pixel and the scale of its channel in place 0. */
void FN(multiply)(float sum[RESULTS], const local float *pixels, const local float *of, uint to, uint full,
                  uint empty, const struct FN(tile) *t, const struct conv_mma_args *ma)
{
    struct FN(ring) r = {0, 0};
    float d[RESULTS];
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = d[i] = 0.0f;
    const int end = t->end * (BK / 8);
    for (int step = t->chunk * (BK / 8); step < end; step += 4) {
        uint high[2][4], low[2][4], before = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < 2 || step + 2 < end) { /* chunks have an even number of steps */
                const uint slab = to + r.place * STAGE, mine = empty + r.place * 8;
                FN(wait)(full + r.place * 8, r.parity);
                FN(split)(high[i % 2], low[i % 2], pixels + r.place * (STAGE / 4), of + r.place * (STAGE / 4), ma);
                WGMMA(d, high[i % 2], low[i % 2], DESCRIPTOR(slab), DESCRIPTOR(slab + BM * 32), i);
#if RESIDENT == 1
                if (i > 0) {
                    WGMMA_WAIT(d, 1);
                    FN(release)(before);
                }
#else /* the other group multiplies meanwhile; more under way would cost registers */
                if (i % 2) {
                    WGMMA_WAIT(d, 0);
                    FN(release)(before);
                    FN(release)(mine);
                }
#endif
                before = mine;
                r = FN(next)(r);
            }
#if RESIDENT == 1
        WGMMA_WAIT(d, 0);
        FN(release)(before);
#endif
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            sum[i] += d[i];
    }
}

/* Sums of a work-item: filters k0 + 8 * j + e of conv group t->g, pixels `ahead` and the next one of the tile. */
void FN(store)(const float sum[RESULTS], int k0, int ahead, const struct FN(tile) *t, SRC bias, SRC add, DST y,
               const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const long step = SPLIT ? t->pixels : (long)t->map;
    const ulong apart = SPLIT ? t->pixels : (ulong)t->map | a->dst_n | (EPI_ADD ? a->add_n | (ulong)add / 4 : 0);
    const bool pairs = apart % 2 == 0 && (ulong)y % 8 == 0; /* both pixels are neighbours in memory, on a boundary */
    if (t->first + ahead < t->pixels) {
        const struct FN(place) at = FN(place_of)(first, ahead, t, a);
        if (pairs) {
#pragma unroll
            for (int j = 0; j < BM / 4; j += 8) { /* eight rows at once: what is read arrives together */
                float2 other[8];
#if EPI_ADD
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (k0 + (j + i) / 2 * 8 + i % 2 < kg)
                        other[i] = *(const global float2 *)(add + at.add + ((j + i) / 2 * 8 + i % 2) * step);
#endif
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int of = (j + i) / 2, e = i % 2, k = of * 8 + e;
                    const float two[2] = {other[i].x, other[i].y};
                    if (k0 + k < kg)
                        *(global float2 *)(y + at.y + k * step) =
                            (float2)(EPILOGUE(sum[4 * of + e], bias, first + k, two, 0, a),
                                     EPILOGUE(sum[4 * of + 2 + e], bias, first + k, two, 1, a));
                }
            }
        } else {
            const bool both = t->first + ahead + 1 < t->pixels;
            const struct FN(place) next = FN(place_of)(first, ahead + both, t, a);
#pragma unroll
            for (int j = 0; j < BM / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int k = 8 * j + e;
                    if (k0 + k < kg) {
                        y[at.y + k * step] = EPILOGUE(sum[4 * j + e], bias, first + k, add, at.add + k * step, a);
                        if (both)
                            y[next.y + k * step] =
                                EPILOGUE(sum[4 * j + 2 + e], bias, first + k, add, next.add + k * step, a);
                    }
                }
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC scale, SRC shift, SRC bias, SRC add, DST y,
              const struct conv_mma_args *ma, local float4 *scratch)
{
    const struct conv_args *a = &ma->conv;
    const struct FN(tile) t = FN(tile_of)(group, ma);
    const uint to = LOCAL_ADDRESS(scratch), full = to + STAGES * STAGE, empty = full + STAGES * 8;
    GROUPS_RESIDENT(RESIDENT);
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(full + i * 8, BRINGERS + 1);
            BARRIER_INIT(empty + i * 8, 8);
        }
        BARRIERS_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(BRING_REGISTERS);
        FN(bring)(x, w, scale, shift, to, full, empty, &t, ma);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int lane = LANE % 32, ahead = LANE / 32 * 16 + lane / 4 * 2;
        const int kg = a->k / a->groups, k0 = t.block * BM + lane % 4 * 2;
        float sum[RESULTS];
        FN(prefetch)(x, add, GATHER == 0 && t.block == 0, LANE, 256, &t, a);
        FN(multiply)(sum, (const local float *)scratch + SLAB + B_AT(lane % 4, ahead),
                     (const local float *)scratch + SLAB + B_FLOATS + lane % 4, to, full, empty,
                     &t, ma);
        FN(store)(sum, k0, ahead, &t, bias, add, y, a);
#if PRODUCTS == 3
        ulong lost = 0; /* results that are not numbers */
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            lost |= (ulong)isnan(sum[i]) << i;
        if (lost)
#pragma unroll 1
            for (int i = 0; i < RESULTS; i++) {
                const int k = k0 + i / 4 * 8 + i % 2, pixel = ahead + i / 2 % 2;
                if ((lost >> i & 1) && k < kg && t.first + pixel < t.pixels) {
                    const struct FN(place) at = FN(place_of)(t.g * kg + k, pixel, &t, a);
                    y[at.y] = EPILOGUE(FN(define)(x, w, scale, shift, k, pixel, &t, ma), bias, t.g * kg + k, add, at.add, a);
                }
            }
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC scale, ulong scale_off, SRC shift, ulong shift_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[STAGES * (STAGE + 16) / 16];
    FN(body)(GROUP, x + x_off, w + w_off, scale + scale_off, shift + shift_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
