/* conv_filter_grad_scaled.cl: the gradient of a convolution's filters on Hopper's tensor cores (compute capability 9.0)
 * as an implicit matrix product of scaled halves, both of which lie in local memory.
 *
 *   dw[k][c][t] = sum over n, o of dy[n][k][o] * x[n][g*C/g + c][o*stride - pad + t*dil]; g is the group of k
 *
 * dy and the planes of x lie as lines of the same pitch with zeros behind rows (conv_filter_grad_halves.cl), eight
 * channels of a pixel together. So the windows of a position of the kernel are the line of x from another pixel on: 16
 * bytes further in local memory for each pixel, which tensor cores take as it is. A chunk of DEPTH pixels comes
 * by bulk copies once for all positions of a tile.
 * Of the first two warpgroups each computes SLOTS times 64 channels by BN filters: slot u of both is channel block
 * u / taps and position u % taps of the tile. One warp of the third copies.
 * Groups of a part compute chunks part*share..; conv_filter_grad_join.cl adds the parts up. A sum that is no finite
 * number is computed again by its definition.
 * Layouts: lines of x and dy by conv_filter_grad_halves.cl, with what undoes their scales; x, dy NCHW with batch
 * strides as they came; y [part][g][t][c][k], k rounded up to a multiple of 8.
 * Index map: group = (((part * conv groups + g) * tiles of channels + tile) * tiles of positions + tile) * tiles of
 * filters + tile.
 * Work-group: WG. Local memory: LINES_LOCAL bytes (LOCAL_BYTES of wgmma.clh).
 * Defines: WG 384, BN 128 or 64, SLOTS, DEPTH (of a chunk, a multiple of 16); all required. */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_scaled_##x
#endif
#ifndef SLOTS
#error "SLOTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define BM 64
#define PRODUCTS 1
#define WGMMA_HALVES 1
#define WGMMA_TURNED 1
#define WGMMA_WIDTH BN
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_local.clh"
#include "conv_nvidia/wgmma_ring.clh"
#define RESULTS (BN / 2)
#define ALL_SLOTS (2 * SLOTS)
#define COPY_REGISTERS 40
#define MULTIPLY_REGISTERS 232
/* Local memory: barriers, the slots of the tile, what undoes the scales of its filters, stages on a boundary of 128
 * bytes. */
#define EMPTY_AT (8 * LINES_STAGES)
#define SLOTS_AT (2 * EMPTY_AT)
#define UNDO_AT 512
#define STAGES_AT LINES_HEADER

/* What a group computes: channels, filters, and positions from these on, of conv group g; chunks of a part. */
struct FN(tile) {
    int part, g, channel, filter, tap, chunks;
};

struct FN(tile) FN(tile_of)(uint group, const struct filter_grad_scaled_args *f)
{
    const uint rest = group / (uint)f->filter_tiles, outer = rest / (uint)f->tap_tiles;
    const uint line = outer / (uint)f->channel_tiles, part = line / (uint)f->conv.groups;
    struct FN(tile) t;
    t.part = (int)part;
    t.g = (int)(line - part * (uint)f->conv.groups);
    t.channel = (int)(outer - line * (uint)f->channel_tiles) * f->blocks * 64;
    t.tap = (int)(rest - outer * (uint)f->tap_tiles) * f->taps;
    t.filter = (int)(group - rest * (uint)f->filter_tiles) * BN;
    t.chunks = min(f->share, f->chunks - t.part * f->share);
    return t;
}

/* How far a position of the kernel lies from the pixel on the line, and in which plane. */
struct FN(tap) {
    int shift, plane;
};

struct FN(tap) FN(tap_of)(int tap, const struct filter_grad_scaled_args *f)
{
    const struct conv_args *a = &f->conv;
    const int row = tap / a->ker[2], down = row * a->dil[1] - a->pad[1] - f->begin[0];
    const int right = (tap - row * a->ker[2]) * a->dil[2] - a->pad[2] - f->begin[1];
    const int q = (down + f->down * a->stride[1]) / a->stride[1] - f->down; /* rounded down */
    const int r = (right + f->right * a->stride[2]) / a->stride[2] - f->right;
    return (struct FN(tap)){q * f->wide + r, (down - q * a->stride[1]) * f->planes[1] + right - r * a->stride[2]};
}

