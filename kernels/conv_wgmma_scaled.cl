/* conv_wgmma_scaled.cl: 2-D convolutions on Hopper's tensor cores (compute capability 9.0) as products of scaled halves that lie in
 * local memory: windows of SIDE x SIDE at stride 1, padded to the size of the input.
 *
 *   y[n][k][i][j] = act( sum_{c,r,s} w[k][c][r][s] x[n][g*C/g + c][i + r - MARGIN][j + s - MARGIN] + bias[k] + add )
 *
 * Positions u = (n (H + MARGIN) + i) (W + MARGIN) + j, where rows from H on and columns from W on are zeros, put all images in one
 * line, in which a tap is a shift: what lies left of a row is the end of the row before it. So each pixel becomes a half once, and
 * every tap's left factor begins at another address.
 *
 * A half has as many bits as a tf32 value, but a narrower range. So operands are scaled by powers of two: filters by one for each
 * block (conv_wgmma_scaled_pack.cl), pixels by one for each image of a tile, with SIDE 1 for each pixel of it. It is chosen by the
 * first chunk of channels that has a finite value other than zero, whose largest one comes to where values may grow by 2^10, and
 * those down to 2^-18 of it keep all bits. Where a later chunk has larger ones, the scale changes, and so do the sums so far.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_scaled_pack.cl.
 * Index map: a group computes tiles group, group + at_once, ...; tile = (conv group * tiles of BN positions + tile) * blocks of BM
 * filters + block. Two warpgroups multiply, BN / 2 positions each. Three warps of the third one bring pixels, CHANNELS channels at a
 * time, to one of RAW_PLACES, and a work-item of the last warp filters, SLABS taps (SIDE 1: 16 channels) of a chunk at a time, to
 * one of FILTER_PLACES; the fourth warpgroup makes halves of pixels, in one of HALF_PLACES.
 * Work-group: WG. Local memory: places, scales and barriers, up to 227 KiB (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 512, SIDE 1, 3 or 5, BM filters and BN positions of a tile (64 and 512, 128 and 128 or 256, 256 and 128), SPAN
 * positions in local memory, a multiple of 128, BN with SIDE 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh); all but the last three
 * required. */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#include "maps.clh"
#ifndef FN
#define FN(x) conv_wgmma_scaled_##x
#endif
#ifndef SIDE
#error "SIDE is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "mma.clh"
#define PRODUCTS 1
#define WGMMA_HALVES 1
#define WGMMA_WIDTH (BM < 128 ? BM : 128)
#include "wgmma.clh"
#include "wgmma_local.clh"
#include "wgmma_ring.clh"
#include "half_scale.clh"
#define MARGIN (SIDE / 2)
#define CHANNELS SCALED_CHANNELS(SIDE)
#define UNITS (CHANNELS / 16)
#define SLABS (SIDE == 1 ? UNITS : SIDE)
#define STEPS (SIDE == 1 ? 1 : SIDE) /* of filters for a chunk */
#define ROWS (BN / 128)              /* of tiles of 64 positions, for each warpgroup */
#define TILES (ROWS * BM / WGMMA_WIDTH)
#define RESULTS (WGMMA_WIDTH / 2) /* of such a tile, for each work-item */
#define COPIERS 96
#define COPIER (LANE - 256)
#define MAKERS 128
#define MAKER (LANE - 384)
#define BATCH 8 /* results of a position that a work-item stores at once */
#define SCALES (SIDE == 1 ? BN : SCALED_SCALES)
#define COPY_REGISTERS 40
#define MAKE_REGISTERS 72
#define MULTIPLY_REGISTERS 200
/* Bytes of places, and how many there are. */
#define RAW (SPAN * CHANNELS * 4)
#define HALF (SPAN * CHANNELS * 2)
#define SLAB (BM * 32)
#define FILTERS SCALED_STEP(SIDE, BM)
#define RAW_PLACES SCALED_RAW_PLACES(SIDE, SPAN)
#define HALF_PLACES SCALED_HALF_PLACES(SIDE, BN)
#define FITTING SCALED_FILTER_PLACES(SIDE, BM, BN, SPAN)
#define FILTER_PLACES (FITTING > 9 ? 9 : FITTING)
/* Where they lie. */
#define HALVES_AT (RAW_PLACES * RAW)
#define FILTERS_AT (HALVES_AT + HALF_PLACES * HALF)
#define BACK_AT (FILTERS_AT + FILTER_PLACES * FILTERS)
#define FACTOR_AT (BACK_AT + HALF_PLACES * SCALES * 4)
#define LARGEST_AT (FACTOR_AT + HALF_PLACES * SCALES * 4)
#define CHANGED_AT (LARGEST_AT + 3 * SCALED_SCALES * 4)
#define BARRIERS_AT (CHANGED_AT + 16)
#define BYTES (BARRIERS_AT + (RAW_PLACES + HALF_PLACES + FILTER_PLACES) * 16)

