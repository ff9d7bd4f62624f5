/* conv_wgmma_window.cl: 3x3 convolutions of few filters on Hopper's tensor cores (compute capability 9.0), whose taps
 * read pixels where they lie in local memory instead of loading them nine times.
 *
 *   y[n][k][i][j] = act( sum_{c,r,s} w[k][c][r][s] x[n][c][i + r - 1][j + s - 1] + bias[k] + add )
 *
 * Positions u = (n (H+1) + i) (W+1) + j, where row H and column W are zeros, put all images in one line in which a tap
 * is a shift by (r - 1) (W+1) + s - 1: what lies left of a row is the end of the row before it.
 * PRODUCTS 3 multiplies float32 as sums of two tf32 values, and sums over three taps of 16 channels are added up in
 * float32; PRODUCTS 1 rounds operands to tf32. A sum that is not a number is computed again by its definition.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_window_pack.cl.
 * Index map: group = tile of BN positions * blocks of BM filters + block. Two warpgroups multiply: with BN 128 each
 * computes 64 positions, with BN 64 both the same ones, each half of the channels. A third one loads pixels (three
 * warps), 16 channels at a time to one of PIXEL_STAGES, and filters (a work-item), three taps of 16 channels to one of
 * FILTER_STAGES.
 * Work-group: WG. Local memory: both kinds of stages and two barriers each, 100 to 110 KB (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 384, BM 32 or 64, BN 64 or 128, PRODUCTS 1 or 3, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF,
 * ADD_HALF, Y_HALF (maps.clh); all but the last six required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_wgmma_window_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define WGMMA_HALVES 0
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_ring.clh"
#include "common/map_words.clh"
#define RESULTS (BM / 2)
#define SPAN (BN + WINDOW_HALO) /* positions between channels; 24 modulo 32, for the banks */
#define PIXELS (WINDOW_CHANNELS * SPAN)
#define FILTERS (3 * WINDOW_CHANNELS * BM * PARTS) /* of a row of taps, in floats */
#define PIXEL_STAGES (BM == 32 ? 3 : 2)
#define FILTER_STAGES (BM == 32 ? 4 : 3)
#define LOADERS 96
#define LOADER (LANE - 256)
#define HALVES (BN == 64) /* of the channels, one for each warpgroup */
#define RESIDENT 2
#define LOAD_REGISTERS 32
#define MULTIPLY_REGISTERS 104
#define PARTS (PRODUCTS == 3 ? 2 : 1) /* of a filter */
#define SUMS (WGMMA_PAIR ? 3 * RESULTS : RESULTS)
#undef WORD_AT
#undef PIXEL_OF
#if X_HALF
#define WORD_AT(p) ((ulong)(p) & ~(ulong)3)
#define PIXEL_OF(word, odd) FN(floats2)(as_uint(word) >> ((odd)&1) * 16).x
#else
#define WORD_AT(p) (p)
#define PIXEL_OF(word, odd) (word)
#endif
#define SETS 2 /* of registers with pixels, while products are under way */

/* Image and pixel at position u; false where there is none. */
bool FN(pixel_at)(int u, int *n, int *pixel, const struct conv_window_args *wa)
{
    const int pitch = wa->conv.in[2] + 1, item = (wa->conv.in[1] + 1) * pitch;
    *n = u / item;
    const int rest = u - *n * item, row = rest / pitch, column = rest - row * pitch;
    *pixel = row * wa->conv.in[2] + column;
    return u >= 0 && u < wa->positions && row < wa->conv.in[1] && column < wa->conv.in[2];
}

/* With X_HALF words are loaded that hold two halves, of which the element itself is the low or the high one, as its
 * place in memory is even or odd: whether it is odd at channel c of the first tap's pixel for position u, whose other
 * taps follow from that. */
