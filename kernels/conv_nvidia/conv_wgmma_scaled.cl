/* conv_wgmma_scaled.cl: convolutions on Hopper's tensor cores (compute capability 9.0) as products of scaled halves
 * that lie in local memory: windows of HIGH x WIDE taps, and of one pixel at any stride; with VOLUME 1 several such
 * planes behind one another.
 *
 *   y[n][k][i][j] = act( sum_{c,r,s} w[k][c][r][s] x[n][g*C/g + c][i*sh + r*dh - ph][j*sw + s*dw - pw] + bias[k]
 *                        + add )
 *
 * Positions u = (n L0 + i) L1 + j of y, for lines of L0 x L1 that are longer than maps by zeros, put all images in one
 * line, in which a tap is a shift: what lies left of a row is the end of the row before it. So each pixel becomes a
 * half once, and every tap's left factor begins at another address.
 *
 * With STRIDED 1 (strides of 1 and 2) every sh-th row and sw-th column, from each of the first ones on, are a map of
 * their own, whose windows have a part of the taps and stride 1. These phases follow one another as channels do; HIGH
 * and WIDE are the taps of the largest one.
 *
 * With VOLUME 1 each plane of a volume is such an image, and the channels of its neighbours, which the other planes of
 * a window see, follow its own.
 *
 * A half has as many bits as a tf32 value, but a narrower range. So operands are scaled by powers of two: each filter
 * by one, and channels whose weights differ much in size by one each, which pixels undo (conv_wgmma_scaled_pack.cl), so
 * that filters and channels of any size may stand side by side; pixels by one for each image of a tile, with single
 * pixels for each one of it. It is chosen by the first chunk of channels that has a finite value other than zero, whose
 * largest one comes to where values may grow by 2^6, and those down to 2^-22 of it keep all bits. Where a later chunk
 * has larger ones, the scale changes, and so do the sums so far.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_scaled_pack.cl. With DEEP 1 images are one pixel,
 * as rows of linear layers are: the channels of a position are neighbours, not the positions of a channel.
 * Index map: a group computes tiles group, group + at_once, ...; tile = (conv group * tiles of BN positions + tile) *
 * blocks of BM filters + block. With SPLIT 1 groups share the depth of a tile: each takes some of its chunks, and the
 * last one to finish puts their sums together (conv_parts.clh). Two warpgroups multiply, BN / 2 positions each. Three
 * warps of the third one load pixels, CHANNELS channels at a time, to one of RAW_STAGES, and a work-item of the last
 * warp filters, SLABS taps (single pixels: 16 channels) of a chunk at a time, to one of FILTER_STAGES; the fourth
 * warpgroup makes halves of pixels, in one of HALF_STAGES. Where BN is no multiple of 128 the two that multiply take BM
 * / 2 filters each instead.
 * Work-group: WG. Local memory: stages, scales and barriers, up to 227 KiB (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 512, or 640 with twice as many that make halves (BM 64 and BN up to 256), HIGH and WIDE (up to 7; both 1:
 * single pixels), DEEP 0 or (single pixels) 1, BM filters and BN positions of a tile (64 and 512, 128 and 128 or 256,
 * 256 and 128; with windows also 64 and 64, 128 or 256, with single pixels and nothing to add 224 and 192), SPAN
 * positions in local memory, a multiple of 128, BN with single pixels, ADD_STAGES 0 or (single pixels) 1: what is added
 * comes through stages, TOGETHER pixels of a row that are copied at once where they lie on boundaries (1, 2, default 4;
 * lines are multiples of it), STRIDED, VOLUME 0 (default) or (windows) 1, one of them at most, RAGGED 0 (default) or 1:
 * the channels of a conv group are no multiple of CHANNELS, SPLIT 0 (default) or 1, where a work-item has at most 64
 * sums and ADD_STAGES is 0, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh); all but the last nine required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_wgmma_scaled_##x
#endif
#ifndef ADD_STAGES
#define ADD_STAGES 0
#endif
#ifndef DEEP
#define DEEP 0
#endif
#ifndef VOLUME
#define VOLUME 0
#endif
#ifndef STRIDED
#define STRIDED 0
#endif
#ifndef RAGGED
#define RAGGED 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef TOGETHER
#define TOGETHER 4
#endif
#ifndef WIDE
#error "WIDE is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define PRODUCTS 1
#define WGMMA_HALVES 1
/* The two warpgroups that multiply share positions, or filters where positions are no multiple of 128. */
#define SHARE_FILTERS (BN % 128 != 0)
#define MINE (SHARE_FILTERS ? BM / 2 : BM) /* filters of a warpgroup */
#define WGMMA_WIDTH (MINE < 128 ? MINE : 128)
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_local.clh"
#include "conv_nvidia/wgmma_ring.clh"
#include "common/half_scale.clh"
#define TAPS (HIGH * WIDE)
#define CHANNELS SCALED_CHANNELS(TAPS)
#define UNITS (CHANNELS / 16)
#define SLABS (TAPS == 1 ? UNITS : WIDE)
#define ROWS (SHARE_FILTERS ? BN / 64 : BN / 128) /* of tiles of 64 positions, for each warpgroup */
#define TILES (ROWS * MINE / WGMMA_WIDTH)
#define RESULTS (WGMMA_WIDTH / 2) /* of such a tile, for each work-item */
#define UNROLLED (STRIDED || HIGH > 5 ? 1 : HIGH)
#define COPIERS 96
#define COPIER (LANE - 256)
#define MAKERS (WG - 384)
#define MAKER (LANE - 384)
/* With ADD_STAGES what is added comes through the stages of pixels, after those of a tile, as many filters at once as
 * pixels have channels. */
