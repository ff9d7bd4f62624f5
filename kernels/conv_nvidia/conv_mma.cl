/* conv_mma.cl: convolution in up to three dimensions as a matrix product on NVIDIA tensor cores, columns gathered by
 * asynchronous copies on the way to local memory.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * (and the same with a third dimension in front) with depth d = tap * padded + c, tap = r * S + s; `padded` >=
 * C/groups, and what lies beyond the channels or the window counts for nothing. PRODUCTS 3 multiplies float32 as sums
 * of two tf32 values (hi*lo + lo*hi + hi*hi) and adds up 8 of depth at a time in float32: the error of a float32 sum.
 * PRODUCTS 1 rounds operands to tf32, PRODUCTS 0 pixels to halves, as which filters are stored.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_mma_pack.cl. With SPLIT 1 and 2 group `split` of a
 * tile's `split_k` computes chunks split*share.. of the depth, and y is partial[split][K][N*P*Q] for conv_sum_parts.cl,
 * or conv_join.clh puts them together.
 * Index map: group = ((split * conv groups + conv group) * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh,
 * ow)) * blocks of filters + block. A warp (32 work-items) computes BM/WM filters by BN/(WARPS/WM) pixels.
 * Work-group: WG. Local memory: STAGES chunks of BK of depth of both operands, at most 47 KiB.
 * GATHER says how pixels come (the GATHER_ names in conv_nvidia_args.h).
 * A sum that is not a number is computed again by its definition, since the split of an infinity is not one.
 * PHASES 1: a transposed convolution, whose phases are conv groups of their own (conv_mma_phases.clh); w packed by
 * conv_transpose_mma_pack.cl.
 * Defines: PRE, PRE_ACT, PHASES, POOLED, VOLUME (conv_mma.clh), WG 128, 256 or 512, BM, BN (multiples of 32), WM (warps
 * along filters), BK 16 or 32, GATHER any GATHER_ name, SPLIT 0 to 2,
 * PRODUCTS 0, 1 or 3, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF, ADD_HALF, Y_HALF (maps.clh); all but the last
 * six required by FN(main). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) conv_mma_##x
#endif
#ifndef GATHER
#error "GATHER is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */

/* Filter k of conv group g at depth d. */
float FN(packed)(SRC w, int g, int k, int d, const struct conv_mma_args *a)
{
    const long block = (long)g * ((a->conv.k / a->conv.groups + 15) / 16) + k / 16;
#if PRODUCTS == 0
    return vload_half((block * a->depth + d / 16 * 16) * 16 + k % 8 * 32 + d % 4 * 8 + d / 8 % 2 * 4 + k / 8 % 2 * 2 +
                          d / 4 % 2,
                      (const global half *)w);
#else
    return w[(block * a->depth + d / 8 * 8) * 16 + k % 8 * 16 + d % 4 * 4 + d / 4 % 2 * 2 + k / 8 % 2];
#endif
}

#undef APART
#define APART (SPLIT == 1)
#include "conv_nvidia/conv_mma.clh"
#define WARPS (WG / 32)
#define MI (BM / WM / 16)             /* fragments of a warp: filters */
#define NJ (BN / (WARPS / WM) / 8)    /* pixels */
#define UNIT (PRODUCTS == 0 ? 16 : 8) /* of depth that tensor cores multiply at once */
#define STEPS (BK / UNIT)
#define BLOCK_FLOATS (PRODUCTS == 0 ? 8 : 16) /* of memory for 16 filters at one depth */
#define BLOCK_COPIES (BK * BLOCK_FLOATS / 4)  /* of 16 bytes, of a chunk of 16 filters */
#define A_FLOATS (BM / 16 * BK * BLOCK_FLOATS)
#define GATHER_STEP BK
#define LOADERS WG
#define LOADER LANE
#include "conv_nvidia/conv_gather.clh"
/* Column c of fragment j: pairs of fragments interleave, so that two pixels are loaded at once and a work-item's four
 * results of a pair are neighbours. */
#if GATHER == GATHER_ROWS
#define PIXEL(j, c) ((j)*8 + (c))
#else
#define PIXEL(j, c) ((j) / 2 * 16 + (c)*2 + (j) % 2)
#endif
#define STAGE (A_FLOATS + B_FLOATS + PARAMETERS)
#define FITTING (12032 / STAGE)
#define STAGES (FITTING > 4 ? 4 : FITTING)
#define FILTER_COPIES ((BM / 16 * BLOCK_COPIES + WG - 1) / WG)

