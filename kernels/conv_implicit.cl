/* conv_implicit.cl: 2-D convolution as a matrix product whose columns are gathered on the way to local
 * memory.
 *
 *   y[n][k][oh][ow] = act( sum_d w[k][d] x[n][g*C/g + c(d)][oh*sh - ph + r(d)*dh][ow*sw - pw + s(d)*dw]
 *                          + bias[k] + add )
 *
 * with depth d = (r * S + s) * C/groups + c and zeros outside of the image.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl with TAP_MAJOR 1:
 * [groups][ceil(K/groups / BM)][R][S][C/groups][BM], missing filters are zeros.
 * Index map: group = block of filters * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow).
 * Work-group: WG. Local memory: one tile of each operand (conv_tile.clh), TILE_SCRATCH float4; the next tile
 * waits in registers meanwhile.
 * Defines: WG 256, BM, BN 64 or 128, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) conv_implicit_##x
#endif
#undef TILE_ARGS
#define TILE_ARGS struct conv_args
#include "conv_tile.clh"

/* Depth as tap and channel; advanced step by step, so that nothing is divided in the loop. */
struct FN(cursor) {
    int r, s, c;
};

void FN(advance)(struct FN(cursor) * at, int step, int channels, int width)
{
    at->c += step;
    while (at->c >= channels) {
        at->c -= channels;
        if (++at->s == width) {
            at->s = 0;
            at->r++;
        }
    }
}

/* The next PIXEL_PARTS elements of the window whose corner (ih, iw) lies at x. */
void FN(fetch_pixel)(float *v, SRC x, bool present, int ih, int iw, struct FN(cursor) * at,
                     const struct conv_args *a)
{
    const long plane = (long)a->in[1] * a->in[2];
#pragma unroll
    for (int i = 0; i < PIXEL_PARTS; i++) {
        const int h = ih + at->r * a->dil[1], w = iw + at->s * a->dil[2];
        const bool inside = present && at->r < a->ker[1] && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2];
        v[i] = inside ? x[at->c * plane + (long)h * a->in[2] + w] : 0.0f;
        FN(advance)(at, PIXEL_STEP, a->c / a->groups, a->ker[2]);
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a,
              local float4 *scratch)
{
    const int cg = a->c / a->groups, kg = a->k / a->groups, depth = a->ker[1] * a->ker[2] * cg;
    const int blocks = (kg + BM - 1) / BM;
    const long map = (long)a->out[1] * a->out[2], pixels = map * a->n, tiles = (pixels + BN - 1) / BN;
    const int block = (int)(group / tiles), g = block / blocks;
    const long first = (long)(group % tiles) * BN;
    local float *as = (local float *)scratch, *bs = as + BK * AS;

    const bool present = first + LANE % BN < pixels;
    const long p = min(first + LANE % BN, pixels - 1);
    const int q = (int)(p % map);
    const int ih = q / a->out[2] * a->stride[1] - a->pad[1], iw = q % a->out[2] * a->stride[2] - a->pad[2];
    SRC xp = x + p / map * a->src_n + (long)g * cg * a->in[1] * a->in[2];
    SRC wp = w + (long)block * depth * BM;
    struct FN(cursor) at = {0, 0, 0};
    FN(advance)(&at, LANE / BN, cg, a->ker[2]);

    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float f[FILTER_PARTS], v[PIXEL_PARTS];
    FN(fetch_filters)(f, wp, 0, depth);
    FN(fetch_pixel)(v, xp, present, ih, iw, &at, a);
    for (int d = 0; d < depth; d += BK) {
        FN(put)(as, bs, f, v);
        if (d + BK < depth) {
            FN(fetch_filters)(f, wp, d + BK, depth);
            FN(fetch_pixel)(v, xp, present, ih, iw, &at, a);
        }
        FN(tile_multiply)(as, bs, acc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FN(store)(acc, g * kg + block % blocks * BM, (g + 1) * kg, first, pixels, map, bias, add, y, a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_args a)
{
    local float4 scratch[TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
