/* conv_wgmma_halves.cl: convolutions of one pixel at stride 1, and rows of linear layers, on Hopper's tensor cores
 * (compute capability 9.0) as products of scaled halves, which both operands are before it starts.
 *
 *   y[n][k][p] = act( sum_c w[k][c] x[n][c][p] + bias[k] + add )
 *
 * Both operands come by bulk copies of a chunk of DEPTH channels, and tensor cores read them where they lie. Each of
 * the first TEAMS warpgroups multiplies its share of a tile's positions; one work-item behind them copies. Positions
 * are pixels of all images one behind another; with DEEP 1 images are one pixel, as rows of linear layers are.
 * Layouts: x in cores (common/cores.clh): with GIVEN 0 by conv_halves.cl, with what undoes the scale of each position;
 * with GIVEN 1 as the step before has left it, with one scale; with PAIRS 1 as pairs of halves, as w is, of whose four
 * products three are taken (what is left out is below 2^-22 of a product), and whose sums are added up in float32 every
 * CUT channels, since tensor cores cut theirs. w packed by conv_wgmma_scaled_pack.cl, with ALL_FILTERS
 * 1 or GAINS 0. add NCHW with a batch stride, and y, too, or in cores with CORES 1.
 * Index map: a group computes tiles group, group + at_once, ...; tile = tile of positions * blocks of BM filters +
 * block.
 * Work-group: WG. Local memory: HALVES_LOCAL(BN) bytes (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 384, or 160 with BN 64; DEEP, GIVEN, PAIRS, CORES 0 or 1; BM 192, 128, 64 or 32, BN 64 or a multiple of
 * 128 (BM * BN / 128 / TEAMS results of a work-item fit registers), DEPTH 64 or 32, EPI_BIAS, EPI_ADD, EPI_ACT
 * (epilogue.clh); all but the last three required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/cores.clh"
#ifndef FN
#define FN(x) conv_wgmma_halves_##x
#endif
#ifndef DEPTH
#error "DEPTH is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define PRODUCTS 1
#define WGMMA_HALVES 1
#define WGMMA_WIDTH BM
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_local.clh"
#include "conv_nvidia/wgmma_ring.clh"
#define TEAMS (BN == 64 ? 1 : 2)
#define MULTIPLIERS (128 * TEAMS)
#define MULTIPLIERS_TOGETHER asm volatile("bar.sync 1, %0;" ::"n"(MULTIPLIERS) : "memory")
#define ROWS (BN / 64 / TEAMS) /* of 64 positions, of a warpgroup */
#define SPOTS (2 * ROWS)       /* positions of a work-item */
#define RESULTS (BM / 2)       /* and results, of such a row */
#define COLUMNS (BM / 8)       /* of eight filters */
/* Columns of what is added that a work-item holds: few are asked for before the products. */
#define EARLY (EPI_ADD && TEAMS == 1 && BM <= (PAIRS ? 64 : 128))
#define HELD (EARLY ? COLUMNS : 2)
#define STAGE ((BN + BM) * DEPTH * 2 * CORES_PARTS)
#define CUT 32 /* divides DEPTH */
#define MOST_STAGES 8
#define COPY_REGISTERS 24
#define MULTIPLY_REGISTERS 240
/* Bytes of a stage: 64 positions after 64 positions, then filters. */
#define PIXELS_64 (64 * DEPTH * 2 * CORES_PARTS)
#define PIXELS (BN / 64 * PIXELS_64)
#define FILTERS (BM * DEPTH * 2 * CORES_PARTS)
/* Local memory: barriers of stages; for two tiles, what undoes the scales of their filters, and their biases;
 * stages. */
#define EMPTY_AT (8 * MOST_STAGES)
#define FILTERS_AT (2 * EMPTY_AT)
#define STAGES_AT (FILTERS_AT + 4 * BM * 4)
#define FITTING ((HALVES_LOCAL(BN) - STAGES_AT) / STAGE)
#define STAGES (FITTING > MOST_STAGES ? MOST_STAGES : FITTING)

/* Filters block * BM.., positions first.. */
struct FN(tile) {
    int block, first;
};

uint FN(blocks)(const struct conv_halves_args *h)
{
    return (uint)(h->conv.k + BM - 1) / BM;
}

