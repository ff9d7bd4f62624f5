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
 * blocks of BM filters + block. Two warpgroups multiply, BN / 2 positions each. Three warps of the third one load
 * pixels, CHANNELS channels at a time, to one of RAW_STAGES, and a work-item of the last warp filters, SLABS taps
 * (single pixels: 16 channels) of a chunk at a time, to one of FILTER_STAGES; the fourth warpgroup makes halves of
 * pixels, in one of HALF_STAGES. Where BN is no multiple of 128 the two that multiply take BM / 2 filters each instead.
 * Work-group: WG. Local memory: stages, scales and barriers, up to 227 KiB (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 512, or 640 with twice as many that make halves (BM 64 and BN up to 256), HIGH and WIDE (up to 7; both 1:
 * single pixels), DEEP 0 or (single pixels) 1, BM filters and BN positions of a tile (64 and 512, 128 and 128 or 256,
 * 256 and 128; with windows also 64 and 64, 128 or 256, with single pixels and nothing to add 224 and 192), SPAN
 * positions in local memory, a multiple of 128, BN with single pixels, ADD_STAGES 0 or (single pixels) 1: what is added
 * comes through stages, TOGETHER pixels of a row that are copied at once where they lie on boundaries (1, 2, default 4;
 * lines are multiples of it), STRIDED, VOLUME 0 (default) or (windows) 1, one of them at most, RAGGED 0 (default) or 1:
 * the channels of a conv group are no multiple of CHANNELS, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh); all but the last
 * eight required. */
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
#define BATCH (MINE / 8 % 4 == 0 ? 8 : 4) /* results of a position that a work-item stores at once */
#define EACH (MINE / 8 / (BATCH / 2))     /* batches of a position */
#define BATCHES (ROWS * 2 * EACH)
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

/* The sums of a warpgroup's work-item; `ahead`, `k`: the warpgroup's first position and filter in the tile; `scale`:
 * which scales its rows have. */
void FN(multiply)(struct FN(pipelines) *pipelines, float d[TILES][RESULTS], int ahead, int k, const int scale[ROWS][2],
                  const local float *scratch, uint to, const struct FN(bars) *bars, const struct conv_scaled_args *sa)
{
    struct FN(pipeline) rh = pipelines->halves, rf = pipelines->filters;
    const int down = sa->conv.dil[1] * sa->line[1], right = sa->conv.dil[2], each = STRIDED ? FN(chunks_each)(sa) : 1;
    for (int chunk = 0; chunk < sa->chunks; chunk++) {
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
                FN(taps)(d, SLABS - 1, pixels + step * down * 16, slab, right, chunk + step);
            else
                FN(taps)(d, SLABS, pixels + step * down * 16, slab, right, chunk + step);
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
        if (chunk + 1 == sa->chunks)
            FN(unscale_sums)(d, back, scratch + (FILTERS_AT + FILTERS + last * FILTER_STAGE) / 4 + k + LANE % 4 * 2,
                             scale);
        FN(release)(before);
        FN(release)(bars->halves_empty + rh.stage * 8);
        rh = FN(next)(rh, HALF_STAGES);
    }
    pipelines->halves = rh;
    pipelines->filters = rf;
}

#if PIPELINED_ADD
/* What was loaded is added to sums, and biases are; `values`: in stage 0, the first filter and position of this
 * work-item. */
void FN(add_loaded)(struct FN(pipelines) *pipelines, float d[TILES][RESULTS], const local float *biases,
                    const local float *values, const struct FN(bars) *bars, const struct conv_scaled_args *sa)
{
    const uint before = (uint)(pipelines->raw.stage + sa->chunks); /* those were pixels */
    struct FN(pipeline) r = {(int)(before % RAW_STAGES), pipelines->raw.parity ^ (before / RAW_STAGES & 1)};
#pragma unroll
    for (int step = 0; step < ADD_STEPS; step++, r = FN(next)(r, RAW_STAGES)) {
        const local float *v = values + r.stage * (RAW / 4);
        FN(wait)(bars->raw_full + r.stage * 8, r.parity);
#pragma unroll
        for (int m = 0; m < ROWS; m++)
#pragma unroll
            for (int i = 0; i < CHANNELS / 2; i++) {
                const int k = i / 4 * 8 + i % 2, of = step * CHANNELS + k;
                d[m + of / WGMMA_WIDTH * ROWS][of % WGMMA_WIDTH / 8 * 4 + i % 4] +=
                    v[k * PITCH + m * 64 + i / 2 % 2 * 8] + (EPI_BIAS ? biases[of] : 0.0f);
            }
        FN(release)(bars->raw_empty + r.stage * 8);
    }
    pipelines->raw = r;
}
#endif

