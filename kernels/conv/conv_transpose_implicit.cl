/* conv_transpose_implicit.cl: 2-D transposed convolution, each phase (conv_phases.clh) a matrix product whose columns
 * are gathered on the way to local memory.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][ih][iw] * w[g*C/g + c][k - g*K/g][r][s] + bias[k] + add )
 *
 * over the taps for which oh + ph - r*dh = ih*sh and ow + pw - s*dw = iw*sw with (ih, iw) inside of the image. The
 * depth of a phase is its taps times C/groups, in chunks of 16 channels of a tap: C/groups is a multiple of 16.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_transpose_pack.cl:
 * [groups][ceil(K/groups / BM)][R][S][C/groups][BM], missing filters are zeros. With SPLIT 1 split_k groups share the
 * chunks evenly, and y is partial[split_k][K][N*P*Q] for conv_sum_parts.cl.
 * Index map: group = ((split * blocks of filters + block) * phases + phase) * tiles of the largest phase + tile of BN
 * pixels in the order of (n, row, column).
 * Work-group: WG. Local memory: two tiles of each operand (conv_tile.clh), TILE_SCRATCH float4 each: while one is
 * multiplied, the next comes to registers and then to the other, so that a chunk takes one barrier.
 * Defines: WG 256, BM, BN 64 or 128, SPLIT 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF, ADD_HALF, Y_HALF
 * (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_phases_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_transpose_implicit_##x
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#undef TILE_ARGS
#define TILE_ARGS struct conv_transpose_args
#include "conv/conv_tile.clh"
#include "conv/conv_phases.clh"

/* What this work-item reads next: channels c.. of tap (j, i) of the phase, for its pixel. */
struct FN(source) {
    X_POINTER x;           /* its image, at its first channel */
    const global float *w; /* its block of filters */
    struct FN(pixel) pixel;
    struct FN(phase) rows, cols;
    int j, i, c;
    X_POINTER tap;
    const global float *filters; /* of the tap */
    bool present, inside;
};

void FN(move_to_tap)(struct FN(source) *p, const struct conv_transpose_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int h = p->pixel.row + p->rows.from - p->j * f->step[0], v = p->pixel.col + p->cols.from - p->i * f->step[1];
    const int r = p->rows.first + p->j * f->every[0], s = p->cols.first + p->i * f->every[1];
    p->inside = p->present && h >= 0 && h < f->in[0] && v >= 0 && v < f->in[1];
    p->tap = p->x + (long)p->c * f->in[0] * f->in[1] + (p->inside ? (long)h * f->in[1] + v : 0);
    p->filters = p->w + (long)(r * f->ker[1] + s) * (a->c / a->groups) * BM;
}

/* The next chunk of filters and of this work-item's pixel. */
void FN(fetch)(float *filters, float *v, struct FN(source) *p, const struct conv_transpose_args *a)
{
    const long plane = (long)a->phases.in[0] * a->phases.in[1];
    FN(fetch_filters)(filters, p->filters, p->c, a->c / a->groups);
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++)
        v[i] = p->inside ? LOAD_X(p->tap, i * PIXEL_STEP * plane) : 0.0f;
    p->c += BK;
    p->tap += BK * plane;
    if (p->c >= a->c / a->groups) {
        p->c = 0;
        if (++p->i == p->cols.taps) {
            p->i = 0;
            p->j++;
        }
        FN(move_to_tap)(p, a);
    }
}

/* Results of the phase's pixels first.. for the filters k0 .. k_end - 1. */
void FN(store_phase)(float4 acc[RM][RN4], int k0, int k_end, int first, int pixels, const struct FN(source) *p,
                     SRC bias, ADD_SRC add, Y_DST y, const struct conv_transpose_args *a)
{
    const struct conv_phases *f = &a->phases;
    const long image = (long)f->out[0] * f->out[1], map = SPLIT ? image * a->n : image;
    const long dst_n = SPLIT ? image : a->dst_n;
#pragma unroll
    for (int j = 0; j < RN4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int q = first + TILE_COLUMN(j) + e;
            const struct FN(pixel) at = FN(pixel_of)(min(q, pixels - 1), &p->rows, &p->cols);
            const long o = (long)(p->rows.q + at.row * f->stride[0]) * f->out[1] + p->cols.q + at.col * f->stride[1];
#pragma unroll
            for (int i = 0; i < RM; i++) {
                const int k = k0 + TILE_ROW(i);
                float v[4];
                vstore4(acc[i][j], 0, v);
                if (q < pixels && k < k_end)
                    STORE_Y(EPILOGUE_OF(v[e], bias, k, LOAD_ADD(add, at.n * a->add_n + k * map + o), a), y,
                            at.n * dst_n + k * map + o);
            }
        }
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_transpose_args *a,
              local float4 *scratch)
{
    const struct conv_phases *f = &a->phases;
    const int cg = a->c / a->groups, kg = a->k / a->groups, blocks = (kg + BM - 1) / BM, all = blocks * a->groups;
    const int phases = f->count[0] * f->count[1], part = (int)(group / a->tiles), phase = part % phases;
    const int block = part / phases % all, split = part / phases / all, g = block / blocks;
    const int first = (int)(group % a->tiles) * BN, own = first + LANE % BN;
    const long plane = (long)f->in[0] * f->in[1];
    struct FN(source) p;
    p.rows = FN(phase_of)(phase / f->count[1], 0, f);
    p.cols = FN(phase_of)(phase % f->count[1], 1, f);
    const int pixels = a->n * p.rows.outputs * p.cols.outputs, each = cg / BK;
    const int chunks = first < pixels ? p.rows.taps * p.cols.taps * each : 0;
    const int share = SPLIT ? (chunks + a->split_k - 1) / a->split_k : chunks;
    const int from = SPLIT ? min(split * share, chunks) : 0, to = SPLIT ? min(from + share, chunks) : chunks;
    local float *stage = (local float *)scratch;

    p.present = own < pixels;
    p.pixel = FN(pixel_of)(min(own, pixels - 1), &p.rows, &p.cols);
    p.x = x + p.pixel.n * a->src_n + (g * cg + LANE / BN) * plane;
    p.w = w + (long)block * f->ker[0] * f->ker[1] * cg * BM;
    p.j = from / each / max(p.cols.taps, 1);
    p.i = from / each % max(p.cols.taps, 1);
    p.c = from % each * BK;
    FN(move_to_tap)(&p, a);
    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float filters[FILTER_LOADS], v[PIXEL_LOADS];
    if (from < to) { /* the same for all work-items */
        FN(fetch)(filters, v, &p, a);
        FN(store_local)(stage, stage + BK * AS, filters, v);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = from; d < to; d++) {
        local float *now = stage + (d - from) % 2 * (TILE_SCRATCH * 4);
        local float *next = stage + (d - from + 1) % 2 * (TILE_SCRATCH * 4);
        if (d + 1 < to)
            FN(fetch)(filters, v, &p, a);
        FN(tile_multiply)(now, now + BK * AS, acc);
        if (d + 1 < to)
            FN(store_local)(next, next + BK * AS, filters, v);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if SPLIT
    FN(store_phase)(acc, g * kg + block % blocks * BM, (g + 1) * kg, first, pixels, &p, bias, add,
                    y + (long)split * a->k * a->n * f->out[0] * f->out[1], a);
#else
    FN(store_phase)(acc, g * kg + block % blocks * BM, (g + 1) * kg, first, pixels, &p, bias, add, y, a);
#endif
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_transpose_args a)
{
    local float4 scratch[2 * TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
