/* conv_filter_grad_wgmma.cl: conv_filter_grad_mma.cl for Hopper's tensor cores (compute capability 9.0): the gradient
 * of a convolution's filters as an implicit matrix product of the windows of x, which go from local memory to
 * registers, and of dy, which the tensor cores read in local memory.
 *
 *   dw[k][c][t] = sum over n, o of dy[n][k][o] * x[n][g*C/g + c][o*stride - pad + t*dil]; g is the group of k
 *
 * Rows of x come to local memory once for all positions of their windows: a position is an offset there. The depth is
 * cut into segments of 2^wide pixels of a row of dy, BK / 2^wide of them a chunk, with zeros where a row ends; x has a
 * segment for each of them, channel and row of windows, with the pixels around it.
 * The first two warpgroups (128 work-items) multiply, each 64 positions by BM filters. The third one brings BK of depth
 * at once to one of the stages: x by asynchronous copies of 16 bytes, dy, which lies in cores of 8 filters by 4 depths
 * (wgmma.clh) chunk by chunk, by one bulk copy. The fourth one makes tf32 values of dy where it lies, with PRODUCTS 3
 * their low parts behind them too. PRODUCTS 3 adds up 16 of depth at a time in float32. A sum that is no finite number
 * is computed again by its definition.
 * Layouts: x NCHW with a batch stride and rows `pitch` apart on boundaries of 16 bytes, zeros behind them; dy by
 * conv_filter_grad_cores.cl; dw as in filter_grad.clh.
 * Index map: filter_grad.clh, tiles of BM filters by BN positions.
 * Work-group: WG. Local memory: the stages and three barriers each, ROWS_LOCAL bytes (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 512, BM 128 or 64, BN 128, BK 32, PRODUCTS 1 or 3; all required. */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
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
#define CORES (BM * BK) /* floats of a part of dy */
#define HALVES (BK / 16)
#define COPIERS 128
#define COPIER (LANE - 256)
#define MAKER (LANE - 384)
#define COPY_REGISTERS 88
#define MAKE_REGISTERS 40
#define MULTIPLY_REGISTERS 192
#define POSITIONS BN
#define FILTERS BM
#include "filter_grad_nvidia/filter_grad.clh"

/* Barriers of stages: copied, made, and free again. */
struct FN(bars) {
    uint raw, full, empty;
};

/* Of 16 bytes at `from`, `bytes` (0 or 16) are on their way to local address `to`. */
void FN(copy)(uint to, const global float *from, int bytes, bool aligned)
{
    if (aligned)
        COPY16(to, from, bytes);
    else
#pragma unroll
        for (int e = 0; e < 4; e++)
            COPY4(to + 4 * e, from + e, bytes / 4);
}

/* A segment of dy: its image, row, and number in the row. */
struct FN(segment) {
    int n, h, u;
};

struct FN(segment) FN(segment_of)(long number, const struct filter_grad_rows_args *r)
{
    const long row = (long)FN(divide)((ulong)number, (uint)r->across);
    const int n = (int)FN(divide)((ulong)row, (uint)r->grad.conv.out[1]);
    return (struct FN(segment)){n, (int)(row - (long)n * r->grad.conv.out[1]), (int)(number - row * r->across)};
}

void FN(go_on)(struct FN(segment) *s, const struct filter_grad_rows_args *r)
{
    s->u += r->step_u;
    s->h += r->step_h;
    s->n += r->step_n;
    if (s->u >= r->across) {
        s->u -= r->across;
        s->h++;
    }
    if (s->h >= r->grad.conv.out[1]) {
        s->h -= r->grad.conv.out[1];
        s->n++;
    }
}

/* The pieces of x of a work-item: where each lies in an image, and where it goes: units of 16 bytes in a stage << 20 |
 * rows below the window's first one << 10 | floats right of the segment's first pixel + COLUMN_BIAS. */
#define COLUMN_BIAS 256
struct FN(piece) {
    int from;
    uint where;
};

/* Fills them in; returns how many there are. `of`: among the work-items that copy this segment; s: the segment's place
 * in the chunk. */
