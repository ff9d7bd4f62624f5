/* conv_fft.cl: convolution at stride 1 by Fourier transforms of overlapping tiles, for CPU devices.
 *
 *   y = act( F^-1 [ sum_c conj(F w[k][c]) * F x[c] ] + bias[k] + add ),  a T x T tile of x for the
 *   (T - KH + 1) x (T - KW + 1) pixels of y that its edges do not reach
 *
 * x, y, add [ceil(C/V)][H][W][V] with batch strides. C/groups and K/groups are multiples of V when there are groups;
 * lanes of y past K are written as zeros. Spectra have the POINTS of fft.clh.
 *   pack   u [blocks of V filters][POINTS][C/groups][2][V] = F w / (2T)^2, real and imaginary parts, zeros for missing
 *          filters. Group = (block * channels of a group + c).
 *   in     v [blocks of TT tiles][groups][POINTS][C/groups/V][TT][2][V] = 2 F x, V floats between the points. Group =
 *          (block of tiles * groups + group) * pieces + piece of c_step channel blocks.
 *   main   the products, of TT tiles and a vector of filters in registers for each point, and the inverse transform.
 *          Group = block of filters * blocks of tiles + block of tiles.
 * Tiles are numbered over the batch, rows and columns; `in` and `main` treat `tiles` of them from first_tile on.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T size of tiles, 16 or 32; TT tiles of a register tile (2 * TT + 2 vector
 * registers); EPI_ACT act_* (blocked_store.clh; of main). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/fft_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_fft_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#ifndef T
#define T 16
#endif
#ifndef TT
#define TT 8
#endif
#include "conv/fft.clh"
#define AHEAD 1024 /* floats between what is read of u and what is prefetched */

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_fft_args *a)
{
    const int c = (int)(group % a->cg), block = (int)(group / a->cg);
    const int g = block / a->k_blocks, k0 = block % a->k_blocks * V;
    float halfway[HALFWAY] __attribute__((aligned(64))), rows[2][T * V] __attribute__((aligned(64)));
    for (int r = 0; r < T; r += 2) {
        for (int i = 0; i < 2; i++)
            for (int s = 0; s < T; s++)
                for (int j = 0; j < V; j++) {
                    const bool there = k0 + j < a->kg && r + i < a->ker[0] && s < a->ker[1];
                    const long from = (g * a->kg + k0 + j) * a->w_k + (c * a->ker[0] + r + i) * a->ker[1] + s;
                    rows[i][s * V + j] = there ? w[from] * (0.25f / (T * T)) : 0.0f;
                }
        FN(row_pair)(rows[0], rows[1], r, halfway);
    }
    for (int k = 0; k < T / 2; k++)
        FN(column)(halfway, k, u + ((long)block * POINTS * a->cg + c) * (2 * V), a->cg * (2 * V));
}

/* Elements of v for a point, and for a block of tiles of a group. */
long FN(v_step)(const struct conv_fft_args *a)
{
    return (long)a->c_blocks * (a->t * 2 * V) + V;
}

long FN(part)(const struct conv_fft_args *a)
{
    return POINTS * FN(v_step)(a);
}

/* A row of a tile at x[h][left ...], zeros outside of the image. */
void FN(load_row)(SRC x, int h, int left, float *row, const struct conv_fft_args *a)
{
    const bool there = h >= 0 && h < a->in[0];
    const int begin = there ? clamp(-left, 0, T) : T, end = there ? clamp(a->in[1] - left, begin, T) : T;
    SRC from = x + ((long)h * a->in[1] + left) * V;
    for (int c = 0; c < begin; c++)
        KEEPV((FV)0.0f, row, c * V);
    for (int c = begin; c < end; c++)
        KEEPV(LOADV(from, c * V), row, c * V);
    for (int c = end; c < T; c++)
        KEEPV((FV)0.0f, row, c * V);
}

/* x: the channel block; v: its first point of the tile. */
void FN(transform)(SRC x, DST v, int top, int left, const struct conv_fft_args *a)
{
    float halfway[HALFWAY] __attribute__((aligned(64))), rows[2][T * V] __attribute__((aligned(64)));
    for (int r = 0; r < T; r += 2) {
        const int h = top + r;
        if (h + 1 < 0 || h >= a->in[0]) {
            FN(row_pair_zero)(r, halfway);
        } else {
            FN(load_row)(x, h, left, rows[0], a);
            FN(load_row)(x, h + 1, left, rows[1], a);
            FN(row_pair)(rows[0], rows[1], r, halfway);
        }
    }
    for (int k = 0; k < T / 2; k++)
        FN(column)(halfway, k, v, FN(v_step)(a));
}

/* Where a tile lies: its image, and its first output pixel. */
struct FN(spot) {
    int n, row, column;
};

struct FN(spot) FN(spot_of)(int tile, const struct conv_fft_args *a)
{
    const int per_image = a->tiles_high * a->tiles_wide, in_image = tile % per_image;
    return (struct FN(spot)){tile / per_image, in_image / a->tiles_wide * (T - a->ker[0] + 1),
                             in_image % a->tiles_wide * (T - a->ker[1] + 1)};
}