/* Packed filters of one chunk; missing blocks of 16 are zeros. */
void FN(load_filters)(uint to, const global float *from, int missing_from, int depth)
{
    const int first = LANE / BLOCK_COPIES;
    to += (uint)LANE * 16;
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; i++) {
        const int ahead = i * (WG / BLOCK_COPIES);
        if (FILTER_COPIES > 1 || first < BM / 16)
            COPY16(to + i * WG * 16, from + (first + ahead < missing_from ? (long)ahead * depth * BLOCK_FLOATS : 0),
                   first + ahead < missing_from ? 16 : 0);
    }
}

/* Column c of every fragment at this work-item's depth of four from `at` on, and of the next four; bit j of `odd`
 * belongs to fragment j (FN(odd) of conv_gather.clh). */
void FN(read_pixels)(float v[2][NJ], const local PIXEL_T *bs, int at, uint odd)
{
    const int lane = LANE % 32, first = LANE / 32 / WM * NJ * 8;
#if GATHER == GATHER_ROWS
    const local PIXEL_T *row = bs + B_AT(at + lane / 8 % 2 * 4, first + lane / 16 * 8 + lane % 8);
#pragma unroll
    for (int j = 0; j < NJ; j += 2) {
        float four[4];
        LOCAL_TILES(four, LOCAL_ADDRESS(row + B_AT(0, j * 8)));
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i % 2][j + i / 2] = four[i];
    }
#else
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
        for (int j = 0; j < NJ; j += 2)
            vstore2(FN(two_pixels)(bs + B_AT(at + 4 * e + lane % 4, first + PIXEL(j, lane / 4)), odd >> j), 0,
                    v[e] + j);
#endif
}

/* d = a b (`first`) or d += a b for every pair of fragments. */
void FN(add_products)(float d[MI][NJ][4], uint a[MI][4], uint b[NJ][2], bool first)
{
#pragma unroll
    for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NJ; j++)
#if PRODUCTS == 0
            MMA_HALF(d[i][j], a[i], b[j]);
#else
            if (first)
                MMA_FIRST(d[i][j], a[i], b[j]);
            else
                MMA(d[i][j], a[i], b[j]);
#endif
}

/* The same, prepared. */
void FN(prepare_pixels)(float v[2][NJ], const local PIXEL_T *bs, const local float *of, int at, uint odd,
                        const struct conv_mma_args *ma)
{
    FN(read_pixels)(v, bs, at, odd);
#if PRE
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int d = at + 4 * e + LANE % 4;
        const float s = of[d], b = of[BK + d];
#pragma unroll
        for (int j = 0; j < NJ; j++)
            v[e][j] = PREPARED(v[e][j], s, b, ma);
    }
#endif
}

/* A work-item's share of a step of depth, as it lies in local memory; with PRODUCTS 0 as halves. */
struct FN(fragments) {
    uint a[MI][4], b[NJ][2];
};