#define PIPELINED_ADD (EPI_ADD == 1 && ADD_STAGES)
#define ADD_STEPS (PIPELINED_ADD ? BM / CHANNELS : 0)
#define LATE_ADD (EPI_ADD && !ADD_STAGES)
#define SCALES (TAPS == 1 ? BN : SCALED_SCALES)
#define COPY_REGISTERS 40
#define MAKE_REGISTERS (MAKERS < 256 && SHARE_FILTERS ? 56 : 88)
#define MULTIPLY_REGISTERS (MAKERS == 256 ? 128 : SHARE_FILTERS ? 208 : 192)
/* Bytes of stages, and how many there are. */
#define PITCH SCALED_PITCH(TAPS, SPAN) /* between filters of what is added, which keeps banks apart */
#define RAW (PITCH * CHANNELS * 4)
#define HALF (SPAN * CHANNELS * 2)
#define SLAB (BM * 32)
#define FILTERS SCALED_STEP(HIGH, WIDE, BM)
/* for filters, and at the tile's last step what undoes their scales */
#define FILTER_STAGE SCALED_FILTER_STAGE(HIGH, WIDE, BM)
#define RAW_STAGES SCALED_RAW_STAGES(TAPS, SPAN)
#define HALF_STAGES SCALED_HALF_STAGES(TAPS, BN)
#define FITTING SCALED_FILTER_STAGES(HIGH, WIDE, BM, BN, SPAN)
#define FILTER_STAGES (FITTING > 9 ? 9 : FITTING)
/* Where they lie. */
#define HALVES_AT (RAW_STAGES * RAW)
#define FILTERS_AT (HALVES_AT + HALF_STAGES * HALF)
#define BACK_AT (FILTERS_AT + FILTER_STAGES * FILTER_STAGE)
#define FACTOR_AT (BACK_AT + HALF_STAGES * SCALES * 4)
#define LARGEST_AT (FACTOR_AT + HALF_STAGES * SCALES * 4)
#define CHANGED_AT (LARGEST_AT + 3 * SCALED_SCALES * 4)
#define JOINED 3                    /* of the four words there, the one that tells who puts parts together */
#define BIASES_AT (CHANGED_AT + 16) /* of two tiles */
#define BARRIERS_AT (BIASES_AT + 2 * BM * 4)
#define BYTES (BARRIERS_AT + (RAW_STAGES + HALF_STAGES + FILTER_STAGES) * 16)

/* Barriers of stages. */
struct FN(bars) {
    uint raw_full, raw_empty, halves_full, halves_empty, filters_full, filters_empty;
};

struct FN(bars) FN(bars_at)(uint to)
{
    const uint halves = to + RAW_STAGES * 16, filters = halves + HALF_STAGES * 16;
    return (struct FN(bars)){to,      to + RAW_STAGES * 8,        halves, halves + HALF_STAGES * 8,
                             filters, filters + FILTER_STAGES * 8};
}