/* The slots of a tile: its planes of x one behind another in a stage, from pixel `first` of the part's line on; where
 * in a stage each slot begins, and what it is: a position of the kernel. */
struct FN(slots) {
    int regions, first, pixels;
    int plane[ALL_SLOTS], begin[ALL_SLOTS], tap[ALL_SLOTS];
};

void FN(find_slots)(local struct FN(slots) *s, const struct FN(tile) *t, const struct filter_grad_scaled_args *f)
{
    local int *shift = s->begin, *plane = s->tap; /* of each slot, at first */
    if (LANE < ALL_SLOTS) {
        const struct FN(tap) tap = FN(tap_of)(min(t->tap + LANE % f->taps, f->conv.ker[1] * f->conv.ker[2] - 1), f);
        shift[LANE] = tap.shift;
        plane[LANE] = tap.plane;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE == 0) {
        int least = shift[0], most = shift[0];
        s->regions = 0;
        for (int u = 1; u < f->taps; u++) {
            least = min(least, shift[u]);
            most = max(most, shift[u]);
        }
        const int first = f->first + (least - f->first) / 8 * 8; /* copies begin and end on boundaries of 128 bytes */
        for (int u = 0; u < ALL_SLOTS; u++) {
            const int block = u / f->taps;
            int region = 0;
            while (region < s->regions && s->plane[region] != plane[u])
                region++;
            if (region == s->regions)
                s->plane[s->regions++] = plane[u];
            s->begin[u] = ((region * f->blocks + block) * 8 * f->span + shift[u] - first) * 16;
            s->tap[u] = t->tap + u % f->taps;
        }
        s->first = first - f->first;
        s->pixels = (DEPTH + most - first + 7) / 8 * 8;
    }
}

/* The warp that copies: all octets of channels and filters that there are. Copies of a kilobyte take as long as larger
 * ones: what lies in pieces of a chunk comes at once. */
void FN(load)(uint stages, uint full, uint empty, const global float *x, const global float *dy,
              const local struct FN(slots) *s, const struct FN(tile) *t, const struct filter_grad_scaled_args *f)
{
    const int lane = LANE % 32, planes = f->planes[0] * f->planes[1], line = t->part * f->conv.groups + t->g;
    const int octets = min(f->blocks * 8, f->octets_x - t->channel / 8),
              of_dy = min(BN / 8, f->octets_dy - t->filter / 8);
    const int regions = s->regions, pixels = s->pixels, each = f->whole ? octets : 1; /* octets of x of a copy */
    const uint bytes = (uint)(regions * octets * pixels + of_dy * DEPTH) * 16;
    const long next = (f->whole ? f->octets_x : 1) * DEPTH * 4, plane = (long)f->octets_x * f->length * 4;
    const global float *from = x + line * planes * plane + ((long)t->channel / 8 * f->piece + s->first) * 4;
    const global float *from_dy = dy + ((long)line * f->share * f->octets_dy + t->filter / 8) * (DEPTH * 4);
    struct FN(pipeline) r = {0, 1};
    for (int chunk = 0; chunk < t->chunks; chunk++) {
        const uint to = stages + (uint)(r.stage * f->stage), bar = full + r.stage * 8;
        FN(wait)(empty + r.stage * 8, r.parity);
        if (lane == 0) {
            BARRIER_EXPECT(bar, bytes);
            BULK_COPY(to + f->of_dy, from_dy, of_dy * (DEPTH * 16), bar);
        }
        WARP_TOGETHER;
        for (int region = 0; region < regions; region++)
            for (int o = lane * each; o < octets; o += 32 * each)
                BULK_COPY(to + ((region * f->blocks * 8 + o) * f->span) * 16,
                          from + s->plane[region] * plane + (long)o * f->length * 4, each * pixels * 16, bar);
        from += next;
        from_dy += f->octets_dy * (DEPTH * 4);
        r = FN(next)(r, f->stages);
    }
}