void FN(in_body)(ulong group, SRC x, DST v, const struct conv_fft_args *a)
{
    const int pieces = (a->c_blocks + a->c_step - 1) / a->c_step, part = (int)(group / pieces);
    const int g = part % a->groups, first = part / a->groups * a->t;
    const int begin = (int)(group % pieces) * a->c_step, end = min(begin + a->c_step, a->c_blocks);
    const long plane = (long)a->in[0] * a->in[1] * V;
    for (int cb = begin; cb < end; cb++)
        for (int t = 0; t < a->t; t++) { /* those past the last repeat it */
            const struct FN(spot) at = FN(spot_of)(a->first_tile + min(first + t, a->tiles - 1), a);
            FN(transform)(x + at.n * a->src_n + (g * a->c_blocks + cb) * plane,
                          v + part * FN(part)(a) + (cb * a->t + t) * (2 * V), at.row - a->pad[0], at.column - a->pad[1],
                          a);
        }
}

/* m[TT][2] = sum over the channels of v[c][TT] times the conjugate of u[c], at one point. */
void FN(product)(SRC v, SRC u, float *m, int channels)
{
    FV re[TT], im[TT];
#pragma unroll
    for (int t = 0; t < TT; t++)
        re[t] = im[t] = 0.0f;
    for (int first = 0; first < channels; first += V, v += TT * 2 * V) {
        const int count = min(V, channels - first);
#pragma unroll 1
        for (int c = 0; c < count; c++, u += 2 * V) {
            PREFETCH(u + AHEAD);
            PREFETCH(u + AHEAD + V);
            const FV a = LOADV(u, 0), b = LOADV(u, V);
#pragma unroll
            for (int t = 0; t < TT; t++) {
                const FV x = v[2 * t * V + c], y = v[(2 * t + 1) * V + c];
                re[t] = fma(x, a, fma(y, b, re[t]));
                im[t] = fma(y, a, fma(-x, b, im[t]));
            }
        }
    }
#pragma unroll
    for (int t = 0; t < TT; t++) {
        KEEPV(re[t], m, 2 * t * V);
        KEEPV(im[t], m, (2 * t + 1) * V);
    }
}

/* The pixels of a tile, from its points in m. */
void FN(pixels)(const float *m, SRC bias, SRC add, DST y, int tile, int k, const struct conv_fft_args *a)
{
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    const struct FN(spot) at = FN(spot_of)(tile, a);
    const int high = min(T - a->ker[0] + 1, a->out[0] - at.row), wide = min(T - a->ker[1] + 1, a->out[1] - at.column);
    const long plane = (long)a->out[0] * a->out[1] * V, width = a->out[1];
    const long corner = k / V * plane + (at.row * width + at.column) * V;
    const int lanes = a->k - k;
    const FV b = FN(bias)(bias, k, a->k, &epi);
    float halfway[HALFWAY] __attribute__((aligned(64))), rows[2][T * V] __attribute__((aligned(64)));
    FN(halfway_inverse)(m, TT * 2 * V, halfway);
    for (int r = 0; r < high; r += 2) {
        FN(row_pair_inverse)(halfway, r, rows[0], rows[1]);
        for (int i = 0; i < min(2, high - r); i++)
            for (int c = 0; c < wide; c++)
                FN(store)(LOADV(rows[i], c * V), b, add + at.n * a->add_n, y + at.n * a->dst_n,
                          corner + ((r + i) * width + c) * V, lanes, &epi);
    }
}

void FN(body)(ulong group, SRC v, SRC u, SRC bias, SRC add, DST y, const struct conv_fft_args *a)
{
    const int tile_blocks = (a->tiles + TT - 1) / TT;
    const int first = (int)(group % tile_blocks) * TT, block = (int)(group / tile_blocks), g = block / a->k_blocks;
    const long v_step = FN(v_step)(a), u_step = a->cg * (2 * V);
    SRC part = v + (first / TT * a->groups + g) * FN(part)(a);
    SRC filters = u + (long)block * POINTS * u_step;
    float m[POINTS][TT * 2 * V] __attribute__((aligned(64)));
    for (int i = 0; i < POINTS; i++)
        FN(product)(part + i * v_step, filters + i * u_step, m[i], a->cg);
    for (int t = 0; t < TT && first + t < a->tiles; t++)
        FN(pixels)(m[0] + 2 * t * V, bias, add, y, a->first_tile + first + t, g * a->kg + block % a->k_blocks * V, a);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST u, ulong u_off, const struct conv_fft_args a)
{
    FN(pack_body)(GROUP, w + w_off, u + u_off, &a);
}

KERNEL FN(in)(SRC x, ulong x_off, DST v, ulong v_off, const struct conv_fft_args a)
{
    FN(in_body)(GROUP, x + x_off, v + v_off, &a);
}

KERNEL FN(main)(SRC v, ulong v_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_fft_args a)
{
    FN(body)(GROUP, v + v_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a);
}