/* Barriers of places. */
struct FN(bars) {
    uint raw_full, raw_empty, halves_full, halves_empty, filters_full, filters_empty;
};

struct FN(bars) FN(bars_at)(uint to)
{
    const uint halves = to + RAW_PLACES * 16, filters = halves + HALF_PLACES * 16;
    return (struct FN(bars)){to, to + RAW_PLACES * 8, halves, halves + HALF_PLACES * 8, filters, filters + FILTER_PLACES * 8};
}

/* What a group computes: filters block * BM.. of conv group g, at positions first... */
struct FN(tile) {
    int g, block, first;
};

struct FN(tile) FN(tile_of)(uint tile, const struct conv_scaled_args *sa)
{
    const uint blocks = (uint)(sa->conv.k / sa->conv.groups + BM - 1) / BM, rest = tile / blocks;
    return (struct FN(tile)){(int)(rest / (uint)sa->tiles_each), (int)(tile - rest * blocks),
                             (int)(rest % (uint)sa->tiles_each) * BN};
}

int FN(image_of)(int u, const struct conv_scaled_args *sa)
{
    return max(u, 0) / ((sa->conv.in[1] + MARGIN) * (sa->conv.in[2] + MARGIN));
}

/* Image and pixel at position u; false where there is none. */
bool FN(pixel_at)(int u, int *n, int *pixel, const struct conv_scaled_args *sa)
{
    const int pitch = sa->conv.in[2] + MARGIN, item = (sa->conv.in[1] + MARGIN) * pitch;
    *n = FN(image_of)(u, sa);
    const int rest = u - *n * item, row = rest / pitch, column = rest - row * pitch;
    *pixel = row * sa->conv.in[2] + column;
    return u >= 0 && u < sa->positions && row < sa->conv.in[1] && column < sa->conv.in[2];
}

int FN(halo)(const struct conv_scaled_args *sa)
{
    return MARGIN * (sa->conv.in[2] + MARGIN + 1);
}

/* Which of the tile's scales position `ahead` of the tile has. */
int FN(scale_at)(int ahead, const struct FN(tile) *t, const struct conv_scaled_args *sa)
{
    return SIDE == 1 ? ahead
                     : clamp(FN(image_of)(t->first + ahead, sa) - FN(image_of)(t->first - FN(halo)(sa), sa), 0, SCALES - 1);
}

/* This warp needs a place no more. */
void FN(release)(uint empty)
{
    if (LANE % 32 == 0)
        BARRIER_ARRIVE(empty);
}

#include "conv_wgmma_scaled_bring.clh"

/* Rings of those who multiply, and chunks so far. */
struct FN(rings) {
    struct FN(ring) halves, filters;
    uint serial;
};

/* The sums of a warpgroup's work-item, unscaled; `ahead`: the warpgroup's first position in the tile; `scale`: which scales its rows
 * have; `unscale`: what undoes that of the filters. */
void FN(multiply)(struct FN(rings) *rings, float d[TILES][RESULTS], int ahead, const int scale[ROWS][2], float unscale,
                  const local float *scratch, uint to, const struct FN(bars) *bars, const struct conv_scaled_args *sa)
{
    struct FN(ring) rh = rings->halves, rf = rings->filters;
    const int pitch = sa->conv.in[2] + MARGIN;
    for (int chunk = 0; chunk < sa->chunks; chunk++) {
        const local float *back = scratch + BACK_AT / 4 + rh.place * SCALES, *factor = back + HALF_PLACES * SCALES;
        const uint pixels = to + HALVES_AT + rh.place * HALF + ahead * 16;
        uint before = 0;
        FN(wait)(bars->halves_full + rh.place * 8, rh.parity);
        if (((const local uint *)scratch)[CHANGED_AT / 4 + rh.place] == ++rings->serial) {
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int i = 0; i < RESULTS; i++)
                    d[m][i] *= factor[scale[m % ROWS][i / 2 % 2]];
        }
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const uint slab = to + FILTERS_AT + rf.place * FILTERS;
            FN(wait)(bars->filters_full + rf.place * 8, rf.parity);
            WGMMA_OPEN;
#pragma unroll
            for (int s = 0; s < SLABS; s++)
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    const uint at = pixels + m % ROWS * 1024 + (SIDE == 1 ? s * SPAN * 32 : (step * pitch + s) * 16);
                    const uint columns = slab + s * SLAB + m / ROWS * (WGMMA_WIDTH * 32);
                    WGMMA_LOCAL(d[m], LOCAL_MATRIX(at, SPAN * 16, 128), LOCAL_MATRIX(columns, 128, 256), chunk + step + s);
                }
            WGMMA_CLOSE;
            if (step > 0) {
                WGMMA_LEFT(1);
                FN(release)(before);
            }
            before = bars->filters_empty + rf.place * 8;
            rf = FN(next)(rf, FILTER_PLACES);
        }
        WGMMA_LEFT(0);
