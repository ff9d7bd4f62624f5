/* conv_implicit.cl: 2-D convolution as a matrix product whose columns are gathered on the way to local
 * memory.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * with depth d = (r * S + s) * C/groups + c and zeros outside of the image.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl, channels of a tap side by side:
 * [groups][ceil(K/groups / BM)][R][S][C/groups][BM], missing filters are zeros. With SPLIT 1 group `split` computes
 * chunks split*share.. of 16 of the depth, and y is partial[split][K][N*P*Q] for conv_sum_parts.cl.
 * Index map: group = (split * blocks of filters + block) * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh,
 * ow).
 * Work-group: WG. Local memory: two tiles of each operand (conv_tile.clh), TILE_SCRATCH float4 each: while one is
 * multiplied, the next comes to registers and then to the other, so that a chunk takes one barrier.
 * Defines: WG 256, BM, BN 64 or 128, GATHER 0 (any shape) or 1 (C/groups a multiple of 16: a chunk lies in one tap of
 * the window, whose place in the image is found once), SPLIT 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh),
 * X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_implicit_##x
#endif
#ifndef GATHER
#define GATHER 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#undef TILE_ARGS
#define TILE_ARGS struct conv_args
#include "conv/conv_tile.clh"

/* This work-item's pixel: its image, the corner of its window, and where in the depth it reads next. */
struct FN(source) {
    X_POINTER x;
    int ih, iw;
    int r, s, c;
    bool present;
#if GATHER == 1
    X_POINTER tap; /* first channel that is next, at tap (r, s) */
    bool inside;
#endif
};

void FN(next_tap)(struct FN(source) *p, const struct conv_args *a)
{
    if (++p->s == a->ker[2]) {
        p->s = 0;
        p->r++;
    }
}

#if GATHER == 1
void FN(move_to_tap)(struct FN(source) *p, const struct conv_args *a)
{
    const int h = p->ih + p->r * a->dil[1], w = p->iw + p->s * a->dil[2];
    p->inside = p->present && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2];
    p->tap = p->x + (long)p->c * a->in[1] * a->in[2] + (p->inside ? (long)h * a->in[2] + w : 0);
}

/* The next PIXEL_LOADS elements of the window. */
void FN(fetch_pixel)(float *v, struct FN(source) *p, const struct conv_args *a)
{
    const long plane = (long)a->in[1] * a->in[2];
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++)
        v[i] = p->inside ? LOAD_X(p->tap, i * PIXEL_STEP * plane) : 0.0f;
    p->c += BK;
    p->tap += BK * plane;
    if (p->c >= a->c / a->groups) {
        p->c = LANE / BN;
        FN(next_tap)(p, a);
        FN(move_to_tap)(p, a);
    }
}
#else
void FN(fetch_pixel)(float *v, struct FN(source) *p, const struct conv_args *a)
{
    const long plane = (long)a->in[1] * a->in[2];
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++) {
        const int h = p->ih + p->r * a->dil[1], w = p->iw + p->s * a->dil[2];
        const bool inside = p->present && p->r < a->ker[1] && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2];
        v[i] = inside ? LOAD_X(p->x, p->c * plane + (long)h * a->in[2] + w) : 0.0f;
        for (p->c += PIXEL_STEP; p->c >= a->c / a->groups; p->c -= a->c / a->groups)
            FN(next_tap)(p, a);
    }
}
#endif

/* Pixel `at` of all, in conv group g; reading begins at depth d. */
struct FN(source) FN(source_of)(X_SRC x, long at, bool present, int g, int d, const struct conv_args *a)
{
    const int cg = a->c / a->groups, map = a->out[1] * a->out[2], q = (int)(at % map);
    const int own = d + LANE / BN, tap = own / cg;
    struct FN(source) p;
    p.x = x + at / map * a->src_n + (long)g * cg * a->in[1] * a->in[2];
    p.ih = q / a->out[2] * a->stride[1] - a->pad[1];
    p.iw = q % a->out[2] * a->stride[2] - a->pad[2];
    p.r = tap / a->ker[2];
    p.s = tap % a->ker[2];
    p.c = own % cg;
    p.present = present;
#if GATHER == 1
    FN(move_to_tap)(&p, a);
#endif
    return p;
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_implicit_args *ia,
              local float4 *scratch)
{
    const struct conv_args *a = &ia->conv;
    const int cg = a->c / a->groups, kg = a->k / a->groups, depth = a->ker[1] * a->ker[2] * cg;
    const int blocks = (kg + BM - 1) / BM, all = blocks * a->groups;
    const long map = (long)a->out[1] * a->out[2], pixels = map * a->n, tiles = (pixels + BN - 1) / BN;
    const int block = (int)(group / tiles) % all, split = (int)(group / tiles) / all, g = block / blocks;
    const long first = (long)(group % tiles) * BN, pixel = first + LANE % BN;
    const int from = SPLIT ? split * ia->share * BK : 0;
    const int to = SPLIT ? min(from + ia->share * BK, depth) : depth;
    local float *stage = (local float *)scratch;

    struct FN(source) p = FN(source_of)(x, min(pixel, pixels - 1), pixel < pixels, g, from, a);
    SRC wp = w + (long)block * depth * BM;
    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float f[FILTER_LOADS], v[PIXEL_LOADS];
    FN(fetch_filters)(f, wp, from, depth);
    FN(fetch_pixel)(v, &p, a);
    FN(store_local)(stage, stage + BK * AS, f, v);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = from; d < to; d += BK) {
        local float *now = stage + (d - from) / BK % 2 * (TILE_SCRATCH * 4);
        local float *next = stage + ((d - from) / BK + 1) % 2 * (TILE_SCRATCH * 4);
        if (d + BK < to) {
            FN(fetch_filters)(f, wp, d + BK, depth);
            FN(fetch_pixel)(v, &p, a);
        }
        FN(tile_multiply)(now, now + BK * AS, acc);
        if (d + BK < to)
            FN(store_local)(next, next + BK * AS, f, v);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if SPLIT
    FN(store)(acc, g * kg + block % blocks * BM, (g + 1) * kg, first, pixels, pixels, bias, add,
              y + (long)split * a->k * pixels, a);
#else
    FN(store)(acc, g * kg + block % blocks * BM, (g + 1) * kg, first, pixels, map, bias, add, y, a);
#endif
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_implicit_args a)
{
    local float4 scratch[2 * TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
