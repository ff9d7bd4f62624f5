/* conv_transpose_blocked.cl: transposed convolution of images and volumes with channels in blocks, for CPU devices: a
 * work-item computes register tiles.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][ih][iw] * w[g*C/g + c][k - g*K/g][r][s] + bias[k] + add )
 *
 * over the taps for which oh + ph - r*dh = ih*sh and ow + pw - s*dw = iw*sw with (ih, iw) inside of the image, and
 * likewise along the depth of volumes. The pixels of a phase (conv_phases.clh), of which a row of the output has every
 * sw-th, meet the same taps; slices of a volume are numbered like images.
 * Layouts: x, y, add [ceil(C/B)][D][H][W][B] with batch strides; w packed by conv_transpose_pack.cl:
 * [groups][K/groups/(KV*B)][Q][R][S][C/groups rounded up to B][KV*B], zeros for missing filters and channels. C/groups
 * and K/groups are multiples of B when there are groups; lanes of y past K are written as zeros.
 * Order: the weights of c_step channel blocks serve up to TILES tiles before the next ones are read.
 * Tile: T pixels of a phase, in the order of (slice, row, column), by KV vectors of B filters, accumulators in
 * registers.
 * For each tap the input is read where it lies when the pixels are neighbours there, else it is first copied, zeros
 * outside of the image: so small maps fill the tiles.
 * Index map: a work-item computes the tiles chunk * per_item ... of a phase, for one block of filters. The chunks come
 * in spans, whose input stays in a core's cache for all filters and phases: group = first chunk of the span * phases *
 * blocks of filters + (block * phases + phase) * chunks of the span + chunk.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector
 * registers); TILES tiles whose sums are kept; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv/conv_phases_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_transpose_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#include "common/block_channels.clh"
#include "conv/conv_phases.clh"
#ifndef T
#define T 8
#endif
#ifndef KV
#define KV 2
#endif
#ifndef TILES
#define TILES 8
#endif
#define SOON 16 /* channels from the weights that are read to those on their way to the first cache */

#if V == 16
#define PAST(channels) min(V, channels)
#else /* unrolled: the channels that are missing in the last block, too */
#define PAST(channels) V
#endif

/* One tap on a block of channels, of which there are so many from its first one on; pixel t of the tile is at
 * row + t * V. */
#define SOON_OF(v) PREFETCH_SOON(wp + (SOON * KV + (v)) * V)
#define TAP(row, channels)                                                 \
    UNROLL_CHANNELS for (int c = 0; c < PAST(channels); c++, wp += KV * V) \
        MULTIPLY_CHANNEL(row, V, c, wp, 0, T, SOON_OF)

/* The next pixel of a phase. */
void FN(next)(struct FN(pixel) *p, const struct FN(phase) *rows, const struct FN(phase) *cols)
{
    if (++p->col == cols->outputs) {
        p->col = 0;
        if (++p->row == rows->outputs) {
            p->row = 0;
            p->n++;
        }
    }
}

/* Where a tile's results go: its first pixel and filter. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int k;
    struct FN(pixel) from;
    struct FN(phase) depth, rows, cols;
};

/* The image that slice `slice` of a phase belongs to, and which one it is there. */
int2 FN(image_of)(int slice, const struct FN(phase) *depth)
{
    return depth->outputs == 1 ? (int2)(slice, 0) : (int2)(slice / depth->outputs, slice % depth->outputs);
}

/* Writes the sums of a tile. */
void FN(finish_tile)(FV acc[T][KV], const struct FN(target) *to, const struct conv_transpose_blocked_args *a)
{
    const struct conv_phases *f = &a->phases;
    const long slice = (long)f->out[0] * f->out[1] * V, map = a->depth.out[0] * slice;
    const int slices = a->n * to->depth.outputs;
    const int past = (to->k / a->kg + 1) * a->kg; /* of the group's filters */
    const struct blocked_epilogue epi = a->epi;   /* a copy: stores of y cannot change it */
    FV b[KV];
#pragma unroll
    for (int v = 0; v < KV; v++)
        b[v] = FN(bias)(to->bias, to->k + v * V, a->k, &epi);
    struct FN(pixel) p = to->from;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (p.n < slices) {
            const int2 image = FN(image_of)(p.n, &to->depth);
            const int od = to->depth.q + image.y * a->depth.stride[0];
            const int oh = to->rows.q + p.row * f->stride[0], ow = to->cols.q + p.col * f->stride[1];
            const long at = to->k / V * map + od * slice + ((long)oh * f->out[1] + ow) * V;
            const global float *add = to->add + image.x * a->add_n;
            global float *y = to->y + image.x * a->dst_n;
#pragma unroll
            for (int v = 0; v < KV; v++)
                if (to->k + v * V < past)
                    FN(store)(acc[t][v], b[v], add, y, at + v * map, a->k - to->k - v * V, &epi);
        }
        FN(next)(&p, &to->rows, &to->cols);
    }
}

/* Adds to the sums of one tile (fresh: which are zero) what blocks begin to c_past - 1 of the group's input channels
 * give, the first ones at x and w; the last time the results are stored instead. */
