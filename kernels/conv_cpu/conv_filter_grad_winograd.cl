/* conv_filter_grad_winograd.cl: the gradient of 3x3 filters at stride 1, and of 3x3 and 4x4 filters at stride 2, by
 * Winograd's minimal filtering, for CPU devices: tiles of 4x4 pixels of dy are the filters of a convolution whose
 * outputs are the taps.
 *
 *   dw[k][c] = A^T [ sum_tiles (G dy[tile][k] G^T) * (B^T x[tile][c] B) ] A,  element-wise products
 *
 * (Lavin and Gray 2016; the matrices of F(3x3, 4x4) and F(2x2, 4x4) are in winograd.clh.) At stride 2 each of the four
 * phases of x, its even or odd rows and columns, meets taps of its own, up to 2x2 of them: channels are those of all
 * phases, one after another. x, dy [ceil(C/V)][H][W][V] with batch strides; dw [K][C][KER][KER].
 *   in     v [A*A][blocks of x, phase by phase, then of dy][tiles][V], V floats between the A*A: a slice of the batch's
 *          tiles, zeros outside of the images. Group = block * runs + run of RUN tiles.
 *   main   sums [A*A][tiles of filters][phases][c_tiles][CT][KV*V], V floats between the A*A: sums over the slice's
 *          tiles, CT channels by KV vectors of filters in registers, added to those of the slices before. Group = point
 *          * shares + share of the tiles of filters.
 *   join   dw. Group = ((tile of filters * KV + vector) * phases + phase) * c_tiles + tile of channels.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; STRIDE 1 (default) or 2; KER 3 (default) or, at stride 2, 4; CT a divisor of
 * V; KV (CT * KV + KV + 1 vector registers). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#ifndef KER
#define KER 3
#endif
#undef M
#undef R
#define M (STRIDE == 1 ? 3 : 2) /* taps of a phase, at most */
#define R 4
#define PHASE_COUNT (STRIDE * STRIDE)
#include "common/clcnn.clh"
#include "conv_cpu/filter_grad_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_filter_grad_winograd_##x
#endif
#include "conv/winograd.clh"
#ifndef CT
#define CT 8
#endif
#ifndef KV
#define KV 3
#endif
#define RUN 16 /* tiles of a work-item of `in` */

/* Elements of one of the A*A matrices of v, and of the sums: no powers of two, which would share a set of the cache. */
long FN(v_step)(const struct filter_grad_winograd_args *a)
{
    return (long)(PHASE_COUNT * a->c_blocks + a->k_blocks) * a->tiles * V + V;
}

long FN(sums_step)(const struct filter_grad_winograd_args *a)
{
    return (long)a->k_tiles * (PHASE_COUNT * a->c_tiles) * (CT * KV * V) + V;
}

/* `side` rows and columns of a map of `size`, every step-th from (top, left) on, zeros outside of it. */
#define LOAD_PATCH(patch, side, step, map, size, top, left)                    \
    for (int r = 0; r < side; r++)                                             \
        _Pragma("unroll") for (int c = 0; c < side; c++)                       \
        {                                                                      \
            const int h = (top) + r * (step), w = (left) + c * (step);         \
            const bool there = h >= 0 && h < size[0] && w >= 0 && w < size[1]; \
            FV value = 0.0f;                                                   \
            if (there)                                                         \
                value = LOADV(map, ((long)h * size[1] + w) * V);               \
            KEEPV(value, patch, (r * (side) + c) * V);                         \
        }

/* The transform of a patch in both dimensions, to v. */
#define TRANSFORM(matrix, patch, side, v, step)                                                    \
    do {                                                                                           \
        FV half_way[A][side];                                                                      \
        _Pragma("unroll") for (int c = 0; c < side; c++) matrix(ROW_OUT, PIXEL);                   \
        _Pragma("unroll") for (int r = 0; r < A; r++)                                              \
        {                                                                                          \
            FV out[A];                                                                             \
            matrix(OUT, ROW_IN);                                                                   \
            _Pragma("unroll") for (int c = 0; c < A; c++) STOREV(out[c], v, (r * A + c) * (step)); \
        }                                                                                          \
    } while (0)
#define ROW_OUT(i) half_way[i][c]
#define ROW_IN(i) half_way[r][i]
#define OUT(i) out[i]

void FN(window)(SRC x, DST v, long step, int top, int left, const struct filter_grad_winograd_args *a)
{
    float patch[A * A * V] __attribute__((aligned(64)));
    LOAD_PATCH(patch, A, STRIDE, x, a->in, top, left)
#define PIXEL(i) LOADV(patch, ((i)*A + c) * V)
    TRANSFORM(B_T, patch, A, v, step);
#undef PIXEL
}

void FN(slopes)(SRC dy, DST v, long step, int top, int left, const struct filter_grad_winograd_args *a)
{
    float patch[R * R * V] __attribute__((aligned(64)));
    LOAD_PATCH(patch, R, 1, dy, a->out, top, left)
#define PIXEL(i) LOADV(patch, ((i)*R + c) * V)
    TRANSFORM(G_, patch, R, v, step);
#undef PIXEL
}