/* The sums of a warpgroup's work-item. */
void FN(multiply)(float sum[SLOTS][RESULTS], uint stages, uint full, uint empty, const local struct FN(slots) *s,
                  const struct FN(tile) *t, const struct filter_grad_scaled_args *f)
{
    struct FN(pipeline) r = {0, 0};
    uint begin[SLOTS], before = 0;
#pragma unroll
    for (int u = 0; u < SLOTS; u++) {
        begin[u] = stages + (uint)s->begin[LANE / 128 * SLOTS + u];
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
            sum[u][i] = 0.0f;
    }
#pragma unroll 1
    for (int chunk = 0; chunk < t->chunks; chunk++) {
        const uint at = (uint)(r.stage * f->stage), dy = stages + at + f->of_dy;
        FN(wait)(full + r.stage * 8, r.parity);
        WGMMA_OPEN;
#pragma unroll
        for (int d = 0; d < DEPTH / 16; d++)
#pragma unroll
            for (int u = 0; u < SLOTS; u++)
                WGMMA_LOCAL(sum[u], LOCAL_MATRIX(begin[u] + at + d * 256, 128, f->span * 16),
                            LOCAL_MATRIX(dy + d * 256, 128, DEPTH * 16), 1);
        WGMMA_CLOSE;
        if (chunk > 0) {
            WGMMA_LEFT(1);
            FN(release)(before);
        }
        before = empty + r.stage * 8;
        r = FN(next)(r, f->stages);
    }
    WGMMA_LEFT(0);
#pragma unroll
    for (int u = 0; u < SLOTS; u++)
        KEEP_RESULTS(sum[u]);
}

/* A sum of the tile by its definition: channel c and filter k of the conv group. */
float FN(define)(int c, int k, int tap, SRC x, SRC dy, const struct FN(tile) *t,
                 const struct filter_grad_scaled_args *f)
{
    const struct conv_args *a = &f->conv;
    const int down = tap / a->ker[2] * a->dil[1] - a->pad[1], right = tap % a->ker[2] * a->dil[2] - a->pad[2];
    const global float *of_x = x + ((long)t->g * (a->c / a->groups) + c) * a->in[1] * a->in[2];
    const global float *of_dy = dy + ((long)t->g * (a->k / a->groups) + k) * a->out[1] * a->out[2];
    const uint first = (uint)(t->part * f->share) * DEPTH;
    float sum = 0.0f;
    for (uint p = first; p < first + (uint)t->chunks * DEPTH; p++) {
        const uint row = p / (uint)f->wide, n = row / (uint)f->high;
        const int i = (int)(row - n * (uint)f->high), j = (int)(p - row * (uint)f->wide);
        const int h = i * a->stride[1] + down, w = j * a->stride[2] + right;
        if ((int)n < a->n && i < a->out[1] && j < a->out[2] && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2])
            sum = fma(of_dy[n * a->dst_n + (long)i * a->out[2] + j], of_x[n * a->src_n + (long)h * a->in[2] + w], sum);
    }
    return sum;
}

/* A result from the scaled one; either scale alone may be beyond what a float holds. */
float FN(unscale)(float sum, float back, float other)
{
    return sum * fmax(back, other) * fmin(back, other);
}

/* Where channel `row` + 8 * h of a slot's 64 has the tile's first filter; NULL where there is no such channel or
 * position.
 */
DST FN(channel_at)(int slot, int row, DST y, int *c, int *tap, const local struct FN(slots) *s,
                   const struct FN(tile) *t, const struct filter_grad_scaled_args *f)
{
    const int taps = f->conv.ker[1] * f->conv.ker[2], cg = f->conv.c / f->conv.groups;
    *tap = s->tap[slot];
    *c = t->channel + slot / f->taps * 64 + row;
    return *tap < taps && *c < cg
               ? y + ((((long)t->part * f->conv.groups + t->g) * taps + *tap) * cg + *c) * (f->octets_dy * 8) +
                     t->filter
               : 0;
}

/* Stores the sums of a work-item: channels `row` and 8 further of each slot's 64, filters `column` + 8 * j + e. undo:
 * what undoes the scales of the tile's filters, in local memory. Returns whether any is no finite number. */