int FN(find_pieces)(struct FN(piece) piece[ROWS_PIECES], int of, int s, const struct FN(tile) *t,
                    const struct filter_grad_rows_args *r)
{
    const struct conv_args *a = &r->grad.conv;
    const int taps = a->ker[1] * a->ker[2], first = t->col / taps, quads = r->segment / 4, each = 4 << r->wide;
    const int last = min(t->col + POSITIONS - 1, a->c / a->groups * taps - 1) / taps;
    const int all = (last - first + 1) * a->ker[1] * quads;
#pragma unroll
    for (int i = 0; i < ROWS_PIECES; i++) {
        const int number = of + i * each, line = number / quads, quad = number - line * quads;
        const int c = line / a->ker[1], row = line - c * a->ker[1], column = quad * 4 - r->left;
        const uint to = (uint)(line * r->row + s * r->segment) / 4 + (uint)quad;
        piece[i].from = (first + c) * r->grad.plane + row * a->dil[1] * r->pitch_x + column;
        piece[i].where = to << 20 | (uint)(row * a->dil[1]) << 10 | (uint)(column + COLUMN_BIAS);
    }
    return of < all ? (all - of + each - 1) / each : 0;
}

/* Chunks of the tile's block of filters, from the first one of all on. */
const global float *FN(cores_of)(SRC dy, const struct FN(tile) *t, const struct filter_grad_rows_args *r)
{
    const int blocks = (r->grad.conv.k / r->grad.conv.groups + BM - 1) / BM;
    return dy + (long)(t->g * blocks + t->row / BM) * r->grad.depth * BM;
}

/* The third warpgroup; eight work-items side by side copy x for 32 pixels of dy. */
void FN(load)(uint to, const struct FN(bars) *bars, const global float *dy, const struct FN(tile) *t,
              const struct filter_grad_rows_args *r, bool aligned)
{
    const struct conv_args *a = &r->grad.conv;
    const int quad = COPIER % 8, segments = BK >> r->wide, s = quad * 4 >> r->wide, within = (1 << r->wide) - 1;
    const int of = ((quad * 4 & within) + COPIER / 8 * (within + 1)) / 4;
    struct FN(segment) at = FN(segment_of)((long)t->chunk * segments + s, r);
    struct FN(pipeline) ring = {0, 1};
    struct FN(piece) piece[ROWS_PIECES];
    const int pieces = FN(find_pieces)(piece, of, s, t, r);
    for (int chunk = t->chunk; chunk < t->end; chunk++) {
        const uint stage = to + (uint)(ring.stage * r->stage), windows = stage + PARTS * CORES * 4;
        const int right = (at.u << r->wide) * a->stride[2], down = at.h * a->stride[1] - a->pad[1];
        const int top = at.n < a->n ? down : -(1 << 30);
        const global float *from = t->x + at.n * a->src_n + (long)down * r->pitch_x + right;
        const uint raw = bars->raw + ring.stage * 8;
        FN(wait)(bars->empty + ring.stage * 8, ring.parity);
        if (COPIER == 0) {
            BARRIER_EXPECT(raw, CORES * 4);
            BULK_COPY(stage, dy + (long)chunk * CORES, CORES * 4, raw);
        }
#pragma unroll
        for (int i = 0; i < ROWS_PIECES; i++)
            if (i < pieces) {
                const uint where = piece[i].where;
                const bool inside = (uint)(top + (int)(where >> 10 & 0x3ff)) < (uint)a->in[1] &&
                                    (uint)(right + (int)(where & 0x3ff) - COLUMN_BIAS) < (uint)r->pitch_x;
                FN(copy)(windows + (where >> 20) * 16, from + piece[i].from, inside ? 16 : 0, aligned);
            }
        BARRIER_COPIES(raw);
        FN(go_on)(&at, r);
        ring = FN(next)(ring, r->stages);
    }
}

