/* conv_filter_grad_wgmma.cl: conv_filter_grad_mma.cl for Hopper's tensor cores (compute capability 9.0): the gradient
 * of a convolution's filters as an implicit matrix product of the windows of x, which go from local memory to
 * registers, and of dy, which the tensor cores read in local memory.
 *
 *   dw[k][c][t] = sum over n, o of dy[n][k][o] * x[n][g*C/g + c][o*stride - pad + t*dil]; g is the group of k
 *
 * The first two warpgroups (128 work-items) multiply, each 64 positions by BM filters. The third one loads BK of depth
 * at once to one of STAGES stages: windows by asynchronous copies, dy by way of registers, as cores of 8 filters by 4
 * depths of tf32 values (wgmma.clh), with PRODUCTS 3 those of high parts and then those of low ones; what it reads of
 * dy is on its way while it waits for a stage. PRODUCTS 3 adds up BK of depth at a time in float32. A sum that is no
 * finite number is computed again by its definition.
 * Layouts, index map, DY_WIDE, X_WIDE, SPLIT: as in conv_filter_grad_mma.cl; maps have BK pixels at least.
 * Work-group: WG. Local memory: STAGES stages and two barriers each, 160 KB (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 384, BM 128 or 64, BN 128, BK 16, DY_WIDE, X_WIDE, SPLIT 0 or 1, PRODUCTS 1 or 3; all required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) conv_filter_grad_wgmma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#define WGMMA_HALVES 0
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_ring.clh"
#define RESULTS (BM / 2)
#define PARTS (PRODUCTS == 3 ? 2 : 1)
#define PITCH (BK + 4)                           /* floats between positions; keeps the banks of a fragment apart */
#define CORES (BM * BK)                          /* floats of a part of dy */
#define STAGE ((PARTS * CORES + BN * PITCH) * 4) /* bytes */
#define STAGES (158000 / (STAGE + 16))
#define QUADS (BM / 32) /* of pixels of dy, that a work-item loads */
#define AHEAD 2
#define LOAD_REGISTERS 88
#define MULTIPLY_REGISTERS 208
#define LOADERS 128
#define LOADER (LANE - 256)
#define SIDE_AT(side, d) ((side)*PITCH + (d))
#define COLUMN_AT(apart) ((apart)*PITCH)
#define POSITIONS BN
#define FILTERS BM
#include "conv_nvidia/filter_grad.clh"

/* Filter and first depth of a loader's quad `i`: eight work-items side by side write eight rows of a core. */
#define QUAD_ROW(i) (LOADER % 8 + LOADER / 32 * 8 + (i)*32)
#define QUAD_DEPTH (LOADER / 8 % 4 * 4)

#define QUAD_AT(i) (QUAD_DEPTH / 8 * (BM * 8) + QUAD_DEPTH / 4 % 2 * 32 + QUAD_ROW(i) / 8 * 64 + QUAD_ROW(i) % 8 * 4)

/* A chunk of dy is on its way to local address `to`. */
void FN(load_quads)(uint to, const struct FN(tile) *t, const struct FN(walk) *w, const struct filter_grad_mma_args *f)
{
    const long apart = f->conv.dst_n;
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const int k = QUAD_ROW(i), bytes = k < t->rows && w->left > 0 ? 16 : 0;
        const global float *row = t->dy + (long)(t->row + k) * f->map;
        const uint at = to + 4 * (uint)QUAD_AT(i);
#if DY_WIDE
        if (((ulong)t->dy & 15) == 0)
            COPY16(at, row + w->n * apart + w->p, bytes);
        else
#pragma unroll
            for (int e = 0; e < 4; e++)
                COPY4(at + 4 * e, row + w->n * apart + w->p + e, bytes / 4);
#else
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool over = w->p + e >= f->map;
            COPY4(at + 4 * e, row + (over ? w->n + 1 : w->n) * apart + (over ? w->p + e - f->map : w->p + e),
                  k < t->rows && e < w->left ? 4 : 0);
        }
#endif
    }
}

/* This work-item's quads as tf32 values, in parts. */
void FN(round)(local float *cores)
{
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        local float4 *at = (local float4 *)(cores + QUAD_AT(i));
        const float4 v = at[0];
#if PRODUCTS == 3
        const float4 high =
            as_float4((uint4)(TF32_ROUNDED(v.x), TF32_ROUNDED(v.y), TF32_ROUNDED(v.z), TF32_ROUNDED(v.w)));
        at[0] = high;
        at[CORES / 4] = v - high;
#else
        at[0] = as_float4((uint4)(TF32_NEAR(v.x), TF32_NEAR(v.y), TF32_NEAR(v.z), TF32_NEAR(v.w)));
#endif
    }
}

/* The third warpgroup. */
void FN(load)(local float *stages, uint to, uint full, uint empty, const struct FN(tile) *t,
              const struct filter_grad_mma_args *f)
{
    const struct conv_args *a = &f->conv;
    const long from = (long)t->chunk * BK;
    struct FN(walk) wy = FN(walk_of)(from + QUAD_DEPTH, f);
    struct FN(walk) wx = FN(walk_of)(from + (X_WIDE ? LOADER % (BK / 4) * 4 : LOADER % BK), f);
    struct FN(pipeline) r = {0, 1}, behind = {0, 1};
    int2 at[COLUMNS];
    FN(find_columns)(at, t, a);
    for (int chunk = t->chunk; chunk < t->end + AHEAD; chunk++) {
        if (chunk < t->end) {
            const uint stage = to + r.stage * STAGE, windows = stage + PARTS * CORES * 4;
            FN(wait)(empty + r.stage * 8, r.parity);
            FN(load_quads)(stage, t, &wy, f);
#if X_WIDE
            const long plane = (long)a->in[1] * a->in[2];
            FN(load_fours)(windows, t->x + t->col * plane, a->src_n, plane, t->columns, BN, &wx);
#else
            FN(load_windows)(windows, t->x, at, &wx, a);
#endif
            FN(go_on)(&wx, f);
            FN(go_on)(&wy, f);
            r = FN(next)(r, STAGES);
        }
        COPIES_CLOSE; /* where nothing was begun, too: they are counted */
        if (chunk >= t->chunk + AHEAD) {
            COPIES_WAIT(AHEAD);
            FN(round)(stages + behind.stage * (STAGE / 4));
            LOCAL_VISIBLE;
            BARRIER_ARRIVE(full + behind.stage * 8);
            behind = FN(next)(behind, STAGES);
        }
    }
}