uint FN(odd)(X_SRC x, int u, int c, const struct conv_window_args *wa)
{
    int n, pixel;
    FN(pixel_at)(u, &n, &pixel, wa);
    const uint plane = (uint)wa->conv.in[1] * (uint)wa->conv.in[2], left = (uint)wa->conv.in[2] + 1;
    return X_HALF
               ? ((uint)((ulong)x / X_BYTES) + (uint)n * (uint)wa->conv.src_n + (uint)c * plane + (uint)pixel - left) &
                     1
               : 0;
}

void FN(load_pixels)(X_SRC x, uint to, uint full, uint empty, int first, const struct conv_window_args *wa)
{
    const struct conv_args *a = &wa->conv;
    const int halo = a->in[2] + 2, span = BN + 2 * halo;
    const long plane = (long)a->in[1] * a->in[2];
    X_POINTER from[(SPAN + LOADERS - 1) / LOADERS];
    int bytes[(SPAN + LOADERS - 1) / LOADERS];
#pragma unroll
    for (int i = 0; i < (SPAN + LOADERS - 1) / LOADERS; i++) {
        int n, pixel;
        const bool present = FN(pixel_at)(first - halo + LOADER + i * LOADERS, &n, &pixel, wa);
        bytes[i] = present ? 4 : 0;
        from[i] = x + (present ? n * a->src_n + pixel : 0);
    }
    struct FN(pipeline) r = {0, 1};
    for (int chunk = 0; chunk < wa->chunks; chunk++, r = FN(next)(r, PIXEL_STAGES)) {
        const uint stage = to + (uint)(r.stage * PIXELS + LOADER) * 4;
        FN(wait)(empty + r.stage * 8, r.parity);
#pragma unroll
        for (int i = 0; i < (SPAN + LOADERS - 1) / LOADERS; i++)
            if (LOADER + i * LOADERS < span) {
#pragma unroll
                for (int c = 0; c < WINDOW_CHANNELS; c++)
                    COPY4(stage + (c * SPAN + i * LOADERS) * 4, WORD_AT(from[i] + c * plane), bytes[i]);
                from[i] += WINDOW_CHANNELS * plane;
            }
        BARRIER_COPIES(full + r.stage * 8);
    }
}

void FN(load_filters)(SRC w, uint to, uint full, uint empty, int block, const struct conv_window_args *wa)
{
    const global float *from = w + (long)block * wa->chunks * (3 * FILTERS);
    struct FN(pipeline) r = {0, 1};
    for (int i = 0; i < 3 * wa->chunks; i++, r = FN(next)(r, FILTER_STAGES)) {
        const uint bar = full + r.stage * 8;
        FN(wait)(empty + r.stage * 8, r.parity);
        BARRIER_EXPECT(bar, FILTERS * 4);
        BULK_COPY(to + r.stage * (FILTERS * 4), from, FILTERS * 4, bar);
        from += FILTERS;
    }
}

/* A work-item's share of 8 channels at v, as sums of two tf32 values. Bits of `odd`, with X_HALF: the half of the first
 * position and of the second one, 8 further on, is the high one of its word. */
void FN(split)(uint high[4], uint low[4], const local float *v, uint odd)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float x = PIXEL_OF(v[i / 2 * 4 * SPAN + i % 2 * 8], odd >> i % 2);
#if X_HALF /* a tf32 as it is */
        high[i] = as_uint(x);
        low[i] = 0;
#elif PRODUCTS == 3
        high[i] = TF32_ROUNDED(x);
        low[i] = TF32_LOW(x, high[i]);
#else
        high[i] = TF32_NEAR(x);
        low[i] = 0;
#endif
    }
}

/* The sums of the first two warpgroups; `pixels`: the work-item's first value for the first tap, in stage 0; `odd`: as
 * FN(split) takes it, for that tap; `part`: half of the channels, where there are HALVES. */
