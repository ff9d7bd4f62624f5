/* conv_wgmma.cl: conv_mma.cl for Hopper's tensor cores (compute capability 9.0): convolution as a matrix
 * product whose filters come to local memory by bulk copies, and whose pixels come there as in conv_mma.cl and go on to
 * registers.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * with depth d = tap * padded + c as in conv_mma.cl, and PRODUCTS and sums that are no numbers as there. With SPLIT 1
 * and 2 group `split` computes chunks split*share.. of the depth, and y is partial[split][K][N*P*Q] for
 * conv_sum_parts.cl, or conv_join.clh puts them together.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_pack.cl.
 * Index map: with BM 128 a group computes tiles group, group + at_once, ..., so that it loads the next one while it
 * stores; tile = ((split * conv groups + conv group) * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow))
 * * blocks of filters + block. Each of two warpgroups (128 work-items) computes BM filters by 64 pixels, a warp 16 of
 * them; the third one loads both operands, BK of depth at once, to one of STAGES stages, and gives registers to the
 * others; with GATHER_WIDE also what the epilogue adds, after the operands. With
 * BM 64 two groups share a multiprocessor, so that one multiplies while the other starts or stores.
 * With PRODUCTS 0 filters are halves in memory, and pixels become halves in registers. With PRODUCTS 3 both are sums of
 * two halves (conv_wgmma_split.clh).
 * Work-group: WG. Local memory: STAGES stages and two barriers each, 160 KB, 228 with GATHER_WIDE or GATHER_ROWS, or
 * half of that for each of two groups (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 384, BM 128 or 64, BN 128, BK 16, GATHER_TAPS, GATHER_WIDE or GATHER_ROWS for GATHER, SPLIT 0 to 2,
 * PRODUCTS 0, 1 or 3, PRE, PRE_ACT, POOLED, VOLUME (conv_mma.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF,
 * ADD_HALF, Y_HALF (maps.clh); all but the last six required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_wgmma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define WGMMA_HALVES (PRODUCTS != 1)
#include "conv_nvidia/wgmma.clh"
#include "common/half_scale.clh"
#define PER_FLOAT (PRODUCTS == 0 ? 2 : 1)              /* filters in the memory of a float */
#define UNIT (PRODUCTS == 1 ? 8 : 16)                  /* of depth that tensor cores multiply at once */
#define DEPTH_SCALES (PRODUCTS == 3 ? DEPTH_GAINS : 0) /* behind the filters of a chunk */
#define FILTER_SCALES (PRODUCTS == 3 ? BM : 0)         /* come with the last chunk */
#define SLAB (BM * BK / PER_FLOAT + DEPTH_SCALES)      /* filters of a chunk, in floats */
/* Bytes: filters, pixels, parameters (conv_gather.clh), what undoes the filters' scales. */
#define SCALES_AT (SLAB + B_FLOATS + PARAMETERS)
#define STAGE ((SCALES_AT + FILTER_SCALES) * 4)
#define COPIES_WIDE (GATHER == GATHER_WIDE || GATHER == GATHER_ROWS)
#if BM == 128
#define RESIDENT 1
#define LOAD_REGISTERS 56
#define MULTIPLY_REGISTERS 224
#define FITTING ((COPIES_WIDE ? 228000 : 160000) / (STAGE + 16)) /* gathered pixels profit from the cache */
#else
#define RESIDENT 2
#define LOAD_REGISTERS 32
#define MULTIPLY_REGISTERS 104
#define FITTING ((COPIES_WIDE ? 113000 : 93000) / (STAGE + 16))
#endif
/* The epilogue's add comes through the stages too, ADD_STEPS of them, each with BK filters by BN pixels. */
#define PIPELINED_ADD (EPI_ADD == 1 && GATHER == GATHER_WIDE && SPLIT == 0 && ADD_HALF == X_HALF)
#define ADD_STEPS(t, a) min(BM / BK, ((a)->k / (a)->groups - (t)->block * BM + BK - 1) / BK)
/* Where a group has a multiprocessor to itself it computes several tiles; two groups overlap as they are, and registers
 * lack for it, as they do for GATHER_TAPS. */