/* What a group computes: filters block * BM.. of conv group g, at positions first.., by chunks chunk.. to end, which
 * are part `split` of the depth. */
struct FN(tile) {
    int g, block, first, chunk, end, split;
};

struct FN(tile) FN(tile_of)(uint tile, const struct conv_scaled_args *sa)
{
    const uint blocks = (uint)(sa->conv.k / sa->conv.groups + BM - 1) / BM,
               of = SPLIT ? tile / (uint)sa->split_k : tile;
    const uint rest = of / blocks;
    const int split = SPLIT ? (int)(tile - of * (uint)sa->split_k) : 0, chunk = SPLIT ? split * sa->share : 0;
    return (struct FN(tile)){(int)(rest / (uint)sa->tiles_each),
                             (int)(of - rest * blocks),
                             (int)(rest % (uint)sa->tiles_each) * BN,
                             chunk,
                             SPLIT ? min(chunk + sa->share, sa->chunks) : sa->chunks,
                             split};
}

int FN(image_of)(int u, const struct conv_scaled_args *sa)
{
    return max(u, 0) / (sa->line[0] * sa->line[1]);
}

/* Image and pixel at position u of a map of rows [0] and columns [1] whose places are every stride-th one from the
 * first on; false where there is none. */
bool FN(pixel_at)(int u, const int size[2], const int first[2], const int stride[2], int *n, int *pixel,
                  const struct conv_scaled_args *sa)
{
    const int pitch = sa->line[1], item = sa->line[0] * pitch;
    *n = FN(image_of)(u, sa);
    const int rest = u - *n * item, line = rest / pitch;
    const int row = line * stride[0] + first[0], column = (rest - line * pitch) * stride[1] + first[1];
    *pixel = row * size[1] + column;
    return u >= 0 && u < sa->positions && row < size[0] && column < size[1];
}

/* Elements of a channel of x, and of y. */
long FN(plane)(const int size[3])
{
    return (long)(VOLUME ? size[0] : 1) * size[1] * size[2];
}

/* Elements before image n of a map whose items lie `item` apart; of a volume, of the plane `ahead` of it, -1: there is
 * none. */
long FN(image_at)(int n, int ahead, long item, const int size[3])
{
    if (!VOLUME)
        return n * item;
    const int volume = n / size[0], plane = n - volume * size[0] + ahead;
    return plane < 0 || plane >= size[0] ? -1 : volume * item + (long)plane * size[1] * size[2];
}

/* Which of the tile's scales position `ahead` of the tile has. */
int FN(scale_at)(int ahead, const struct FN(tile) *t, const struct conv_scaled_args *sa)
{
    return TAPS == 1
               ? ahead
               : clamp(FN(image_of)(t->first + ahead, sa) - FN(image_of)(t->first - sa->ahead, sa), 0, SCALES - 1);
}

/* Scales behind the packed filters: chunks of gains of block `of` of all; what undoes those of its filters. */
const global float *FN(gains_of)(SRC w, int of, const struct conv_scaled_args *sa)
{
    const int blocks = (sa->conv.k / sa->conv.groups + BM - 1) / BM;
    return w + (long)blocks * sa->conv.groups * sa->chunks * (HIGH * FILTERS / 4) +
           (long)of * sa->chunks * SCALED_GAINS(TAPS);
}

const global float *FN(unscale)(SRC w, int of, const struct conv_scaled_args *sa)
{
    const int blocks = (sa->conv.k / sa->conv.groups + BM - 1) / BM;
    return FN(gains_of)(w, blocks * sa->conv.groups, sa) + (long)of * BM;
}

#include "conv_nvidia/conv_wgmma_scaled_bring.clh"

/* Pipelines of those who multiply, and chunks so far. */
struct FN(pipelines) {
    struct FN(pipeline) raw, halves, filters;
    uint serial;
};

/* Sums as they are; `back`, `filters`: what undoes the scales of positions, and of this work-item's filters. */
void FN(unscale_sums)(float d[TILES][RESULTS], const local float *back, const local float *filters,
                      const int scale[ROWS][2])
{
#pragma unroll
    for (int i = 0; i < TILES / ROWS * RESULTS; i++) {
        const float of_filter = filters[i / RESULTS * WGMMA_WIDTH + i % RESULTS / 4 * 8 + i % 2];
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            d[i / RESULTS * ROWS + m][i % RESULTS] *= back[scale[m][i / 2 % 2]] * of_filter;
    }
}