struct FN(tile) FN(tile_of)(uint tile, const struct conv_halves_args *h)
{
    const uint of = tile / FN(blocks)(h);
    return (struct FN(tile)){(int)(tile - of * FN(blocks)(h)), (int)of * BN};
}

/* The work-item that copies. */
void FN(load)(uint group, SRC x, SRC w, uint to, const struct conv_halves_args *h)
{
    struct FN(pipeline) r = {0, 1};
    const int c = h->padded;
    for (uint tile = group; tile < (uint)h->tiles; tile += (uint)h->at_once) {
        const struct FN(tile) t = FN(tile_of)(tile, h);
        const global float *from_x = x + (long)t.first * (c / 2 * CORES_PARTS);
        const global float *from_w = w + (long)t.block * (BM * (c / 2 * CORES_PARTS));
        for (int chunk = 0; chunk < h->chunks; chunk++) {
            const uint bar = to + r.stage * 8, stage = to + STAGES_AT + r.stage * STAGE;
            FN(wait)(bar + EMPTY_AT, r.parity);
            BARRIER_EXPECT(bar, STAGE);
#pragma unroll
            for (int i = 0; i < BN / 64; i++)
                BULK_COPY(stage + i * PIXELS_64, from_x + i * 64 * (c / 2 * CORES_PARTS), PIXELS_64, bar);
            BULK_COPY(stage + PIXELS, from_w, FILTERS, bar);
            from_x += PIXELS_64 / 4;
            from_w += FILTERS / 4;
            r = FN(next)(r, STAGES);
        }
    }
}

#if PAIRS
/* The sums of a warpgroup's work-item; `team`: which warpgroup it is. */
void FN(multiply)(float sum[ROWS][RESULTS], struct FN(pipeline) *pipeline, int team, uint to,
                  const struct conv_halves_args *h)
{
    struct FN(pipeline) r = *pipeline;
    float d[RESULTS];
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        d[i] = 0.0f;
#pragma unroll 1
    for (int chunk = 0; chunk < h->chunks; chunk++) {
        const uint stage = to + STAGES_AT + r.stage * STAGE, x = stage + team * PIXELS_64, w = stage + PIXELS;
        FN(wait)(to + r.stage * 8, r.parity);
#pragma unroll
        for (int first = 0; first < DEPTH / 16; first += CUT / 16) {
            WGMMA_OPEN;
#pragma unroll
            for (int part = 0; part < 3; part++) /* the small products first */
#pragma unroll
                for (int q = first; q < first + CUT / 16; q++)
                    WGMMA_LOCAL(d, LOCAL_MATRIX(x + q * 4096 + (part == 0) * 2048, 128, 256),
                                LOCAL_MATRIX(w + q * (BM * 64) + (part == 1) * (BM * 32), 128, 256), part + q - first);
            WGMMA_CLOSE;
            WGMMA_LEFT(0);
            KEEP_RESULTS(d);
#pragma unroll
            for (int i = 0; i < RESULTS; i++)
                sum[0][i] += d[i];
        }
        FN(release)(to + EMPTY_AT + r.stage * 8);
        r = FN(next)(r, STAGES);
    }
    *pipeline = r;
}
#else
/* The sums of a warpgroup's work-item; `team`: which warpgroup it is. */
void FN(multiply)(float d[ROWS][RESULTS], struct FN(pipeline) *pipeline, int team, uint to,
                  const struct conv_halves_args *h)
{
    struct FN(pipeline) r = *pipeline;
    uint before = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < h->chunks; chunk++) {
        const uint stage = to + STAGES_AT + r.stage * STAGE, x = stage + team * (ROWS * PIXELS_64), w = stage + PIXELS;
        FN(wait)(to + r.stage * 8, r.parity);
        WGMMA_OPEN;
#pragma unroll
        for (int q = 0; q < DEPTH / 16; q++)
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                WGMMA_LOCAL(d[m], LOCAL_MATRIX(x + m * PIXELS_64 + q * 2048, 128, 256),
                            LOCAL_MATRIX(w + q * (BM * 32), 128, 256), chunk + q);
        WGMMA_CLOSE;
        if (chunk > 0) {
            WGMMA_LEFT(1);
            FN(release)(before);
        }
        before = to + EMPTY_AT + r.stage * 8;
        r = FN(next)(r, STAGES);
    }
    *pipeline = r;
    WGMMA_LEFT(0);