void FN(multiply)(float sum[RESULTS], const local float *pixels, uint odd, int part, uint filters, uint pixels_full,
                  uint pixels_empty, uint filters_full, uint filters_empty, const struct conv_window_args *wa)
{
    const int pitch = wa->conv.in[2] + 1;
    struct FN(pipeline) rp = {0, 0}, rf = {0, 0};
    float d[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sum[i % RESULTS] = d[i] = 0.0f;
    for (int chunk = 0; chunk < wa->chunks; chunk++, rp = FN(next)(rp, PIXEL_STAGES)) {
        const local float *v = pixels + rp.stage * PIXELS + part * 8 * SPAN;
        FN(wait)(pixels_full + rp.stage * 8, rp.parity);
        for (int row = 0; row < 3; row++, rf = FN(next)(rf, FILTER_STAGES), v += pitch) {
            const uint slab = filters + rf.stage * (FILTERS * 4) + part * PARTS * BM * 32;
            uint high[SETS][4], low[SETS][4];
            FN(wait)(filters_full + rf.stage * 8, rf.parity);
#pragma unroll
            for (int s = 0; s < 3; s++)
#pragma unroll
                for (int j = 0; j < (HALVES ? 1 : 2); j++) {
                    const int step = HALVES ? s : 2 * s + j, f = step % SETS;
                    const uint at = slab + (2 * s + j) * PARTS * BM * 32;
                    FN(split)(high[f], low[f], v + s + j * 8 * SPAN,
                              odd ^ (((uint)(row * wa->conv.in[2] + s) & 1) ? 3 : 0));
#if WGMMA_PAIR
                    WGMMA(d, high[f], low[f], DESCRIPTOR(at), step);
#else
                    WGMMA(d, high[f], low[f], DESCRIPTOR(at), DESCRIPTOR(at + BM * 32), step);
#endif
                    if (step > 0)
                        WGMMA_WAIT(d, 1); /* the oldest registers are free again */
                }
            WGMMA_WAIT(d, 0);
            FN(release)(filters_empty + rf.stage * 8);
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                sum[i % RESULTS] += d[i];
        }
        FN(release)(pixels_empty + rp.stage * 8);
    }
}

/* One sum by its definition, for filter k at row and column of image n. */
float FN(define)(X_SRC x, SRC w, int k, int n, int pixel, const struct conv_window_args *wa)
{
    const struct conv_args *a = &wa->conv;
    const int row = pixel / a->in[2], column = pixel % a->in[2], inside = k % BM;
    float sum = 0.0f;
    for (int c = 0; c < a->c; c++)
        for (int tap = 0; tap < 9; tap++) {
            const int i = row + tap / 3 - 1, j = column + tap % 3 - 1, e = c % WINDOW_CHANNELS;
            const long at = (((long)(k / BM) * wa->chunks + c / WINDOW_CHANNELS) * 3 + tap / 3) * FILTERS +
                            (tap % 3 * 2 + e / 8) * (PARTS * BM * 8) + inside / 8 * 64 + e % 8 / 4 * 32 +
                            inside % 8 * 4 + e % 4;
            const float v = PRODUCTS == 3 ? w[at] + w[at + BM * 8] : w[at];
            if (i >= 0 && i < a->in[1] && j >= 0 && j < a->in[2])
                sum = fma(LOAD_X(x, n * a->src_n + ((long)c * a->in[1] + i) * a->in[2] + j), v, sum);
        }
    return sum;
}

/* Sums of a work-item: filters k0 + 8 * j + e at positions u + 8 * h. */
void FN(store)(const float sum[RESULTS], int k0, int u, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_window_args *wa)
{
    const struct conv_args *a = &wa->conv;
    const long plane = (long)a->in[1] * a->in[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int n, pixel;
        if (FN(pixel_at)(u + 8 * h, &n, &pixel, wa)) {
            const long to = n * a->dst_n + k0 * plane + pixel, other = n * a->add_n + k0 * plane + pixel;
            uint lost = 0; /* results that are not numbers */
#pragma unroll
            for (int i = 0; i < RESULTS / 2; i++) {
                const int k = i / 2 * 8 + i % 2, of = i / 2 * 4 + 2 * h + i % 2;
                lost |= (uint)isnan(sum[of]) << i;
                if (k0 + k < a->k)
                    STORE_Y(EPILOGUE_OF(sum[of], bias, k0 + k, LOAD_ADD(add, other + k * plane), a), y, to + k * plane);
            }
#if PRODUCTS == 3
            if (lost)
#pragma unroll 1
                for (int i = 0; i < RESULTS / 2; i++) {
                    const int k = i / 2 * 8 + i % 2;
                    if ((lost >> i & 1) && k0 + k < a->k)
                        STORE_Y(EPILOGUE_OF(FN(define)(x, w, k0 + k, n, pixel, wa), bias, k0 + k,
                                            LOAD_ADD(add, other + k * plane), a),
                                y, to + k * plane);
                }
#endif
        }
    }
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_window_args *wa,
              local float4 *scratch)
{
    const int blocks = (wa->conv.k + BM - 1) / BM, block = (int)(group % (uint)blocks);
    const int first = (int)(group / (uint)blocks) * BN;
    const uint filters = LOCAL_ADDRESS(scratch), pixels = filters + FILTER_STAGES * FILTERS * 4;
    const uint filters_full = pixels + PIXEL_STAGES * PIXELS * 4, filters_empty = filters_full + FILTER_STAGES * 8;
    const uint pixels_full = filters_empty + FILTER_STAGES * 8, pixels_empty = pixels_full + PIXEL_STAGES * 8;
    GROUPS_RESIDENT(RESIDENT);
    LOCAL_BYTES((FILTER_STAGES * FILTERS + PIXEL_STAGES * PIXELS) * 4 + (FILTER_STAGES + PIXEL_STAGES) * 16);
    if (LANE == 0) {
        for (int i = 0; i < FILTER_STAGES; i++) {
            BARRIER_INIT(filters_full + i * 8, 1);
            BARRIER_INIT(filters_empty + i * 8, 8);
        }
        for (int i = 0; i < PIXEL_STAGES; i++) {
            BARRIER_INIT(pixels_full + i * 8, LOADERS);
            BARRIER_INIT(pixels_empty + i * 8, 8);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(LOAD_REGISTERS);
        if (LANE < 256 + LOADERS)
            FN(load_pixels)(x, pixels, pixels_full, pixels_empty, first, wa);
        else if (LANE == 256 + LOADERS)
            FN(load_filters)(w, filters, filters_full, filters_empty, block, wa);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int lane = LANE % 32, part = HALVES ? LANE / 128 : 0;
        const int ahead = (HALVES ? LANE % 128 : LANE) / 32 * 16 + lane / 4;
        local float *of = (local float *)scratch + FILTER_STAGES * FILTERS;
        float sum[RESULTS];
        const uint odd = FN(odd)(x, first + ahead, lane % 4, wa) | FN(odd)(x, first + ahead + 8, lane % 4, wa) << 1;
        FN(multiply)(sum, of + lane % 4 * SPAN + ahead, odd, part, filters, pixels_full, pixels_empty, filters_full,
                     filters_empty, wa);
#if HALVES
        local float *mine = of + LANE % 128;
        WARPGROUPS_TOGETHER; /* nothing is read there any more */
        if (part == 1) {
#pragma unroll
            for (int i = 0; i < RESULTS; i++)
                mine[i * 128] = sum[i];
        }
        WARPGROUPS_TOGETHER;
        if (part == 0) {
#pragma unroll
            for (int i = 0; i < RESULTS; i++)
                sum[i] += mine[i * 128];
        }
#endif
        if (part == 0)
            FN(store)(sum, block * BM + lane % 4 * 2, first + ahead, x, w, bias, add, y, wa);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_window_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
