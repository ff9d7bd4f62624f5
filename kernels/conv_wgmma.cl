/* conv_wgmma.cl: conv_mma.cl for Hopper's tensor cores (compute capability 9.0): 2-D convolution as a matrix
 * product whose pixels go from global memory to registers, and whose filters a work-item apart brings to local memory
 * by bulk copies.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * with depth d = tap * padded + c as in conv_mma.cl, and PRODUCTS, SPLIT and sums that are no numbers as there.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_pack.cl.
 * Index map: group = ((split * conv groups + conv group) * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow))
 * * blocks of filters + block. Each of two warpgroups (128 work-items) computes BM filters by 64 pixels, a warp 16 of them;
 * a work-item of the third one brings slabs of 8 of depth, which pass through STAGES places,
 * and that warpgroup gives registers to the others.
 * Work-group: WG. Local memory: STAGES slabs of the filters, high and low parts, and two barriers each.
 * Defines: WG 384, BM 128, BN 128, BK 16, SPLIT 0 or 1, PRODUCTS 1 or 3, EPI_BIAS, EPI_ADD, EPI_ACT
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
#define STAGES 4
#define RESULTS (BM / 2)

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

/* One pixel of a work-item: its image from the work-item's first channel on, where its window starts, and that tap of the
 * window which is next. */
struct FN(pixel) {
    const global float *x, *tap;
    int ih, iw;
    bool present, inside;
};

struct FN(pixel) FN(pixel_of)(SRC x, int ahead, int channel, const struct FN(tile) *t, const struct conv_args *a)
{
    struct FN(pixel) p;
    p.present = t->first + ahead < t->pixels;
    const int q = t->at + (p.present ? ahead : 0), n = q / t->map, at = q - n * t->map;
    const int cg = a->c / a->groups, row = at / a->out[2];
    p.x = x + (t->n + n) * a->src_n + ((long)t->g * cg + channel) * a->in[1] * a->in[2];
    p.ih = row * a->stride[1] - a->pad[1];
    p.iw = (at - row * a->out[2]) * a->stride[2] - a->pad[2];
    return p;
}

void FN(move)(struct FN(pixel) *p, int c, int r, int s, const struct conv_args *a)
{
    const int h = p->ih + r * a->dil[1], w = p->iw + s * a->dil[2];
    p->inside = p->present && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2];
    p->tap = p->x + ((long)c * a->in[1] + (p->inside ? h : 0)) * a->in[2] + (p->inside ? w : 0);
}

void FN(wait)(uint bar, uint parity)
{
    uint done = 0;
    while (!done)
        BARRIER_TEST(done, bar, parity);
}

/* The work-item apart: slabs of depth of the group's filters, one after the other, each where a place is free. */
void FN(bring_filters)(const global float *from, uint to, uint full, uint empty, int slabs)
{
    int place = 0;
    uint parity = 1;
    for (int i = 0; i < slabs; i++) {
        FN(wait)(empty + place * 8, parity);
        BARRIER_EXPECT(full + place * 8, SLAB * 4);
        BULK_COPY(to + place * SLAB * 4, from + (long)i * SLAB, SLAB * 4, full + place * 8);
        if (++place == STAGES) {
            place = 0;
            parity ^= 1;
        }
    }
}

/* The two pixels of a work-item, and first channel and tap of the next chunk. */
struct FN(window) {
    struct FN(pixel) near, far;
    int c, r, s;
};

/* The next chunk: at 2 * i the near pixel in channel 4 * i of the work-item's, at 2 * i + 1 the far one. */
void FN(fetch)(float v[8], struct FN(window) *p, int channel, const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
    const long plane = (long)a->in[1] * a->in[2];
    const int left = a->c / a->groups - p->c - channel;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = p->near.inside && 4 * i < left ? p->near.tap[4 * i * plane] : 0.0f;
        v[2 * i + 1] = p->far.inside && 4 * i < left ? p->far.tap[4 * i * plane] : 0.0f;
    }
    p->c += BK;
    p->near.tap += BK * plane;
    p->far.tap += BK * plane;
    if (p->c >= ma->padded) {
        p->c = 0;
        if (++p->s == a->ker[2]) {
            p->s = 0;
            p->r++;
        }
        FN(move)(&p->near, 0, p->r, p->s, a);
        FN(move)(&p->far, 0, p->r, p->s, a);
    }
}

/* Slabs of filters on the side of those who read them; `place` is the next one's. */
struct FN(slabs) {
    uint to, full, empty;
    int place;
    uint parity;
};