#define SEVERAL (BM == 128 && COPIES_WIDE)
#undef EACH_TILE
#undef GROUP_TILE
#if SEVERAL
#define EACH_TILE(t)                                                                \
    for (ulong tile = group; tile < (ulong)ma->tiles; tile += (ulong)ma->at_once) { \
        const struct FN(tile) t = FN(tile_of)(tile, ma);
#define GROUP_TILE tile
#else
#define GROUP_TILE group
#define EACH_TILE(t) \
    {                \
        const struct FN(tile) t = only;
#endif
#define STAGES (FITTING > 12 ? 12 : FITTING)
#define RESULTS (BM / 2)

/* Where filter k of conv group g lies at depth d, and its value. With PRODUCTS 3 its low half lies BM * BK halves
 * behind. */
long FN(packed_at)(int g, int k, int d, const struct conv_mma_args *a)
{
    const int blocks = (a->conv.k / a->conv.groups + BM - 1) / BM;
    const int within =
        PRODUCTS != 1 ? d % 16 / 8 * 64 + k % 8 * 8 + d % 4 * 2 + d % 8 / 4 : d % 8 / 4 * 32 + k % 8 * 4 + d % 4;
    const int slab = PRODUCTS == 3 ? 2 * SLAB : BM * UNIT; /* elements */
    return (((long)g * blocks + k / BM) * (a->depth / UNIT) + d / UNIT) * slab + k % BM / 8 * (8 * UNIT) + within;
}

#if PRODUCTS == 3
/* What the sums for a block of filters are to be multiplied by, since its filters were scaled: a number a filter. */
const global float *FN(unscale)(SRC w, int g, int block, const struct conv_mma_args *a)
{
    const int blocks = (a->conv.k / a->conv.groups + BM - 1) / BM;
    return w + (long)blocks * a->conv.groups * (a->depth / BK) * SLAB + ((long)g * blocks + block) * BM;
}
#endif

float FN(packed)(SRC w, int g, int k, int d, const struct conv_mma_args *a)
{
    const long at = FN(packed_at)(g, k, d, a);
#if PRODUCTS == 0
    return vload_half(at, (const global half *)w);
#elif PRODUCTS == 3
    const float by_depth = w[FN(packed_at)(g, k / BM * BM, d / BK * BK, a) / 2 + BM * BK + d % BK];
    const float v = vload_half(at, (const global half *)w) + vload_half(at + BM * BK, (const global half *)w);
    return v * SCALE_UNDO * by_depth * FN(unscale)(w, g, k / BM, a)[k % BM];
#else
    return w[at];
#endif
}

#undef APART
#define APART (SPLIT == 1)
#include "conv_nvidia/conv_mma.clh"

#define GATHER_STEP BK
#define LOADERS 128
#define LOADER (LANE - 256)
#include "conv_nvidia/conv_gather.clh"
#include "conv_nvidia/wgmma_ring.clh"

/* The warpgroup that loads filters (one of its work-items) and pixels, each chunk where a stage is free. */
struct FN(pipeline) FN(load)(struct FN(pipeline) r, X_SRC x, SRC w, SRC scale, SRC shift, uint to, uint full,
                             uint empty, const struct FN(tile) *t, const struct conv_mma_args *ma)
{
    struct FN(source) p = FN(source_of)(x, t, ma);
    const global float *from = w + FN(packed_at)(t->g, t->block * BM, t->chunk * BK, ma) / (PRODUCTS == 1 ? 1 : 2);
    for (int chunk = t->chunk; chunk < t->end; chunk++) {
        const uint stage = to + r.stage * STAGE, bar = full + r.stage * 8;
        FN(wait)(empty + r.stage * 8, r.parity);
        if (LOADER == 0) {
            const uint last = chunk + 1 == t->end ? FILTER_SCALES * 4 : 0;
            BARRIER_EXPECT(bar, SLAB * 4 + last);
            BULK_COPY(stage, from, SLAB * 4, bar);
#if PRODUCTS == 3
            if (last)
                BULK_COPY(stage + SCALES_AT * 4, FN(unscale)(w, t->g, t->block, ma), last, bar);
#endif
        }
        FN(load_pixels)(stage + SLAB * 4, &p, chunk, ma, t);
        FN(load_parameters)(stage + (SLAB + B_FLOATS) * 4, scale, shift, chunk, t, ma);
        BARRIER_COPIES(bar);
        from += SLAB;
        r = FN(next)(r, STAGES);
    }
    return r;
}

#if PIPELINED_ADD
/* The same for what is added to the tile's sums. */
struct FN(pipeline) FN(load_add)(struct FN(pipeline) r, ADD_SRC add, uint to, uint full, uint empty,
                                 const struct FN(tile) *t, const struct conv_args *a)
{
    const int row = LOADER / ROW_ITEMS, ahead = LOADER % ROW_ITEMS * 4, k = t->block * BM + row;
    const bool present = t->first + ahead < t->pixels;
    const int q = t->at + (present ? ahead : 0), kg = a->k / a->groups;
    struct FN(source) p;
    p.tap = add + (t->n + q / t->map) * a->add_n + ((long)t->g * kg + k) * t->map + q % t->map;
    p.channels = present ? kg - k : 0;
    const bool wide = (ulong)add % (4 * ADD_BYTES) == 0 && a->add_n % 4 == 0;
    for (int i = 0; i < ADD_STEPS(t, a); i++, r = FN(next)(r, STAGES)) {
        const uint bar = full + r.stage * 8;
        FN(wait)(empty + r.stage * 8, r.parity);
        FN(load_planes)(to + r.stage * STAGE + SLAB * 4, &p, t->map, wide);
        BARRIER_COPIES(bar);
        if (LOADER == 0) /* in place of filters */
            BARRIER_ARRIVE(bar);
    }
    return r;
}
#endif

/* FN(multiply): the first two warpgroups' share of the tile's sums. */
#if PRODUCTS == 3
#include "conv_nvidia/conv_wgmma_split.clh"
#else
#include "conv_nvidia/conv_wgmma_round.clh"
#endif

/* The epilogue but for what sums have already. */
#undef STORED
#if PIPELINED_ADD && EPI_BIAS
#define STORED(x, bias, bias_i, addend, a) EPI_ACT((x) + (bias)[bias_i], (a)->p0, (a)->p1)
#elif PIPELINED_ADD
#define STORED(x, bias, bias_i, addend, a) EPI_ACT((x), (a)->p0, (a)->p1)
#else
#define STORED EPILOGUE_OF
#endif

#if PIPELINED_ADD
/* What was loaded is added to sums; `values`: in stage 0, the first filter and pixel of this work-item. */
struct FN(pipeline) FN(add_loaded)(struct FN(pipeline) r, float sum[RESULTS], const local PIXEL_T *values, uint full,
                                   uint empty, const struct FN(tile) *t, const struct conv_args *a)
{
#pragma unroll
    for (int i = 0; i < BM / BK; i++)
        if (i < ADD_STEPS(t, a)) {
            FN(wait)(full + r.stage * 8, r.parity);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 two =
                    FN(two_pixels)(values + r.stage * (STAGE / PIXEL_BYTES) + B_AT(j / 2 * 8 + j % 2, 0), 0);
                sum[8 * i + j / 2 * 4 + j % 2] += two.x;
                sum[8 * i + j / 2 * 4 + j % 2 + 2] += two.y;
            }
            FN(release)(empty + r.stage * 8);
            r = FN(next)(r, STAGES);
        }
    return r;
}
#endif

/* As conv_mma.cl has it: filters k0 + 8 * j + e, pixel `ahead` of the tile and the one SECOND_PIXEL behind. */
bool FN(whose)(int i, int k0, int ahead, const struct FN(tile) *t, const struct conv_args *a, int *k, int *pixel)
{
    *k = k0 + i / 4 * 8 + i % 2;
    *pixel = ahead + i / 2 % 2 * SECOND_PIXEL;
    return *k < a->k / a->groups && t->first + *pixel < t->pixels;
}

#define FIXUP_ITEMS 256
#define SUMS RESULTS
#define FIXUP_BARRIER WARPGROUPS_TOGETHER
#include "conv_nvidia/conv_join.clh"
#if POOLED
#define WINDOW_BEGINS(i) ((i) % 4 < 2)
#define WINDOW_SUMS \
    {               \
        0, 2        \
    }
#define WINDOW_PIXELS 2
#include "conv_nvidia/conv_mma_pool.clh"
#endif

/* Whether biases are read before the results that need them are stored, and not one by one: where tf32 windows are
 * gathered that costs 3 %. */
#define BIASES_FIRST (PRODUCTS == 3 || (PRODUCTS == 1 && GATHER == GATHER_WIDE))

#if GATHER == GATHER_ROWS
/* Sums of a work-item, for results that FN(whose) tells: filters are neighbours in memory. */
void FN(store)(const float sum[RESULTS], int k0, int ahead, const struct FN(tile) *t, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const long step = APART ? t->pixels : 1;
    float biases[BM / 4];
#pragma unroll
    for (int i = 0; i < BM / 4; i++) /* they arrive together, ahead of stores */
        biases[i] = EPI_BIAS && k0 + i / 2 * 8 + i % 2 < kg ? bias[first + i / 2 * 8 + i % 2] : 0.0f;
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (t->first + ahead + h * SECOND_PIXEL < t->pixels) {
            const struct FN(offsets) at = FN(offsets_of)(first, ahead + h * SECOND_PIXEL, t, a);
            const bool pairs = !APART && (ulong)(y + at.y) % (2 * Y_BYTES) == 0;
#pragma unroll
            for (int k = 0; k < BM; k += 8) {
                const bool present = k0 + k < kg, both = k0 + k + 1 < kg;
                const float *two = sum + k / 2 + 2 * h;
                float low = 0.0f, high = 0.0f;
                if (present)
                    low = STORED(two[0], biases, k / 4, LOAD_ADD(add, at.add + k * step), a);
                if (both)
                    high = STORED(two[1], biases, k / 4 + 1, LOAD_ADD(add, at.add + (k + 1) * step), a);
                if (both && pairs) {
                    STORE_Y2(low, high, y + at.y + k);
                } else {
                    if (present)
                        STORE_Y(low, y, at.y + k * step);
                    if (both)
                        STORE_Y(high, y, at.y + (k + 1) * step);
                }
            }
        }
}
#else
/* Sums of a work-item, for results that FN(whose) tells. */
void FN(store)(const float sum[RESULTS], int k0, int ahead, const struct FN(tile) *t, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const long step = APART ? t->pixels : (long)t->map;
    const ulong apart =
        APART ? t->pixels
              : (ulong)t->map | a->dst_n | (EPI_ADD > PIPELINED_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
    /* both pixels are neighbours in memory, on a boundary */
    const bool pairs = apart % 2 == 0 && (ulong)y % (2 * Y_BYTES) == 0;
    if (t->first + ahead < t->pixels) {
        const struct FN(offsets) at = FN(offsets_of)(first, ahead, t, a);
        if (pairs) {
#pragma unroll
            for (int j = 0; j < BM / 4; j += 8) { /* eight rows at once: what is read arrives together */
                float biases[8];
                float2 other[8];
#if EPI_BIAS && BIASES_FIRST
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (k0 + (j + i) / 2 * 8 + i % 2 < kg)
                        biases[i] = bias[first + (j + i) / 2 * 8 + i % 2];
#endif
#if EPI_ADD && !PIPELINED_ADD
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (k0 + (j + i) / 2 * 8 + i % 2 < kg)
                        other[i] = LOAD_ADD2(add + at.add + ((j + i) / 2 * 8 + i % 2) * step);
#endif
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int of = (j + i) / 2, e = i % 2, k = of * 8 + e;
                    const float two[2] = {other[i].x, other[i].y};
                    if (k0 + k < kg) {
#if EPI_BIAS && !BIASES_FIRST
                        biases[i] = bias[first + k];
#endif
                        STORE_Y2(STORED(sum[4 * of + e], biases, i, two[0], a),
                                 STORED(sum[4 * of + 2 + e], biases, i, two[1], a), y + at.y + k * step);
                    }
                }
            }
        } else {
            const bool both = t->first + ahead + 1 < t->pixels;
            const struct FN(offsets) next = FN(offsets_of)(first, ahead + both, t, a);
#pragma unroll
            for (int j = 0; j < BM / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int k = 8 * j + e;
                    if (k0 + k < kg) {
                        STORE_Y(STORED(sum[4 * j + e], bias, first + k, LOAD_ADD(add, at.add + k * step), a), y,
                                at.y + k * step);
                        if (both)
                            STORE_Y(STORED(sum[4 * j + 2 + e], bias, first + k, LOAD_ADD(add, next.add + k * step), a),
                                    y, next.y + k * step);
                    }
                }
        }
    }
}
#endif

void FN(body)(ulong group, X_SRC x, SRC w, SRC scale, SRC shift, DST partial, DST arrived, SRC bias, ADD_SRC add,
              Y_DST y, const struct conv_mma_args *ma, local float4 *scratch)
{
    const struct conv_args *a = &ma->conv;
    const uint to = LOCAL_ADDRESS(scratch), full = to + STAGES * STAGE, empty = full + STAGES * 8;
#if !SEVERAL
    const struct FN(tile) only = FN(tile_of)(group, ma);
#endif
    GROUPS_RESIDENT(RESIDENT);
    LOCAL_BYTES(STAGES * (STAGE + 16) + 16);
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(full + i * 8, LOADERS + 1);
            BARRIER_INIT(empty + i * 8, 8);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(LOAD_REGISTERS);
        struct FN(pipeline) r = {0, 1};
        EACH_TILE(t)
#if SEVERAL
        if (tile != group)
            FN(prefetch)(x, add, false, LOADER, LOADERS, &t, a);
#endif
        r = FN(load)(r, x, w, scale, shift, to, full, empty, &t, ma);
#if PIPELINED_ADD
        r = FN(load_add)(r, add, to, full, empty, &t, a);
#endif
    }
}
else
{
    REGISTERS_MORE(MULTIPLY_REGISTERS);
    const int lane = LANE % 32, ahead = LANE / 32 * 16 + lane / 4 * (GATHER == GATHER_ROWS ? 1 : 2);
    const local float *stage = (const local float *)scratch + SLAB;
    const local PIXEL_T *pixels = (const local PIXEL_T *)stage;
    struct FN(pipeline) r = {0, 0};
    EACH_TILE(t)
    const int k0 = t.block * BM + lane % 4 * 2;
    float sum[RESULTS];
#if SEVERAL
    if (tile == group) /* the others are asked for by those who load, who are ahead */
#endif
        FN(prefetch)(x, add, GATHER == GATHER_TAPS && t.block == 0, LANE, 256, &t, a);
    const uint odd = FN(odd)(x, ahead, lane % 4, &t, ma) | FN(odd)(x, ahead + SECOND_PIXEL, lane % 4, &t, ma) << 1;
    r = FN(multiply)(r, sum, pixels + B_AT(lane % 4, ahead), stage + B_FLOATS + lane % 4, odd, to, full, empty, &t, ma);
#if PIPELINED_ADD
    r = FN(add_loaded)(r, sum, pixels + B_AT(lane % 4 * 2, ahead), full, empty, &t, a);
#endif
#if SPLIT == 2
    const uint of = (uint)GROUP_TILE % (uint)ma->each;
    if (FN(fixup)(sum, k0, ahead, &t, x, w, scale, shift, (global float4 *)partial + (long)of * ma->split_k * PARTIALS,
                  (global uint *)arrived + of, (uint)ma->split_k - 1, ma,
                  (local uint *)scratch + STAGES * (STAGE + 16) / 4))
#endif
#if POOLED
        FN(store_windows)(sum, k0, ahead, &t, x, w, scale, shift, bias, y, ma);
#else
    FN(store)(sum, k0, ahead, &t, bias, add, y, a);
#endif
#if MENDS
    FN(mend)(sum, k0, ahead, &t, x, w, scale, shift, bias, add, y, ma);
#endif
}
}
barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC scale, ulong scale_off, SRC shift, ulong shift_off,
                DST partial, ulong partial_off, DST arrived, ulong arrived_off, SRC bias, ulong bias_off, ADD_SRC add,
                ulong add_off, Y_DST y, ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, scale + scale_off, shift + shift_off, partial + partial_off,
             arrived + arrived_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