/* `mine`: this work-item's share of the filters. */
void FN(read_step)(struct FN(fragments) *f, const local float *mine, const local PIXEL_T *bs, const local float *of,
                   int step, uint odd, const struct conv_mma_args *ma)
{
#pragma unroll
    for (int i = 0; i < MI; i++)
        vstore4(as_uint4(*(const local float4 *)(mine + (i * BK / UNIT + step) * 128)), 0, f->a[i]);
#if PRODUCTS == 0
#pragma unroll
    for (int e = 0; e < 2; e++) {
#if X_HALF && !PRE
        const local PIXEL_T *first = bs + B_AT(step * UNIT + LANE % 4 + 8 * e, LANE / 32 / WM * NJ * 8);
#pragma unroll
        for (int j = 0; j < NJ; j += 2) {
            const local PIXEL_T *at = first + PIXEL(j, LANE % 32 / 4);
            const uint2 two = FN(pair_pixels)(at, at + B_AT(4, 0), odd >> j);
            f->b[j][e] = two.x;
            f->b[j + 1][e] = two.y;
        }
#else
        float v[2][NJ];
        FN(prepare_pixels)(v, bs, of, step * UNIT + 8 * e, odd, ma);
#pragma unroll
        for (int j = 0; j < NJ; j++)
            HALVES_OF(f->b[j][e], v[0][j], v[1][j]);
#endif
    }
#else
    float v[2][NJ];
    FN(prepare_pixels)(v, bs, of, step * UNIT, odd, ma);
#pragma unroll
    for (int j = 0; j < NJ; j++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            f->b[j][e] = as_uint(v[e][j]);
#endif
}

/* sum += filters by pixels of one step. */
void FN(multiply_step)(float sum[MI][NJ][4], struct FN(fragments) *f)
{
#if PRODUCTS == 3
    float d[MI][NJ][4];
    uint al[MI][4], bl[NJ][2];
#pragma unroll
    for (int i = 0; i < MI * 4; i++) {
        const float w = as_float(f->a[i / 4][i % 4]);
        f->a[i / 4][i % 4] = TF32_ROUNDED(w);
        al[i / 4][i % 4] = TF32_LOW(w, f->a[i / 4][i % 4]);
    }
#pragma unroll
    for (int j = 0; j < NJ * 2; j++) {
        const float v = as_float(f->b[j / 2][j % 2]);
        f->b[j / 2][j % 2] = TF32_ROUNDED(v);
        bl[j / 2][j % 2] = TF32_LOW(v, f->b[j / 2][j % 2]);
    }
    FN(add_products)(d, al, f->b, true);
    FN(add_products)(d, f->a, bl, false);
    FN(add_products)(d, f->a, f->b, false);
#pragma unroll
    for (int i = 0; i < MI * NJ * 4; i++)
        sum[i / 4 / NJ][i / 4 % NJ][i % 4] += d[i / 4 / NJ][i / 4 % NJ][i % 4];
#else             /* rounding operands loses more than cutting sums */
#if PRODUCTS == 1 /* who packed the filters rounded them */
#pragma unroll
    for (int j = 0; j < NJ * 2; j++)
        f->b[j / 2][j % 2] = TF32_NEAR(as_float(f->b[j / 2][j % 2]));
#endif
    FN(add_products)(sum, f->a, f->b, false);
#endif
}

void FN(clear)(float d[MI][NJ][4])
{
#pragma unroll
    for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NJ; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                d[i][j][e] = 0.0f;
}

/* sum += filters by pixels of the chunk that lies in local memory; `of`: its scales and shifts. */
void FN(multiply)(const local float *as, const local PIXEL_T *bs, const local float *of, float sum[MI][NJ][4], uint odd,
                  const struct conv_mma_args *ma)
{
    const int lane = LANE % 32, warp = LANE / 32;
    const local float *mine = as + (warp % WM) * MI * BK * BLOCK_FLOATS + lane * 4;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        struct FN(fragments) f;
        FN(read_step)(&f, mine, bs, of, step, odd, ma);
        FN(multiply_step)(sum, &f);
    }
}

/* Biases of filters first + 8 * h, of which there are `left` from the first on: they arrive together, ahead of
 * stores. */
void FN(read_biases)(float biases[2 * MI], SRC bias, int first, int left)
{
#pragma unroll
    for (int h = 0; h < 2 * MI; h++)
        biases[h] = EPI_BIAS && 8 * h < left ? bias[first + 8 * h] : 0.0f;
}

/* Results of a work-item for filters k0 + 8 * h, h < 2 * MI, of conv group t->g, and columns 2 * c and 2 * c + 1 of
 * the fragments, of which `ahead` is the first pixel. */
void FN(store)(float sum[MI][NJ][4], int k0, int ahead, int c, const struct FN(tile) *t, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const int count = (int)min((long)BN, t->pixels - t->first);
    const long step = 8 * FILTER_STEP(t);
    float biases[2 * MI];
    FN(read_biases)(biases, bias, first, kg - k0);
#pragma unroll
    for (int j = 0; j < NJ; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int pixel = ahead + PIXEL(j, 2 * c + e);
            if (pixel < count) {
                const struct FN(offsets) at = FN(offsets_of)(first, pixel, t, a);
                float other[2 * MI]; /* what is read arrives together */
#if EPI_ADD
#pragma unroll
                for (int h = 0; h < 2 * MI; h++)
                    if (k0 + 8 * h < kg)
                        other[h] = LOAD_ADD(add, at.add + h * step);
#endif
#pragma unroll
                for (int h = 0; h < 2 * MI; h++)
                    if (k0 + 8 * h < kg)
                        STORE_Y(EPILOGUE(sum[h / 2][j][h % 2 * 2 + e], biases, h, other, h, a), y, at.y + h * step);
            }
        }
}