bool FN(store)(const float sum[SLOTS][RESULTS], DST y, int row, int column, SRC back_x, const local float *undo,
               const local struct FN(slots) *s, const struct FN(tile) *t, const struct filter_grad_scaled_args *f)
{
    const int filters = f->octets_dy * 8 - t->filter, planes = f->planes[0] * f->planes[1];
    const global float *back = back_x + ((long)t->part * f->conv.groups + t->g) * planes * f->octets_x * 8;
    bool lost = false;
#pragma unroll
    for (int u = 0; u < SLOTS; u++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int c, tap;
            DST to = FN(channel_at)(LANE / 128 * SLOTS + u, row + h * 8, y, &c, &tap, s, t, f);
            if (to) {
                const float other = back[FN(tap_of)(tap, f).plane * f->octets_x * 8 + c];
#pragma unroll
                for (int j = 0; j < BN / 8; j++)
                    if (j * 8 < filters) {
                        const float2 v =
                            (float2)(FN(unscale)(sum[u][4 * j + 2 * h], other, undo[column + j * 8]),
                                     FN(unscale)(sum[u][4 * j + 2 * h + 1], other, undo[column + j * 8 + 1]));
                        lost |= !(fabs(v.x) < INFINITY && fabs(v.y) < INFINITY);
                        *(global float2 *)(to + column + j * 8) = v;
                    }
            }
        }
    return lost;
}

/* Computes by their definition those that are no finite numbers. */
void FN(mend)(DST y, int row, int column, SRC x, SRC dy, const local struct FN(slots) *s, const struct FN(tile) *t,
              const struct filter_grad_scaled_args *f)
{
#pragma unroll 1
    for (int i = 0; i < SLOTS * BN / 2; i++) {
        const int k = i % (BN / 4) / 2 * 8 + i % 2 + column;
        int c, tap;
        DST to = FN(channel_at)(LANE / 128 * SLOTS + i / (BN / 2), row + i / (BN / 4) % 2 * 8, y, &c, &tap, s, t, f);
        if (to && t->filter + k < f->conv.k / f->conv.groups && !(fabs(to[k]) < INFINITY))
            to[k] = FN(define)(c, t->filter + k, tap, x, dy, t, f);
    }
}

void FN(body)(ulong group, SRC lines_x, SRC back_x, SRC lines_dy, SRC back_dy, SRC x, SRC dy, DST y,
              const struct filter_grad_scaled_args *f, local float4 *scratch)
{
    const uint to = LOCAL_ADDRESS(scratch), empty = to + EMPTY_AT, stages = to + STAGES_AT;
    const struct FN(tile) t = FN(tile_of)((uint)group, f);
    local struct FN(slots) *slots = (local struct FN(slots) *)((local char *)scratch + SLOTS_AT);
    local float *undo = (local float *)((local char *)scratch + UNDO_AT);
    const int filters = f->octets_dy * 8 - t.filter;
    GROUPS_RESIDENT(1);
    LOCAL_BYTES(LINES_LOCAL);
    if (LANE == 0) {
        for (int i = 0; i < f->stages; i++) {
            BARRIER_INIT(to + i * 8, 1);
            BARRIER_INIT(empty + i * 8, 8);
        }
        LOCAL_VISIBLE;
    }
    FN(find_slots)(slots, &t, f);
    if (LANE < BN)
        undo[LANE] =
            LANE < filters ? back_dy[((long)t.part * f->conv.groups + t.g) * f->octets_dy * 8 + t.filter + LANE] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= 256) {
        REGISTERS_LESS(COPY_REGISTERS);
        if (LANE < 288)
            FN(load)(stages, to, empty, lines_x, lines_dy, slots, &t, f);
    } else {
        REGISTERS_MORE(MULTIPLY_REGISTERS);
        float sum[SLOTS][RESULTS];
        FN(multiply)(sum, stages, to, empty, slots, &t, f);
        const int row = LANE % 128 / 32 * 16 + LANE % 32 / 4, column = LANE % 4 * 2;
        if (FN(store)(sum, y, row, column, back_x, undo, slots, &t, f))
            FN(mend)(y, row, column, x, dy, slots, &t, f);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC lines_x, ulong lines_x_off, SRC back_x, ulong back_x_off, SRC lines_dy, ulong lines_dy_off,
                SRC back_dy, ulong back_dy_off, SRC x, ulong x_off, SRC dy, ulong dy_off, DST y, ulong y_off,
                const struct filter_grad_scaled_args f)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, lines_x + lines_x_off, back_x + back_x_off, lines_dy + lines_dy_off, back_dy + back_dy_off,
             x + x_off, dy + dy_off, y + y_off, &f, scratch);
}
#endif