/* d = or += the products of a chunk, whose pixels are in v; after that v is the chunk after next, when there is one. */
void FN(step)(float d[RESULTS], uint more, float v[8], struct FN(slabs) *at, bool another, struct FN(window) *p,
              int channel, const struct conv_mma_args *ma)
{
    uint high[2][4], low[2][4];
#pragma unroll
    for (int i = 0; i < 8; i++) {
#if PRODUCTS == 3
        high[i / 4][i % 4] = TF32_ROUNDED(v[i]);
        low[i / 4][i % 4] = TF32_LOW(v[i], high[i / 4][i % 4]);
#else
        TF32_NEAREST(high[i / 4][i % 4], v[i]);
        low[i / 4][i % 4] = 0;
#endif
    }
    if (another)
        FN(fetch)(v, p, channel, ma);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint slab = at->to + (at->place + i) * SLAB * 4;
        FN(wait)(at->full + (at->place + i) * 8, at->parity);
        WGMMA(d, high[i], low[i], DESCRIPTOR(slab), DESCRIPTOR(slab + BM * 32), more + i);
    }
    WGMMA_WAIT(d);
    if (LANE % 32 == 0) {
        BARRIER_ARRIVE(at->empty + at->place * 8);
        BARRIER_ARRIVE(at->empty + at->place * 8 + 8);
    }
    at->place += 2;
    if (at->place == STAGES) {
        at->place = 0;
        at->parity ^= 1;
    }
}

/* The first two warpgroups: their share of the tile's sums, of which those over two chunks are added up in float32. */
void FN(multiply)(float sum[RESULTS], SRC x, uint to, uint full, uint empty, int ahead,
                  const struct FN(tile) *t, const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
    const int lane = LANE % 32, channel = lane % 4, tap = t->chunk * BK / ma->padded;
    struct FN(window) p = {.c = t->chunk * BK % ma->padded, .r = tap / a->ker[2], .s = tap % a->ker[2]};
    p.near = FN(pixel_of)(x, ahead, channel, t, a);
    p.far = FN(pixel_of)(x, ahead + 8, channel, t, a);
    FN(move)(&p.near, p.c, p.r, p.s, a);
    FN(move)(&p.far, p.c, p.r, p.s, a);
    struct FN(slabs) at = {to, full, empty, 0, 0};
    float d[RESULTS], even[8], odd[8]; /* pixels of the next two chunks */
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = d[i] = 0.0f;
    FN(fetch)(even, &p, channel, ma);
    if (t->chunk + 1 < t->end)
        FN(fetch)(odd, &p, channel, ma);
    for (int chunk = t->chunk; chunk < t->end; chunk += 2) {
        FN(step)(d, 0, even, &at, chunk + 2 < t->end, &p, channel, ma);
        if (chunk + 1 < t->end)
            FN(step)(d, 1, odd, &at, chunk + 3 < t->end, &p, channel, ma);
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            sum[i] += d[i];
    }
}

/* Sums of a work-item: filters k0 + 8 * j + e of conv group t->g, pixels `ahead` + 8 * h of the tile. */
void FN(store)(const float sum[RESULTS], int k0, int ahead, const struct FN(tile) *t, SRC bias, SRC add, DST y,
               const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const long step = SPLIT ? t->pixels : (long)t->map;
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (t->first + ahead + 8 * h < t->pixels) {
            const struct FN(place) at = FN(place_of)(first, ahead + 8 * h, t, a);
#pragma unroll
            for (int j = 0; j < BM / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int k = 8 * j + e;
                    if (k0 + k < kg)
                        y[at.y + k * step] =
                            EPILOGUE(sum[4 * j + 2 * h + e], bias, first + k, add, at.add + k * step, a);
                }
        }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_mma_args *ma,
              local float4 *scratch)
{
    const struct conv_args *a = &ma->conv;
    const struct FN(tile) t = FN(tile_of)(group, ma);
    const uint to = LOCAL_ADDRESS(scratch), full = to + STAGES * SLAB * 4, empty = full + STAGES * 8;
    const int kg = a->k / a->groups, lane = LANE % 32;
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(full + i * 8, 1);
            BARRIER_INIT(empty + i * 8, 8);
        }
        BARRIERS_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(24);
        if (LANE == 256)
            FN(bring_filters)(w + FN(packed_at)(t.g, t.block * BM, t.chunk * BK, ma), to, full, empty,
                              (t.end - t.chunk) * (BK / 8));
    } else {
        REGISTERS_MORE(240);
        const int k0 = t.block * BM + lane % 4 * 2, ahead = LANE / 32 * 16 + lane / 4;
        float sum[RESULTS];
        FN(multiply)(sum, x, to, full, empty, ahead, &t, ma);
        FN(store)(sum, k0, ahead, &t, bias, add, y, a);
#if PRODUCTS == 3
        ulong lost = 0; /* results that are not numbers */
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            lost |= (ulong)isnan(sum[i]) << i;
        if (lost)
#pragma unroll 1
            for (int i = 0; i < RESULTS; i++) {
                const int k = k0 + i / 4 * 8 + i % 2, pixel = ahead + i / 2 % 2 * 8;
                if ((lost >> i & 1) && k < kg && t.first + pixel < t.pixels) {
                    const struct FN(place) at = FN(place_of)(t.g * kg + k, pixel, &t, a);
                    y[at.y] = EPILOGUE(FN(define)(x, w, k, pixel, &t, ma), bias, t.g * kg + k, add, at.add, a);
                }
            }
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[STAGES * SLAB / 4 + STAGES];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
