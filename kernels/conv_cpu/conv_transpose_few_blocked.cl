/* conv_transpose_few_blocked.cl: transposed convolution of images and volumes from a map with channels in blocks to a
 * row-major one of few filters, for CPU devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][c][ih][iw] * w[c][k][r][s] + bias[k] + add )
 *
 * over the taps for which oh + ph - r*dh = ih*sh and ow + pw - s = iw*sw with (ih, iw) inside of the image, and
 * likewise along the depth of volumes. Rows (and slices) have phases, see conv_phases.clh.
 * Lanes are channels: where filters were lanes, few of them would leave most of a vector empty. A tile's sums are added
 * up across their lanes at the end.
 * Columns: `places` are the columns of the output, padding included, SW at a time: place m, column q < SW, gets from
 * input m - i the tap i * SW + q. So all columns of a place read one input, each of which is loaded once for them, and
 * in the last taps of a window that SW does not divide the last columns have no part: nothing is multiplied by zero.
 * Layouts: x [ceil(C/V)][D][H][W][V], y and add [K][D][P][Q], all with batch strides; w packed by conv_pack.cl:
 * [ceil(C/V)][K][taps of depth][R][S][V], zeros past C.
 * Tile: T places of an output row by K of the filters, accumulators in registers. Pixels outside of the image are
 * left out.
 * Order: the weights of c_step channel blocks serve all tiles of a work-item before the next ones are read.
 * Index map: group = ((n * D + od) * P + oh) * segments + segment; a segment is per_item tiles, TILES at most.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; SW stride along a row; T places of a tile, SW * T up to V; K filters of a
 * tile (SW * T * K + T + 1 vector registers); TILES tiles whose sums are kept; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) conv_transpose_few_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "conv/conv_phases.clh"
#ifndef SW
#define SW 2
#endif
#ifndef T
#define T 8
#endif
#ifndef K
#define K 1
#endif
#ifndef TILES
#define TILES 16
#endif
#define COLUMNS (T * SW) /* of a tile */
#if COLUMNS > V / 2
#define SUMS V
#else
#define SUMS (V / 2)
#endif
#include "common/lanes_sum.clh"

/* One tap of a channel block, for the first `columns` columns of places `from` up to `past`, whose inputs are at
 * src. */
#define TAP(from, past, columns)                                                                                   \
    {                                                                                                              \
        FV value[T];                                                                                               \
        _Pragma("unroll") for (int t = 0; t < T; t++) if (t >= (from) && t < (past)) value[t] = LOADV(src, t * V); \
        _Pragma("unroll") for (int q = 0; q < SW; q++) if (q < (columns))                                          \
        {                                                                                                          \
            _Pragma("unroll") for (int k = 0; k < K; k++)                                                          \
            {                                                                                                      \
                const FV f = LOADV(wp, k * window + q * V);                                                        \
                _Pragma("unroll") for (int t = 0; t < T; t++) if (t >= (from) && t < (past)) acc[k][t * SW + q] =  \
                    fma(value[t], f, acc[k][t * SW + q]);                                                          \
            }                                                                                                      \
        }                                                                                                          \
    }

/* Where a tile's results go: its first filter, slice, row, first place and first column, which padding may have cut
 * off. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    struct FN(phase) depth, rows; /* `from`: the input of their first tap, for this slice and row */
    int k, od, oh, place, column;
};

void FN(finish)(FV sum, int k, const struct FN(target) *to, const struct conv_transpose_few_blocked_args *a)
{
    const int width = a->phases.out[1], column = to->column;
    const long at = (((long)k * a->depth.out[0] + to->od) * a->phases.out[0] + to->oh) * width + column;
    const bool whole = column >= 0 && column + COLUMNS <= width;
    float lanes[V] __attribute__((aligned(64)));
    if (a->epi.bias)
        sum += to->bias[k];
    for (int i = 0; a->epi.add && i < V; i++)
        lanes[i] = i < COLUMNS && column + i >= 0 && column + i < width ? to->add[at + i] : 0.0f;
    if (a->epi.add == 1)
        sum += LOADV(lanes, 0);
    sum = VECTOR_ACT(EPI_ACT)(sum, a->epi.p0, a->epi.p1);
    if (a->epi.add == 2)
        sum *= LOADV(lanes, 0);
    if (whole && COLUMNS == V) {
        STOREV(sum, to->y, at);
        return;
    }
    KEEPV(sum, lanes, 0);
    if (whole)
        for (int i = 0; i < COLUMNS; i++)
            to->y[at + i] = lanes[i];
    else
        for (int i = max(-column, 0); i < min(COLUMNS, width - column); i++)
            to->y[at + i] = lanes[i];
}