/* A work-item's share of the windows at v, 8 of depth, in parts. */
void FN(take)(uint high[2][4], uint low[2][4], const local float *v)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float x = v[i % 2 * 8 * PITCH + i / 4 * 8 + i / 2 % 2 * 4];
#if PRODUCTS == 3
        high[i / 4][i % 4] = TF32_HIGH(x);
        low[i / 4][i % 4] = TF32_LOW(x, high[i / 4][i % 4]);
#else
        high[i / 4][i % 4] = TF32_NEAR(x);
#endif
    }
}

/* The first two warpgroups; `windows`: of the work-item's first position and depth in stage 0. */
void FN(multiply)(float sum[RESULTS], const local float *windows, uint to, uint full, uint empty,
                  const struct FN(tile) *t)
{
    uint high[2][2][4], low[2][2][4]; /* another set of registers while products are under way */
    struct FN(pipeline) r = {0, 0};
#if PRODUCTS == 3
    float d[RESULTS];
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        d[i] = 0.0f;
#endif
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = 0.0f;
    if (t->chunk < t->end) {
        FN(wait)(full, 0);
        FN(take)(high[0], low[0], windows);
    }
    for (int chunk = t->chunk; chunk < t->end; chunk += 2)
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (chunk + i < t->end) {
                const uint cores = to + r.stage * STAGE, here = empty + r.stage * 8;
#pragma unroll
                for (int j = 0; j < 2; j++) {
#if PRODUCTS == 3
                    WGMMA(d, high[i][j], low[i][j], DESCRIPTOR(cores + j * BM * 32),
                          DESCRIPTOR(cores + CORES * 4 + j * BM * 32), j);
#else
                    WGMMA(sum, high[i][j], high[i][j], DESCRIPTOR(cores + j * BM * 32), (ulong)0, 1);
#endif
                }
                r = FN(next)(r, STAGES);
                if (chunk + i + 1 < t->end) {
                    FN(wait)(full + r.stage * 8, r.parity);
                    FN(take)(high[1 - i], low[1 - i], windows + r.stage * (STAGE / 4));
                }
#if PRODUCTS == 3
                WGMMA_WAIT(d, 0);
#else
                WGMMA_WAIT(sum, 0);
#endif
                if (LANE % 32 == 0)
                    BARRIER_ARRIVE(here);
#if PRODUCTS == 3
#pragma unroll
                for (int k = 0; k < RESULTS; k++)
                    sum[k] += d[k];
#endif
            }
}

/* Results of a work-item: positions `position` + 8 * h, filters `filter` + 8 * j + e; y: of the tile's first ones. */
void FN(store)(const float sum[RESULTS], DST y, int position, int filter, const struct FN(tile) *t,
               const struct filter_grad_mma_args *f)
{
    const long apart = RESULTS_APART(f);
    ulong lost = 0; /* no finite numbers */
#pragma unroll
    for (int i = 0; i < RESULTS; i++) {
        const int c = position + i / 2 % 2 * 8, k = filter + i / 4 * 8 + i % 2;
        lost |= (ulong) !(fabs(sum[i]) < INFINITY) << i;
        if (c < t->columns && k < t->rows)
            y[k * apart + c] = sum[i];
    }
#if PRODUCTS == 3
    if (lost)
#pragma unroll 1
        for (int i = 0; i < RESULTS; i++) {
            const int c = position + i / 2 % 2 * 8, k = filter + i / 4 * 8 + i % 2;
            if ((lost >> i & 1) && c < t->columns && k < t->rows)
                y[k * apart + c] = FN(define)(k, c, t, f);
        }
#endif
}

void FN(body)(ulong group, SRC x, SRC dy, DST y, const struct filter_grad_mma_args *f, local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch), full = to + STAGES * STAGE, empty = full + STAGES * 8;
    local float *stages = (local float *)scratch;
    const struct FN(tile) t = FN(tile_of)(group, x, dy, f);
    GROUPS_RESIDENT(1);
    LOCAL_BYTES(STAGES * (STAGE + 16));
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(full + i * 8, LOADERS);
            BARRIER_INIT(empty + i * 8, 8);
        }
        BARRIERS_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(LOAD_REGISTERS);
        FN(load)(stages, to, full, empty, &t, f);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int position = LANE / 32 * 16 + LANE % 32 / 4;
        float sum[RESULTS];
        FN(multiply)(sum, stages + PARTS * CORES + SIDE_AT(position, LANE % 4), to, full, empty, &t);
        FN(store)(sum, FN(results_of)(y, &t, f), position, LANE % 4 * 2, &t, f);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST y, ulong y_off, const struct filter_grad_mma_args f)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, dy + dy_off, y + y_off, &f, scratch);
}
#endif