#pragma unroll
    for (int m = 0; m < ROWS; m++)
        KEEP_RESULTS(d[m]);
    FN(release)(before);
}
#endif

/* Where y and add have filter 0 of this work-item's positions, and what undoes their scales; `there`: bit i tells
 * whether there is position i. */
struct FN(spots) {
    int to[SPOTS], other[SPOTS];
    float back[SPOTS];
    uint there;
};

struct FN(spots) FN(spots_at)(int first, SRC back, const struct conv_halves_args *h)
{
    const struct conv_args *a = &h->conv;
    const uint plane = DEEP ? 1 : (uint)(a->out[1] * a->out[2]);
    struct FN(spots) s;
    s.there = 0;
#pragma unroll
    for (int i = 0; i < SPOTS; i++) {
        const int u = first + i / 2 * 64 + i % 2 * 8;
        const uint n = DEEP ? (uint)u : (uint)u / plane, pixel = DEEP ? 0 : (uint)u - n * plane;
        s.to[i] = CORES ? CORES_POSITION(u, a->k) : (int)(n * (uint)a->dst_n + pixel);
        s.other[i] = (int)(n * (uint)a->add_n + pixel);
        s.back[i] = GIVEN ? h->back : back[u];
        s.there |= (u < h->positions ? 1u : 0u) << i;
    }
    return s;
}

/* Filters of this work-item's results: `k` + 8 * j + e, `plane` elements between them; whether pairs of them lie on
 * boundaries of 8 bytes in y and in add. */
struct FN(columns) {
    int k, plane;
    bool pairs, add_pairs;
};

/* What is added to filters of column `j`. */
void FN(added)(float2 more[SPOTS], SRC add, const struct FN(spots) *s, int j, const struct FN(columns) *c,
               const struct conv_halves_args *h)
{
    const int k = c->k + j * 8, filters = h->conv.k - k;
#pragma unroll
    for (int i = 0; i < SPOTS; i++) {
        const global float *from = add + s->other[i] + (long)k * c->plane;
        const int there = s->there >> i & 1 ? filters : 0;
        more[i] = (float2)(0.0f);
        if (there > 1 && c->add_pairs)
            more[i] = *(const global float2 *)from;
        else if (there > 0)
            more[i] = (float2)(from[0], there > 1 ? from[c->plane] : 0.0f);
    }
}

void FN(put)(float2 v, DST to, int there, const struct FN(columns) *c)
{
    if (there > 1 && c->pairs) {
        *(global float2 *)to = v;
    } else if (there > 0) {
        to[0] = v.x;
        if (there > 1)
            to[c->plane] = v.y;
    }
}

/* Two channels of a position in cores: a warp's are a whole core. */
void FN(put_halves)(float2 v, DST y, int at, bool there)
{
    global uint *to = (global uint *)((global ushort *)y + at);
    uint of, low;
#if PAIRS
    TWO_HALVES_OF(of, low, v.x, v.y);
    if (there)
        to[CORES_LOW / 2] = low;
#else
    HALVES_OF(of, v.x, v.y);
#endif
    if (there)
        to[0] = of;
}

/* Stores the sums of a work-item. `undo`: what undoes the scales of its filters, and their biases BM further, in local
 * memory from the first one on. more: what is added, if that was asked for early; else that of a column of filters is
 * before the one before is stored. */