#if GATHER != GATHER_ROWS && !PHASES
/* The same where four pixels that are neighbours in an image are so in memory, on a boundary of as many. */
void FN(store4)(float sum[MI][NJ][4], int k0, int ahead, int c, const struct FN(tile) *t, SRC bias, ADD_SRC add,
                Y_DST y, const struct conv_args *a)
{
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    const int count = (int)min((long)BN, t->pixels - t->first);
    const long step = 8 * FILTER_STEP(t);
    float biases[2 * MI];
    FN(read_biases)(biases, bias, first, kg - k0);
#pragma unroll
    for (int j = 0; j < NJ; j += 2)
        if (ahead + PIXEL(j, 2 * c) < count) {
            const struct FN(offsets) at = FN(offsets_of)(first, ahead + PIXEL(j, 2 * c), t, a);
            float4 other[2 * MI];
#if EPI_ADD
#pragma unroll
            for (int h = 0; h < 2 * MI; h++)
                if (k0 + 8 * h < kg)
                    other[h] = LOAD_ADD4(add + at.add + h * step);
#endif
#pragma unroll
            for (int h = 0; h < 2 * MI; h++)
                if (k0 + 8 * h < kg) {
                    const int e = h % 2 * 2;
                    const float four[4] = {other[h].x, other[h].y, other[h].z, other[h].w};
                    const float4 result = (float4)(EPILOGUE(sum[h / 2][j][e], biases, h, four, 0, a),
                                                   EPILOGUE(sum[h / 2][j + 1][e], biases, h, four, 1, a),
                                                   EPILOGUE(sum[h / 2][j][e + 1], biases, h, four, 2, a),
                                                   EPILOGUE(sum[h / 2][j + 1][e + 1], biases, h, four, 3, a));
                    STORE_Y4(result, y + at.y + h * step);
                }
        }
}
#endif

/* Whether there is such a result as sum i of this work-item, and which: filter k of the conv group, pixel of the
 * tile. */
bool FN(whose)(int i, int k0, int ahead, const struct FN(tile) *t, const struct conv_args *a, int *k, int *pixel)
{
    *k = k0 + i / 4 / NJ * 16 + i / 2 % 2 * 8;
    *pixel = ahead + PIXEL(i / 4 % NJ, LANE % 4 * 2 + i % 2);
    return *k < a->k / a->groups && t->first + *pixel < t->pixels;
}

#define FIXUP_ITEMS WG
#define SUMS (MI * NJ * 4)
#define FIXUP_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#include "conv_nvidia/conv_join.clh"
#if POOLED
#define WINDOW_BEGINS(i) ((i) % 8 < 4 && (i) % 2 == 0)
#define WINDOW_SUMS \
    {               \
        0, 4, 1, 5  \
    }
#define WINDOW_PIXELS 4
#include "conv_nvidia/conv_mma_pool.clh"
#endif