#pragma unroll
        for (int m = 0; m < TILES; m++)
            KEEP_RESULTS(d[m]);
        FN(release)(before);
        if (chunk + 1 == sa->chunks) {
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int i = 0; i < RESULTS; i++)
                    d[m][i] *= back[scale[m % ROWS][i / 2 % 2]] * unscale;
        }
        FN(release)(bars->halves_empty + rh.place * 8);
        rh = FN(next)(rh, HALF_PLACES);
    }
    rings->halves = rh;
    rings->filters = rf;
}

/* Sums of a work-item: filters k0 + 8 * j + e of the conv group at positions u + 64 * m + 8 * h. */
void FN(store)(const float d[TILES][RESULTS], int k0, int u, const struct FN(tile) *t, SRC bias, SRC add, DST y,
               const struct conv_scaled_args *sa)
{
    const struct conv_args *a = &sa->conv;
    const long plane = (long)a->in[1] * a->in[2];
    const int kg = a->k / a->groups, first = t->g * kg + k0;
#pragma unroll
    for (int m = 0; m < ROWS; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int n, pixel;
            if (FN(pixel_at)(u + 64 * m + 8 * h, &n, &pixel, sa)) {
                DST to = y + n * a->dst_n + first * plane + pixel;
                SRC other = add + (EPI_ADD ? n * a->add_n + first * plane + pixel : 0);
#pragma unroll
                for (int j = 0; j < BM / 8; j += BATCH / 2) { /* what is read arrives together */
                    float more[BATCH];
#if EPI_ADD
#pragma unroll
                    for (int i = 0; i < BATCH; i++)
                        if (k0 + (j + i / 2) * 8 + i % 2 < kg)
                            more[i] = other[((j + i / 2) * 8 + i % 2) * plane];
#endif
#pragma unroll
                    for (int i = 0; i < BATCH; i++) {
                        const int of = j + i / 2, k = of * 8 + i % 2;
                        const float sum = d[m + of / (WGMMA_WIDTH / 8) * ROWS][4 * of % RESULTS + 2 * h + i % 2];
                        if (k0 + k < kg)
                            to[k * plane] = EPILOGUE_OF(sum, bias, first + k, more[i], a);
                    }
                }
            }
        }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_scaled_args *sa, local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch);
    const struct FN(bars) bars = FN(bars_at)(to + BARRIERS_AT);
    local float *floats = (local float *)scratch;
    GROUPS_RESIDENT(1);
    LOCAL_BYTES(BYTES);
    for (int i = LANE; i < (BARRIERS_AT - LARGEST_AT) / 4; i += WG)
        floats[LARGEST_AT / 4 + i] = 0.0f;
    if (LANE == 0) {
        for (int i = 0; i < RAW_PLACES; i++) {
            BARRIER_INIT(bars.raw_full + i * 8, COPIERS);
            BARRIER_INIT(bars.raw_empty + i * 8, MAKERS / 32);
        }
        for (int i = 0; i < HALF_PLACES; i++) {
            BARRIER_INIT(bars.halves_full + i * 8, MAKERS);
            BARRIER_INIT(bars.halves_empty + i * 8, 8);
        }
        for (int i = 0; i < FILTER_PLACES; i++) {
            BARRIER_INIT(bars.filters_full + i * 8, 1);
            BARRIER_INIT(bars.filters_empty + i * 8, 8);
        }
        BARRIERS_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 384) {
        REGISTERS_LESS(MAKE_REGISTERS);
        FN(make_halves)((uint)group, floats, &bars, sa);
    } else if (LANE >= 256) {
        REGISTERS_LESS(COPY_REGISTERS);
        if (COPIER < COPIERS)
            FN(bring_pixels)((uint)group, x, to, &bars, sa);
        else if (COPIER == COPIERS)
            FN(bring_filters)((uint)group, w, to, &bars, sa);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int lane = LANE % 32, start = LANE / 128 * (BN / 2), row = LANE % 128 / 32 * 16 + lane / 4;
        const int blocks = (sa->conv.k / sa->conv.groups + BM - 1) / BM;
        struct FN(rings) rings = {{0, 0}, {0, 0}, 0};
        for (uint tile = (uint)group; tile < (uint)sa->tiles; tile += (uint)sa->at_once) {
            const struct FN(tile) t = FN(tile_of)(tile, sa);
            float d[TILES][RESULTS];
            int scale[ROWS][2];
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++)
                scale[i / 2][i % 2] = FN(scale_at)(start + row + i / 2 * 64 + i % 2 * 8, &t, sa);
#pragma unroll
            for (int i = 0; i < TILES * RESULTS; i++)
                d[i / RESULTS][i % RESULTS] = 0.0f;
            const float unscale =
                w[(long)blocks * sa->conv.groups * sa->chunks * (STEPS * FILTERS / 4) + t.g * blocks + t.block];
            FN(multiply)(&rings, d, start, scale, unscale, floats, to, &bars, sa);
            FN(store)(d, t.block * BM + lane % 4 * 2, t.first + start + row, &t, bias, add, y, sa);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct conv_scaled_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