void FN(store)(const float d[ROWS][RESULTS], float2 more[HELD][SPOTS], const local float *undo,
               const struct FN(spots) *s, const struct FN(columns) *c, SRC add, DST y, const struct conv_halves_args *h)
{
    const struct conv_args *a = &h->conv;
#if EPI_ADD && !EARLY
    FN(added)(more[0], add, s, 0, c, h);
#endif
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        const int k = c->k + j * 8;
        const float2 of = *(const local float2 *)(undo + j * 8), bias = *(const local float2 *)(undo + BM + j * 8);
#if EPI_ADD && !EARLY
        if (j + 1 < COLUMNS)
            FN(added)(more[(j + 1) % HELD], add, s, j + 1, c, h);
#endif
#pragma unroll
        for (int i = 0; i < SPOTS; i++) {
            float2 v = (float2)(d[i / 2][4 * j + 2 * (i % 2)] * (s->back[i] * of.x),
                                d[i / 2][4 * j + 2 * (i % 2) + 1] * (s->back[i] * of.y));
#if EPI_BIAS
            v += bias;
#endif
            v.x = EPILOGUE_END(v.x, more[j % HELD][i].x, a);
            v.y = EPILOGUE_END(v.y, more[j % HELD][i].y, a);
#if CORES
            FN(put_halves)(v * h->up, y, s->to[i] + CORES_CHANNEL(k), (s->there >> i & 1) && k < a->k);
#else
            FN(put)(v, y + s->to[i] + (long)k * c->plane, s->there >> i & 1 ? a->k - k : 0, c);
#endif
        }
    }
}

/* A warpgroup that multiplies. */
void FN(compute)(uint group, SRC back, SRC w, SRC bias, SRC add, DST y, const struct conv_halves_args *h,
                 local float *floats, uint to)
{
    const struct conv_args *a = &h->conv;
    const int lane = LANE % 128, ahead = LANE / 128 * (BN / TEAMS), chunks = h->padded / SCALED_CHANNELS(1);
    const int row = lane / 32 * 16 + lane % 32 / 4, column = lane % 4 * 2;
    const global float *undo = w + (long)FN(blocks)(h) * (h->padded / 2 * BM * CORES_PARTS + chunks * SCALED_GAINS(1));
    local float *filters = floats + FILTERS_AT / 4;
    struct FN(pipeline) pipeline = {0, 0};
    struct FN(columns) columns;
    columns.plane = DEEP ? 1 : a->out[1] * a->out[2];
    columns.pairs = DEEP && (((ulong)y / 4 | (ulong)a->dst_n) & 1) == 0;
    columns.add_pairs = DEEP && (((ulong)add / 4 | (ulong)a->add_n) & 1) == 0;
    for (uint tile = group; tile < (uint)h->tiles; tile += (uint)h->at_once) {
        const struct FN(tile) t = FN(tile_of)(tile, h);
        const int k = t.block * BM + LANE;
        const float undo_of = LANE < BM ? undo[k] : 0.0f, bias_of = EPI_BIAS && LANE < BM && k < a->k ? bias[k] : 0.0f;
        float d[ROWS][RESULTS];
        float2 more[HELD][SPOTS];
#pragma unroll
        for (int i = 0; i < ROWS * RESULTS; i++)
            d[i / RESULTS][i % RESULTS] = 0.0f;
        const struct FN(spots) spots = FN(spots_at)(t.first + ahead + row, back, h);
        columns.k = t.block * BM + column;
#if EARLY
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            FN(added)(more[j], add, &spots, j, &columns, h);
#endif
        FN(multiply)(d, &pipeline, LANE / 128, to, h);
        /* some may still read those of the tile before */
        filters = floats + FILTERS_AT / 4 + (filters == floats + FILTERS_AT / 4) * (2 * BM);
        if (LANE < BM) {
            filters[LANE] = undo_of;
            filters[BM + LANE] = bias_of;
        }
        MULTIPLIERS_TOGETHER;
        FN(store)(d, more, filters + column, &spots, &columns, add, y, h);
    }
}

void FN(body)(ulong group, SRC x, SRC back, SRC w, SRC bias, SRC add, DST y, const struct conv_halves_args *h,
              local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch);
    GROUPS_RESIDENT(HALVES_RESIDENT(BN));
    LOCAL_BYTES(HALVES_LOCAL(BN));
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(to + i * 8, 1);
            BARRIER_INIT(to + EMPTY_AT + i * 8, MULTIPLIERS / 32);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= MULTIPLIERS) {
        if (TEAMS == 2)
            REGISTERS_LESS(COPY_REGISTERS);
        if (LANE == MULTIPLIERS)
            FN(load)((uint)group, x, w, to, h);
    } else {
        if (TEAMS == 2)
            REGISTERS_MORE(MULTIPLY_REGISTERS);
        FN(compute)((uint)group, back, w, bias, add, y, h, (local float *)scratch, to);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC back, ulong back_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add,
                ulong add_off, DST y, ulong y_off, const struct conv_halves_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, back + back_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