/* Adds to the sums of one tile (fresh: which are zero) what `blocks` channel blocks give, the first one at x and w; the
 * last time the results are stored instead. */
void FN(tile)(SRC x, SRC w, float *sums, bool fresh, bool last, int blocks, const struct FN(target) *to,
              const struct conv_transpose_few_blocked_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int width = f->in[1], taps = f->ker[1];
    const long plane = (long)a->depth.in[0] * f->in[0] * width * V;
    const long window = (long)a->depth.ker[0] * f->ker[0] * taps * V;
    FV acc[K][SUMS]; /* COLUMNS of them are used; the compiler sees that the others are zeros */
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            acc[k][i] = fresh || i >= COLUMNS ? (FV)0.0f : LOADV(sums, (k * COLUMNS + i) * V);
    for (int cb = 0; cb < blocks; cb++, x += plane, w += a->k * window)
        for (int d = 0, id = to->depth.from; d < to->depth.taps; d++, id -= a->depth.step[0])
            for (int j = 0, ih = to->rows.from; j < to->rows.taps; j++, ih -= f->step[0]) {
                if (id < 0 || id >= a->depth.in[0] || ih < 0 || ih >= f->in[0])
                    continue;
                const int r = (to->depth.first + d * a->depth.every[0]) * f->ker[0] + to->rows.first + j * f->every[0];
                SRC src = x + (((long)id * f->in[0] + ih) * width + to->place) * V;
                SRC wp = w + (long)r * taps * V;
#pragma unroll 1
                for (int s = 0, at = to->place; s < taps; s += SW, at--, src -= V, wp += SW * V)
                    if (at >= 0 && at + T <= width)
                        TAP(0, T, taps - s)
                    else
                        TAP(-at, width - at, taps - s)
            }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (last) {
            FN(finish)(FN(lanes_sum)(acc[k]), to->k + k, to, a);
            continue;
        }
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            KEEPV(acc[k][i], sums, (k * COLUMNS + i) * V);
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_transpose_few_blocked_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int first = (int)(group % a->segments) * a->per_item;
    const ulong row = group / a->segments, slice = row / f->out[0];
    const int n = (int)(slice / a->depth.out[0]);
    const int tiles = min(a->per_item, a->tiles - first);
    const long plane = (long)a->depth.in[0] * f->in[0] * f->in[1] * V;
    const long taps = (long)a->depth.ker[0] * f->ker[0] * f->ker[1] * V;
    SRC xn = x + n * a->src_n;
    struct FN(target) to = {.bias = bias, .add = add + n * a->add_n, .y = y + n * a->dst_n};
    to.od = (int)(slice % a->depth.out[0]);
    to.oh = (int)(row % f->out[0]);
    to.depth = FN(phase_of)(to.od % a->depth.stride[0], 0, &a->depth);
    to.depth.from += to.od / a->depth.stride[0];
    to.rows = FN(phase_of)(to.oh % f->stride[0], 0, f);
    to.rows.from += to.oh / f->stride[0];
    float sums[TILES][K * COLUMNS * V] __attribute__((aligned(64)));
    for (to.k = 0; to.k < a->k; to.k += K)
        for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
            const int blocks = min(a->c_step, a->c_blocks - cb);
            SRC wk = w + ((long)cb * a->k + to.k) * taps;
            for (int i = 0; i < tiles; i++) {
                to.place = f->pad[1] / SW + (first + i) * T;
                to.column = to.place * SW - f->pad[1];
                FN(tile)(xn + cb * plane, wk, sums[i], cb == 0, cb + blocks == a->c_blocks, blocks, &to, a);
            }
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_transpose_few_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