/* Products of `wide` taps of a row of a window; `pixels`, `slab`: where the first one's are in local memory, `right`:
 * positions to the next one's; `more`: 0 for the first products of all. */
__attribute__((always_inline)) void FN(taps)(float d[TILES][RESULTS], int wide, uint pixels, uint slab, int right,
                                             int more)
{
    WGMMA_OPEN;
#pragma unroll
    for (int s = 0; s < wide; s++)
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            const uint at = pixels + m % ROWS * 1024 + s * (TAPS == 1 ? SPAN * 32 : right * 16);
            const uint columns = slab + s * SLAB + m / ROWS * (WGMMA_WIDTH * 32);
            WGMMA_LOCAL(d[m], LOCAL_MATRIX(at, SPAN * 16, 128), LOCAL_MATRIX(columns, 128, 256), more + s);
        }
    WGMMA_CLOSE;
}

/* The sums of a warpgroup's work-item over its part of the depth; `ahead`, `k`: the warpgroup's first position and
 * filter in the tile; `scale`: which scales its rows have. */
void FN(multiply)(struct FN(pipelines) *pipelines, float d[TILES][RESULTS], int ahead, int k, const int scale[ROWS][2],
                  const struct FN(tile) *t, const local float *scratch, uint to, const struct FN(bars) *bars,
                  const struct conv_scaled_args *sa)
{
    struct FN(pipeline) rh = pipelines->halves, rf = pipelines->filters;
    const int down = sa->conv.dil[1] * sa->line[1], right = sa->conv.dil[2], each = STRIDED ? FN(chunks_each)(sa) : 1;
    for (int chunk = t->chunk; chunk < t->end; chunk++) {
        const local float *back = scratch + BACK_AT / 4 + rh.stage * SCALES, *factor = back + HALF_STAGES * SCALES;
        const struct FN(window) window = FN(window_of)(chunk, each, sa);
        const uint pixels = to + HALVES_AT + rh.stage * HALF + (ahead + window.at) * 16;
        uint before = 0;
        int last = 0; /* stage of filters, which also has what undoes their scales at the end of the tile */
        FN(wait)(bars->halves_full + rh.stage * 8, rh.parity);
        if (((const local uint *)scratch)[CHANGED_AT / 4 + rh.stage] == ++pipelines->serial) {
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int i = 0; i < RESULTS; i++)
                    d[m][i] *= factor[scale[m % ROWS][i / 2 % 2]];
        }
#pragma unroll UNROLLED
        for (int step = 0; step < window.high; step++) {
            const uint slab = to + FILTERS_AT + rf.stage * FILTER_STAGE + k * 32;
            FN(wait)(bars->filters_full + rf.stage * 8, rf.parity);
            if (STRIDED && window.wide < WIDE)
                FN(taps)(d, SLABS - 1, pixels + step * down * 16, slab, right, chunk - t->chunk + step);
            else
                FN(taps)(d, SLABS, pixels + step * down * 16, slab, right, chunk - t->chunk + step);
            if (step > 0) {
                WGMMA_LEFT(1);
                FN(release)(before);
            }
            before = bars->filters_empty + rf.stage * 8;
            last = rf.stage;
            rf = FN(next)(rf, FILTER_STAGES);
        }
        WGMMA_LEFT(0);
#pragma unroll
        for (int m = 0; m < TILES; m++)
            KEEP_RESULTS(d[m]);
        if (chunk + 1 == t->end)
            FN(unscale_sums)(d, back, scratch + (FILTERS_AT + FILTERS + last * FILTER_STAGE) / 4 + k + LANE % 4 * 2,
                             scale);
        FN(release)(before);
        FN(release)(bars->halves_empty + rh.stage * 8);
        rh = FN(next)(rh, HALF_STAGES);
    }
    pipelines->halves = rh;
    pipelines->filters = rf;
}

#include "conv_nvidia/conv_wgmma_scaled_store.clh"