void FN(tile)(SRC x, SRC w, float *sums, int begin, int c_past, const struct FN(target) *to,
              const struct conv_transpose_blocked_args *a)
{
    const bool fresh = begin == 0, last = c_past == a->c_blocks;
    const struct conv_phases *f = &a->phases;
    const long slice = (long)f->in[0] * f->in[1] * V, plane = a->depth.in[0] * slice;
    const long tap = (long)a->c_blocks * (V * KV * V);
    const int slices = a->n * to->depth.outputs, depth_taps = to->depth.taps;
    const bool one_row = to->from.col + T <= to->cols.outputs; /* and so is inside of the batch */
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = fresh ? (FV)0.0f : LOADV(sums, (v * T + t) * V);
    const int2 image = FN(image_of)(to->from.n, &to->depth);
    for (int rest = 0; rest < depth_taps * to->rows.taps; rest++)
        for (int i = 0; i < to->cols.taps; i++) {
            const int q = rest % depth_taps, j = rest / depth_taps, deep = to->depth.from - q * a->depth.step[0];
            const int up = to->rows.from - j * f->step[0], left = to->cols.from - i * f->step[1];
            const int r = (to->depth.first + q * a->depth.every[0]) * f->ker[0] + to->rows.first + j * f->every[0];
            SRC wp = w + (r * f->ker[1] + to->cols.first + i * f->every[1]) * tap;
            const int id = image.y + deep, ih = to->from.row + up, iw = to->from.col + left;
            if (one_row &&
                (id < 0 || id >= a->depth.in[0] || ih < 0 || ih >= f->in[0] || iw + T <= 0 || iw >= f->in[1]))
                continue;
            if (one_row && iw >= 0 && iw + T <= f->in[1]) {
                SRC row = x + image.x * a->src_n + id * slice + ((long)ih * f->in[1] + iw) * V;
                for (int cb = begin; cb < c_past; cb++, row += plane)
                    TAP(row, a->c - cb * V)
                continue;
            }
            long at[T]; /* -1: outside */
            struct FN(pixel) p = to->from;
            for (int t = 0; t < T; t++) {
                const int2 of = FN(image_of)(p.n, &to->depth);
                const int d = of.y + deep, h = p.row + up, l = p.col + left;
                const bool inside =
                    p.n < slices && d >= 0 && d < a->depth.in[0] && h >= 0 && h < f->in[0] && l >= 0 && l < f->in[1];
                at[t] = inside ? of.x * a->src_n + d * slice + ((long)h * f->in[1] + l) * V : -1;
                FN(next)(&p, &to->rows, &to->cols);
            }
            float copy[T * V] __attribute__((aligned(64)));
            SRC from = x;
            for (int cb = begin; cb < c_past; cb++, from += plane) {
                for (int t = 0; t < T; t++)
                    KEEPV(at[t] >= 0 ? LOADV(from, at[t]) : (FV)0.0f, copy, t * V);
                TAP(copy, a->c - cb * V)
            }
        }
    if (last) {
        FN(finish_tile)(acc, to, a);
        return;
    }
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            KEEPV(acc[t][v], sums, (v * T + t) * V);
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_transpose_blocked_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int of_slice = f->count[0] * f->count[1], phases = of_slice * a->depth.count[0];
    const int parts = phases * a->k_blocks * (a->k / a->kg);
    const int first = (int)(group / (ulong)(a->span * parts)) * a->span, span = min(a->span, a->chunks - first);
    const int index = (int)(group - (ulong)first * parts), part = index / span, chunk = first + index % span;
    const int block = part / phases, g = block / a->k_blocks; /* of groups > 1, whose blocks are full */
    struct FN(target) to = {bias, add, y, g * a->kg + block % a->k_blocks * (KV * V)};
    const int phase = part % phases;
    to.depth = FN(phase_of)(phase / of_slice, 0, &a->depth);
    to.rows = FN(phase_of)(phase % of_slice / f->count[1], 0, f);
    to.cols = FN(phase_of)(phase % f->count[1], 1, f);
    const int pixels = a->n * to.depth.outputs * to.rows.outputs * to.cols.outputs;
    const int end = min((chunk + 1) * a->per_item, (pixels + T - 1) / T);
    const long plane = (long)a->depth.in[0] * f->in[0] * f->in[1] * V;
    SRC xg = x + g * a->c_blocks * plane;
    SRC wb = w + block * ((long)a->depth.ker[0] * f->ker[0] * f->ker[1] * a->c_blocks * (V * KV * V));
    float sums[TILES][T * KV * V] __attribute__((aligned(64)));
    for (int begin = chunk * a->per_item; begin < end; begin += TILES) {
        const int count = min(TILES, end - begin);
        for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
            const int c_past = min(cb + a->c_step, a->c_blocks);
            SRC xc = xg + cb * plane;
            for (int i = 0; i < count; i++) {
                to.from = FN(pixel_of)((begin + i) * T, &to.rows, &to.cols);
                FN(tile)(xc, wb + cb * (V * KV * V), sums[i], cb, c_past, &to, a);
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_transpose_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