/* The fourth warpgroup: dy as tf32 values, in parts. */
void FN(make)(local float4 *stages, const struct FN(bars) *bars, const struct FN(tile) *t,
              const struct filter_grad_rows_args *r)
{
    struct FN(pipeline) ring = {0, 0};
    for (int chunk = t->chunk; chunk < t->end; chunk++) {
        local float4 *at = stages + ring.stage * (r->stage / 16) + MAKER;
        FN(wait)(bars->raw + ring.stage * 8, ring.parity);
#pragma unroll
        for (int i = 0; i < BM / 16; i++) {
            const float4 v = at[i * 128];
#if PRODUCTS == 3
            const float4 high =
                as_float4((uint4)(TF32_ROUNDED(v.x), TF32_ROUNDED(v.y), TF32_ROUNDED(v.z), TF32_ROUNDED(v.w)));
            at[i * 128] = high;
            at[i * 128 + CORES / 4] = v - high;
#else
            at[i * 128] = as_float4((uint4)(TF32_NEAR(v.x), TF32_NEAR(v.y), TF32_NEAR(v.z), TF32_NEAR(v.w)));
#endif
        }
        LOCAL_VISIBLE;
        BARRIER_ARRIVE(bars->full + ring.stage * 8);
        ring = FN(next)(ring, r->stages);
    }
}

/* A work-item's share of 8 of depth, in parts; v: the windows of its first position and depth, `apart` floats before
 * those of its second position; step: which 8 of the chunk. */
void FN(take)(uint high[4], uint low[4], const local float *v, int apart, int step,
              const struct filter_grad_rows_args *r)
{
    uint wide;
    HERE(wide, (uint)r->wide);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int depth = step * 8 + i / 2 * 4;
        const int at = (depth >> wide) * r->segment + (depth & ((1 << wide) - 1)) * r->grad.conv.stride[2];
        const float x = v[at + i % 2 * apart];
#if PRODUCTS == 3
        high[i] = TF32_ROUNDED(x);
        low[i] = TF32_LOW(x, high[i]);
#else
        high[i] = TF32_NEAR(x);
#endif
    }
}

/* Where the windows of a position of the tile begin in a stage. */
int FN(begin)(int position, const struct FN(tile) *t, const struct filter_grad_rows_args *r)
{
    const struct conv_args *a = &r->grad.conv;
    const int taps = a->ker[1] * a->ker[2], of = min(t->col + position, a->c / a->groups * taps - 1);
    const int c = of / taps, row = (of - c * taps) / a->ker[2], column = of - c * taps - row * a->ker[2];
    return ((c - t->col / taps) * a->ker[1] + row) * r->row + column * a->dil[2] - a->pad[2] + r->left +
           LANE % 4 * a->stride[2];
}

/* The first two warpgroups. */
void FN(multiply)(float sum[RESULTS], const local float *stages, uint to, const struct FN(bars) *bars, int position,
                  const struct FN(tile) *t, const struct filter_grad_rows_args *r)
{
    uint high[2][4], low[2][4]; /* another set of registers while products are under way */
    const int begin = FN(begin)(position, t, r), apart = FN(begin)(position + 8, t, r) - begin;
    const local float *windows = stages + PARTS * CORES + begin;
    struct FN(pipeline) ring = {0, 0};
#if PRODUCTS == 3
    float d[RESULTS];
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        d[i] = 0.0f;
#else
#define d sum
#endif
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = 0.0f;
    if (t->chunk < t->end) {
        FN(wait)(bars->full, 0);
        FN(take)(high[0], low[0], windows, apart, 0, r);
    }
#pragma unroll 1
    for (int half_of = 0, halves = (t->end - t->chunk) * HALVES; half_of < halves; half_of++) {
        const int first = half_of % HALVES * 2; /* 8 of depth */
        const uint cores = to + (uint)(ring.stage * r->stage) + first * (BM * 32), here = bars->empty + ring.stage * 8;
        const bool ends = first + 2 == BK / 8;
        WGMMA(d, high[0], low[0], DESCRIPTOR(cores), DESCRIPTOR(cores + CORES * 4), PRODUCTS == 1);
        FN(take)(high[1], low[1], windows + ring.stage * (r->stage / 4), apart, first + 1, r);
        WGMMA(d, high[1], low[1], DESCRIPTOR(cores + BM * 32), DESCRIPTOR(cores + (CORES + BM * 8) * 4), 1);
        if (ends)
            ring = FN(next)(ring, r->stages);
        if (half_of + 1 < halves) {
            if (ends)
                FN(wait)(bars->full + ring.stage * 8, ring.parity);
            WGMMA_WAIT(d, 1);
            FN(take)(high[0], low[0], windows + ring.stage * (r->stage / 4), apart, ends ? 0 : first + 2, r);
        }
        WGMMA_WAIT(d, 0);
        if (ends && LANE % 32 == 0)
            BARRIER_ARRIVE(here);
#if PRODUCTS == 3
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            sum[i] += d[i];
#endif
    }
#undef d
}