#if SPLIT
#define FIXUP_ITEMS 256
#define SUMS (TILES * RESULTS)
#define FIXUP_BARRIER WARPGROUPS_TOGETHER
#include "conv_nvidia/conv_parts.clh"
/* True for the last group of a tile, which then has the sums of the whole depth; tile: of all parts. */
bool FN(join)(float d[TILES][RESULTS], uint tile, const struct FN(tile) *t, DST partial, DST arrived,
              local float *scratch, const struct conv_scaled_args *sa)
{
    const uint of = tile / (uint)sa->split_k;
    global float4 *parts = (global float4 *)partial + (long)of * sa->split_k * PARTIALS + LANE;
    FN(leave)(d[0], parts + t->split * PARTIALS);
    return FN(put_together)(d[0], parts, (global uint *)arrived + of, (uint)sa->split_k - 1,
                            (local uint *)scratch + (CHANGED_AT / 4 + JOINED));
}
#endif

void FN(body)(ulong group, SRC x, SRC w, DST partial, DST arrived, SRC bias, SRC add, DST y,
              const struct conv_scaled_args *sa, local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch);
    const struct FN(bars) bars = FN(bars_at)(to + BARRIERS_AT);
    local float *floats = (local float *)scratch;
    GROUPS_RESIDENT(1);
    LOCAL_BYTES(BYTES);
    for (int i = LANE; i < (BIASES_AT - LARGEST_AT) / 4; i += WG)
        floats[LARGEST_AT / 4 + i] = 0.0f;
    if (LANE == 0) {
        for (int i = 0; i < RAW_STAGES; i++) {
            BARRIER_INIT(bars.raw_full + i * 8, COPIERS);
            BARRIER_INIT(bars.raw_empty + i * 8, PIPELINED_ADD ? 8 : MAKERS / 32);
        }
        for (int i = 0; i < HALF_STAGES; i++) {
            BARRIER_INIT(bars.halves_full + i * 8, MAKERS);
            BARRIER_INIT(bars.halves_empty + i * 8, 8);
        }
        for (int i = 0; i < FILTER_STAGES; i++) {
            BARRIER_INIT(bars.filters_full + i * 8, 1);
            BARRIER_INIT(bars.filters_empty + i * 8, 8);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 384) {
        REGISTERS_LESS(MAKE_REGISTERS);
        FN(make_halves)((uint)group, w, floats, &bars, sa);
    } else if (LANE >= 256) {
        REGISTERS_LESS(COPY_REGISTERS);
        if (COPIER < COPIERS)
            FN(load_pixels)((uint)group, x, add, to, &bars, sa);
        else if (COPIER == COPIERS)
            FN(load_filters)((uint)group, w, to, &bars, sa);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        const int lane = LANE % 32, half_of = LANE / 128, start = SHARE_FILTERS ? 0 : half_of * (BN / 2);
        const int mine = SHARE_FILTERS ? half_of * MINE : 0, row = LANE % 128 / 32 * 16 + lane / 4;
        local float *biases = floats + BIASES_AT / 4;
        struct FN(pipelines) pipelines = {{0, 0}, {0, 0}, {0, 0}, 0};
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
            const int k0 = t.block * BM, kg = sa->conv.k / sa->conv.groups;
#if EPI_BIAS
            const float bias_of = LANE < BM && k0 + LANE < kg ? bias[t.g * kg + k0 + LANE] : 0.0f;
#endif
            FN(multiply)(&pipelines, d, start, mine, scale, &t, floats, to, &bars, sa);
#if SPLIT
            if (!FN(join)(d, tile, &t, partial, arrived, floats, sa))
                continue;
#endif
#if EPI_BIAS
            /* some may still read the tile before */
            biases = floats + BIASES_AT / 4 + (biases == floats + BIASES_AT / 4) * BM;
            if (LANE < BM)
                biases[LANE] = bias_of;
            WARPGROUPS_TOGETHER;
#endif
#if PIPELINED_ADD
            FN(add_loaded)(&pipelines, d, biases + mine + lane % 4 * 2, floats + lane % 4 * 2 * PITCH + start + row,
                           &bars, sa);
#endif
            FN(store)(d, biases + mine + lane % 4 * 2, k0 + mine + lane % 4 * 2, t.first + start + row, &t, add, y, sa);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, DST partial, ulong partial_off, DST arrived, ulong arrived_off,
                SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off, const struct conv_scaled_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, partial + partial_off, arrived + arrived_off, bias + bias_off, add + add_off,
             y + y_off, &a, scratch);
}
#endif