/* Where spot 2 * m + h of a work-item, position u + 64 * m + 8 * h, has its results and what is added to them, and how
 * many of the filters from this work-item's first one on there are. */
struct FN(spot) {
    long to, other;
    int left;
};

struct FN(spot) FN(spot_at)(int u, int spot, int first, int left, const struct conv_scaled_args *sa)
{
    const struct conv_args *a = &sa->conv;
    const long plane = FN(plane)(a->out);
    int n, pixel;
    const int origin[2] = {0, 0}, each[2] = {1, 1};
    const bool present = FN(pixel_at)(u + spot / 2 * 64 + spot % 2 * 8, a->out + 1, origin, each, &n, &pixel, sa);
    return (struct FN(spot)){FN(image_at)(n, 0, a->dst_n, a->out) + first * plane + pixel,
                             FN(image_at)(n, 0, a->add_n, a->out) + first * plane + pixel, present ? left : 0};
}

/* Filter i of a batch, from its first one on; which are of the batch `batch` of a spot. */
#define OF_BATCH(i) ((i) / 2 * 8 + (i) % 2)
#define FIRST_OF(batch) ((batch) * (BATCH / 2) * 8)

void FN(added)(float more[BATCH], const struct FN(spot) *at, int batch, long plane, SRC add)
{
    SRC from = add + at->other + FIRST_OF(batch) * plane;
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        more[i] = FIRST_OF(batch) + OF_BATCH(i) < at->left ? from[OF_BATCH(i) * plane] : 0.0f;
}

/* Sums of a work-item: filters k0 + 8 * j + e of the conv group at spots from position u on. `biases`: in local memory,
 * from k0 on, so that no store waits for a load. What is added to a batch of results is asked for before the one before
 * is stored. */
void FN(store)(const float d[TILES][RESULTS], const local float *biases, int k0, int u, const struct FN(tile) *t,
               SRC add, DST y, const struct conv_scaled_args *sa)
{
    const struct conv_args *a = &sa->conv;
    const long plane = FN(plane)(a->out);
    const int kg = a->k / a->groups, first = t->g * kg + k0;
    struct FN(spot) at, next = FN(spot_at)(u, 0, first, kg - k0, sa);
    float more[2][BATCH];
#if DEEP
    const bool pairs = (((ulong)y / 4 | a->dst_n | first) & 1) == 0;
    float even = 0.0f;
#endif
#if LATE_ADD
    FN(added)(more[0], &next, 0, plane, add);
#endif
#pragma unroll
    for (int r = 0; r < BATCHES; r++) {
        const int m = r / EACH / 2, h = r / EACH % 2;
        at = next;
        if (r + 1 < BATCHES) {
            if ((r + 1) % EACH == 0)
                next = FN(spot_at)(u, (r + 1) / EACH, first, kg - k0, sa);
#if LATE_ADD
            FN(added)(more[(r + 1) % 2], &next, (r + 1) % EACH, plane, add);
#endif
        }
        DST to = y + at.to + FIRST_OF(r % EACH) * plane;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int k = FIRST_OF(r % EACH) + OF_BATCH(i), of = k / 8;
            float sum = d[m + of / (WGMMA_WIDTH / 8) * ROWS][4 * of % RESULTS + 2 * h + i % 2];
#if EPI_BIAS && !PIPELINED_ADD
            sum += biases[k];
#endif
#if LATE_ADD
            sum = EPILOGUE_END(sum, more[r % 2][i], a);
#else
            sum = EPI_ACT(sum, a->p0, a->p1);
#endif
#if DEEP
            if (i % 2 == 0)
                even = sum;
            else if (k < at.left && pairs)
                *(global float2 *)(to + OF_BATCH(i) - 1) = (float2)(even, sum);
            else if (k - 1 < at.left) {
                to[OF_BATCH(i) - 1] = even;
                if (k < at.left)
                    to[OF_BATCH(i)] = sum;
            }
#else
            if (k < at.left)
                to[OF_BATCH(i) * plane] = sum;
#endif
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_scaled_args *sa,
              local float4 *scratch)
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
            FN(multiply)(&pipelines, d, start, mine, scale, floats, to, &bars, sa);
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

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_scaled_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