/* A sum of the tile by its definition. */
float FN(define)(int row, int column, const global float *dy, const struct FN(tile) *t,
                 const struct filter_grad_rows_args *r)
{
    const struct conv_args *a = &r->grad.conv;
    const int taps = a->ker[1] * a->ker[2], c = (t->col + column) / taps, tap = (t->col + column) % taps;
    const int down = tap / a->ker[2] * a->dil[1] - a->pad[1], right = tap % a->ker[2] * a->dil[2] - a->pad[2];
    float sum = 0.0f;
    for (long d = (long)t->chunk * BK; d < (long)t->end * BK; d++) {
        const struct FN(segment) at = FN(segment_of)(d >> r->wide, r);
        const int o = (at.u << r->wide) + ((int)d & ((1 << r->wide) - 1));
        const int h = at.h * a->stride[1] + down, w = o * a->stride[2] + right;
        if (at.n < a->n && o < a->out[2] && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2])
            sum = fma(dy[d / 8 * (BM * 8) + d / 4 % 2 * 32 + row / 8 * 64 + row % 8 * 4 + d % 4],
                      t->x[at.n * a->src_n + (long)c * r->grad.plane + (long)h * r->pitch_x + w], sum);
    }
    return sum;
}

/* Results of a work-item: positions `position` + 8 * h, filters `filter` + 8 * j + e; y: of the tile's first ones. */
void FN(store)(const float sum[RESULTS], DST y, int position, int filter, const global float *dy,
               const struct FN(tile) *t, const struct filter_grad_rows_args *r)
{
    ulong lost = 0; /* no finite numbers */
#pragma unroll
    for (int i = 0; i < RESULTS; i++) {
        const int c = position + i / 2 % 2 * 8, k = filter + i / 4 * 8 + i % 2;
        lost |= (ulong) !(fabs(sum[i]) < INFINITY) << i;
        if (c < t->columns && k < t->rows)
            y[k * r->grad.apart + c] = sum[i];
    }
    if (lost)
#pragma unroll 1
        for (int i = 0; i < RESULTS; i++) {
            const int c = position + i / 2 % 2 * 8, k = filter + i / 4 * 8 + i % 2;
            if ((lost >> i & 1) && c < t->columns && k < t->rows)
                y[k * r->grad.apart + c] = FN(define)(k, c, dy, t, r);
        }
}

void FN(body)(ulong group, SRC x, SRC dy, DST y, const struct filter_grad_rows_args *r, local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch), raw = to + (uint)(r->stages * r->stage);
    const struct FN(bars) bars = {raw, raw + r->stages * 8, raw + r->stages * 16};
    const struct FN(tile) t = FN(tile_of)(group, x, dy, &r->grad);
    const global float *cores = FN(cores_of)(dy, &t, r);
    GROUPS_RESIDENT(1);
    LOCAL_BYTES(ROWS_LOCAL);
    if (LANE == 0) {
        for (int i = 0; i < r->stages; i++) {
            BARRIER_INIT(bars.raw + i * 8, COPIERS + 1);
            BARRIER_INIT(bars.full + i * 8, 128);
            BARRIER_INIT(bars.empty + i * 8, 8);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 384) {
        REGISTERS_LESS(MAKE_REGISTERS);
        FN(make)(scratch, &bars, &t, r);
    } else if (LANE >= 256) {
        REGISTERS_LESS(COPY_REGISTERS);
        if (((ulong)t.x & 15) == 0)
            FN(load)(to, &bars, cores, &t, r, true);
        else
            FN(load)(to, &bars, cores, &t, r, false);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int position = LANE / 32 * 16 + LANE % 32 / 4;
        float sum[RESULTS];
        FN(multiply)(sum, (const local float *)scratch, to, &bars, position, &t, r);
        FN(store)(sum, FN(results_of)(y, &t, &r->grad), position, LANE % 4 * 2, cores, &t, r);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST y, ulong y_off, const struct filter_grad_rows_args r)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, dy + dy_off, y + y_off, &r, scratch);
}
#endif