/* The end of a tile whose sums are complete. */
void FN(finish)(float sum[MI][NJ][4], int k0, int ahead, const struct FN(tile) *t, X_SRC x, SRC w, SRC scale, SRC shift,
                SRC bias, ADD_SRC add, Y_DST y, const struct conv_mma_args *ma)
{
    const struct conv_args *a = &ma->conv;
#if POOLED
    FN(store_windows)(&sum[0][0][0], k0, ahead, t, x, w, scale, shift, bias, y, ma);
#else
#if GATHER != GATHER_ROWS && !PHASES
    const ulong apart =
        APART ? t->pixels : (ulong)t->map | a->dst_n | (EPI_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
    if (apart % 4 == 0 && (ulong)y % (4 * Y_BYTES) == 0)
        FN(store4)(sum, k0, ahead, LANE % 4, t, bias, add, y, a);
    else
#endif
        FN(store)(sum, k0, ahead, LANE % 4, t, bias, add, y, a);
#if MENDS
    FN(mend)(&sum[0][0][0], k0, ahead, t, x, w, scale, shift, bias, add, y, ma);
#endif
#endif
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC scale, SRC shift, DST partial, DST arrived, SRC bias, ADD_SRC add,
              Y_DST y, const MMA_ARGS *all, local float4 *scratch)
{
#if PHASES
    struct conv_mma_args own;
    const struct FN(tile) t = FN(phase_tile)(group, all, &own);
    const struct conv_mma_args *ma = &own;
#else
    const struct conv_mma_args *ma = all;
    const struct FN(tile) t = FN(tile_of)(group, ma);
#endif
    const struct conv_args *a = &ma->conv;
    const int kg = a->k / a->groups, blocks16 = (kg + 15) / 16;
    local float *stage = (local float *)scratch;
    const uint to = LOCAL_ADDRESS(stage);
    struct FN(source) p = FN(source_of)(x, &t, ma);
    const int first16 = t.block * (BM / 16) + LANE / BLOCK_COPIES;
    const int missing_from = blocks16 - t.block * (BM / 16);
    const global float *wp =
        w + ((long)PACKED_GROUP(&t) * blocks16 + min(first16, blocks16 - 1)) * ma->depth * BLOCK_FLOATS +
        (long)t.chunk * (BK * BLOCK_FLOATS) + LANE % BLOCK_COPIES * 4;
    float sum[MI][NJ][4];
    FN(clear)(sum);

#if EPI_ADD && BN >= 64 && !SPLIT && !PHASES
    FN(prefetch)(x, add, false, LANE, WG, &t, a);
#endif
    uint odd = 0;
#if X_HALF
#pragma unroll
    for (int j = 0; j < NJ; j++)
        odd |= FN(odd)(x, LANE / 32 / WM * NJ * 8 + PIXEL(j, LANE % 32 / 4), LANE % 4, &t, ma) << j;
#endif
    struct FN(tap_walk) walk = FN(tap_walk_of)(odd, &t, ma);
    int next = t.chunk, slot = 0; /* chunk and stage of the next batch of copies */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (next < t.end) {
            FN(load_filters)(to + i * STAGE * 4, wp, missing_from, ma->depth);
            FN(load_pixels)(to + (i * STAGE + A_FLOATS) * 4, &p, next, ma, &t);
            FN(load_parameters)(to + (i * STAGE + A_FLOATS + B_FLOATS) * 4, scale, shift, next, &t, ma);
            wp += BK * BLOCK_FLOATS;
            next++;
        }
        COPIES_CLOSE;
    }
    int fill = STAGES - 1;
    for (int chunk = t.chunk; chunk < t.end; chunk++) {
        COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < t.end) {
            FN(load_filters)(to + fill * STAGE * 4, wp, missing_from, ma->depth);
            FN(load_pixels)(to + (fill * STAGE + A_FLOATS) * 4, &p, next, ma, &t);
            FN(load_parameters)(to + (fill * STAGE + A_FLOATS + B_FLOATS) * 4, scale, shift, next, &t, ma);
            wp += BK * BLOCK_FLOATS;
            next++;
        }
        COPIES_CLOSE;
        fill = fill + 1 == STAGES ? 0 : fill + 1;
        FN(multiply)(stage + slot * STAGE, (const local PIXEL_T *)(stage + slot * STAGE + A_FLOATS),
                     stage + slot * STAGE + A_FLOATS + B_FLOATS, sum, walk.odd, ma);
        FN(tap_walk_next)(&walk, ma);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }

    const int lane = LANE % 32, warp = LANE / 32, k0 = t.block * BM + warp % WM * MI * 16 + lane / 4;
    const int ahead = warp / WM * NJ * 8;
    bool whole = true;
#if SPLIT == 2
    const uint tile = (uint)group % (uint)ma->each;
    whole = FN(fixup)(&sum[0][0][0], k0, ahead, &t, x, w, scale, shift,
                      (global float4 *)partial + (long)tile * ma->split_k * PARTIALS, (global uint *)arrived + tile,
                      (uint)ma->split_k - 1, ma, (local uint *)scratch);
#endif
    if (whole)
        FN(finish)(sum, k0, ahead, &t, x, w, scale, shift, bias, add, y, ma);
    barrier(CLK_LOCAL_MEM_FENCE);
}

#if PHASES
KERNEL FN(phases)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC scale, ulong scale_off, SRC shift, ulong shift_off,
                  DST partial, ulong partial_off, DST arrived, ulong arrived_off, SRC bias, ulong bias_off, ADD_SRC add,
                  ulong add_off, Y_DST y, ulong y_off, const struct conv_phases_mma_args a)
{
    local float4 scratch[STAGES * STAGE / 4];
    FN(body)(GROUP, x + x_off, w + w_off, scale + scale_off, shift + shift_off, partial + partial_off,
             arrived + arrived_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#else
KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC scale, ulong scale_off, SRC shift, ulong shift_off,
                DST partial, ulong partial_off, DST arrived, ulong arrived_off, SRC bias, ulong bias_off, ADD_SRC add,
                ulong add_off, Y_DST y, ulong y_off, const struct conv_mma_args a)
{
    local float4 scratch[STAGES * STAGE / 4];
    FN(body)(GROUP, x + x_off, w + w_off, scale + scale_off, shift + shift_off, partial + partial_off,
             arrived + arrived_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
#endif