void FN(in_body)(ulong group, SRC x, SRC dy, DST v, const struct filter_grad_winograd_args *a)
{
    const int runs = (a->tiles + RUN - 1) / RUN, block = (int)(group / runs), first = (int)(group % runs) * RUN;
    const int per_image = a->tiles_high * a->tiles_wide, k = block - PHASE_COUNT * a->c_blocks;
    const int phase = block / a->c_blocks, c = block % a->c_blocks; /* of x */
    const long step = FN(v_step)(a);
    for (int t = first; t < min(first + RUN, a->tiles); t++) {
        const int tile = a->first_tile + t, n = tile / per_image;
        const int h = tile % per_image / a->tiles_wide * R, w = tile % a->tiles_wide * R;
        DST to = v + ((long)block * a->tiles + t) * V;
        if (k < 0)
            FN(window)(x + n * a->src_n + (long)c * a->in[0] * a->in[1] * V, to, step,
                       h * STRIDE - a->pad[0] + phase / STRIDE, w * STRIDE - a->pad[1] + phase % STRIDE, a);
        else
            FN(slopes)(dy + n * a->dst_n + (long)k * a->out[0] * a->out[1] * V, to, step, h, w, a);
    }
}

KERNEL FN(in)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST v, ulong v_off, const struct filter_grad_winograd_args a)
{
    FN(in_body)(GROUP, x + x_off, dy + dy_off, v + v_off, &a);
}

/* One point of CT channels from x on by KV vectors of filters, `vectors` from dy on. */
void FN(product)(SRC x, SRC dy, const long *vectors, DST sums, const struct filter_grad_winograd_args *a)
{
    FV acc[CT][KV];
#pragma unroll
    for (int c = 0; c < CT; c++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[c][v] = 0.0f;
#pragma unroll 1
    for (int t = 0; t < a->tiles; t++, x += V, dy += V) {
        FV slope[KV];
#pragma unroll
        for (int v = 0; v < KV; v++)
            slope[v] = LOADV(dy, vectors[v]);
#pragma unroll
        for (int c = 0; c < CT; c++) {
            const FV value = x[c];
#pragma unroll
            for (int v = 0; v < KV; v++)
                acc[c][v] = fma(value, slope[v], acc[c][v]);
        }
    }
#pragma unroll
    for (int c = 0; c < CT; c++)
#pragma unroll
        for (int v = 0; v < KV; v++) {
            const long i = (c * KV + v) * V;
            STOREV(a->begins ? acc[c][v] : acc[c][v] + LOADV(sums, i), sums, i);
        }
}

void FN(body)(ulong group, SRC v, DST sums, const struct filter_grad_winograd_args *a)
{
    const int point = (int)(group / a->shares), share = (int)(group % a->shares);
    const int low = a->k_tiles * share / a->shares, high = a->k_tiles * (share + 1) / a->shares;
    const long block = (long)a->tiles * V;
    SRC x = v + point * FN(v_step)(a);
    SRC dy = x + PHASE_COUNT * a->c_blocks * block;
    DST to = sums + point * FN(sums_step)(a);
    for (int kt = low; kt < high; kt++) {
        long vectors[KV];
#pragma unroll
        for (int i = 0; i < KV; i++)
            vectors[i] = min(kt * KV + i, a->k_blocks - 1) * block;
        for (int i = 0; i < PHASE_COUNT * a->c_tiles; i++) {
            const int phase = i / a->c_tiles, first = i % a->c_tiles * CT;
            FN(product)(x + (phase * a->c_blocks + first / V) * block + first % V, dy, vectors,
                        to + ((long)kt * (PHASE_COUNT * a->c_tiles) + i) * (CT * KV * V), a);
        }
    }
}

KERNEL FN(main)(SRC v, ulong v_off, DST sums, ulong sums_off, const struct filter_grad_winograd_args a)
{
    FN(body)(GROUP, v + v_off, sums + sums_off, &a);
}

void FN(join_body)(ulong group, SRC sums, DST dw, const struct filter_grad_winograd_args *a)
{
    const int c_tiles = PHASE_COUNT * a->c_tiles, i_tile = (int)(group % c_tiles), kv = (int)(group / c_tiles);
    const int phase = i_tile / a->c_tiles, ct = i_tile % a->c_tiles;
    const int k = kv * V, filters = min(V, a->k - k);
    const long step = FN(sums_step)(a);
    SRC at = sums + ((long)(kv / KV) * c_tiles + i_tile) * (CT * KV * V) + kv % KV * V;
    for (int i = 0; i < CT && ct * CT + i < a->c; i++, at += KV * V) {
        FV half_way[M][A];
        float taps[M * M * V];
#pragma unroll
        for (int c = 0; c < A; c++) {
#define ROW(r) half_way[r][c]
#define POINT(r) LOADV(at, ((r)*A + c) * step)
            A_T(ROW, POINT);
        }
#pragma unroll
        for (int r = 0; r < M; r++) {
            FV out[M];
            A_T(OUT, ROW_IN);
#pragma unroll
            for (int c = 0; c < M; c++)
                KEEPV(out[c], taps, (r * M + c) * V);
        }
        DST to = dw + k * a->w_k + (long)(ct * CT + i) * (KER * KER);
        for (int j = 0; j < filters; j++, to += a->w_k)
            for (int r = phase / STRIDE; r < KER; r += STRIDE)
                for (int s = phase % STRIDE; s < KER; s += STRIDE)
                    to[r * KER + s] = taps[(r / STRIDE * M + s / STRIDE) * V + j];
    }
}

KERNEL FN(join)(SRC sums, ulong sums_off, DST dw, ulong dw_off, const struct filter_grad_winograd_args a)
{
    FN(join_body)(GROUP, sums + sums_off, dw + dw_off, &a);
}
