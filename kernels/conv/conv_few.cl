/* conv_few.cl: 2-D convolution with few filters, any window at stride 1: pixels through local memory, all filters in
 * registers, channels shared among the work-items of a group.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh - ph + r][ow - pw + s] * w[k][c][r][s] + bias[k] + add )
 *
 * A group computes 32 x FP pixels and the FK filters of conv group g. Its slices of 32 work-items each take every
 * SLICES-th channel; a work-item computes FP pixels of a row, so that a pixel it reads serves up to FS taps, and a
 * weight FP pixels. At the end the slices' sums are added up in ascending order.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl: [groups][C/groups][FR][FS][FK]. With SPLIT 1
 * group `split` takes chunks split*share.. of SLICES channels, and y is partial[split][K][N*P*Q] for
 * conv_sum_parts.cl.
 * Index map: group = ((split * conv groups + conv group) * N + image) * tiles of an image + tile, row-major.
 * Work-group: WG. Local memory: a chunk of pixels and weights, then sums, SCRATCH float4; the next one is in registers
 * meanwhile.
 * Defines: WG 256, FR, FS (the window), FK (filters of a conv group), FP 4 or 8, SPLIT 0 or 1, EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh), X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_few_##x
#endif
#ifndef FR
#define FR 3
#endif
#ifndef FS
#define FS 3
#endif
#ifndef FK
#define FK 3
#endif
#ifndef FP
#define FP 8
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define SLICES (WG / 32)
#define FOURS(n) (((n) + 3) / 4)
#define READ (FOURS(FP + FS - 1) * 4) /* pixels of a row that a work-item reads */
#define ROWS (FP + FR - 1)
/* Between rows: an odd number of fours, so that the rows of neighbours lie in other banks. */
#define PITCH ((FOURS(31 + FS) | 1) * 4)
#define PLANE (ROWS * PITCH)
#define PIXEL_LOADS ((PLANE + 31) / 32)
#define PLANE_STEP (PIXEL_LOADS * 32)
#define WEIGHTS (FOURS(FS * FK) * 4) /* of a row of the window */
#define CHUNK_WEIGHTS (SLICES * FR * FS * FK)
#define WEIGHT_LOADS ((CHUNK_WEIGHTS + WG - 1) / WG)
#define HELD (PLANE_STEP + FR * WEIGHTS)               /* floats of a slice */
#define SCRATCH (SLICES * (HELD > WG ? HELD : WG) / 4) /* a slice's sums take WG of them in the end */
#define TILE (32 * FP)                                 /* pixels */
#define AT_ONCE (WG / TILE)                            /* filters whose slices are added up at once */
#define DOWN (LANE % 32 / (32 / FP))                   /* this work-item's row of the tile */
#define ACROSS (LANE % (32 / FP) * FP)

/* The channel of this slice, c, and the weights of its chunk on the way to registers. */
void FN(fetch)(float v[PIXEL_LOADS], float f[WEIGHT_LOADS], X_POINTER x, const global float *w,
               const int at[PIXEL_LOADS], int chunk, const struct conv_args *a)
{
    const int cg = a->c / a->groups, c = chunk * SLICES + LANE / 32, left = (cg - chunk * SLICES) * (FR * FS * FK);
    X_POINTER plane = x + (long)min(c, cg - 1) * a->in[1] * a->in[2];
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++)
        v[i] = at[i] >= 0 && c < cg ? LOAD_X(plane, at[i]) : 0.0f;
    w += (long)chunk * CHUNK_WEIGHTS;
#pragma unroll
    for (int i = 0; i < WEIGHT_LOADS; i++) {
        const int e = i * WG + LANE;
        f[i] = e < min(left, CHUNK_WEIGHTS) ? w[e] : 0.0f;
    }
}

void FN(keep)(local float *pixels, local float *weights, const float v[PIXEL_LOADS], const float f[WEIGHT_LOADS])
{
    pixels += LANE / 32 * PLANE_STEP + LANE % 32;
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++)
        pixels[i * 32] = v[i];
#pragma unroll
    for (int i = 0; i < WEIGHT_LOADS; i++) {
        const int e = i * WG + LANE;
        if (e < CHUNK_WEIGHTS)
            weights[e / (FS * FK) * WEIGHTS + e % (FS * FK)] = f[i];
    }
}

/* acc += the channel of this slice. */
void FN(multiply)(float acc[FK][FP], const local float *pixels, const local float *weights)
{
    pixels += LANE / 32 * PLANE_STEP + DOWN * PITCH + ACROSS;
    weights += LANE / 32 * (FR * WEIGHTS);
#if FR * FS * FK > 144
#pragma unroll 1
#else
#pragma unroll
#endif
    for (int r = 0; r < FR; r++) {
        float v[READ], f[WEIGHTS];
#pragma unroll
        for (int i = 0; i < READ; i += 4)
            vstore4(*(const local float4 *)(pixels + r * PITCH + i), 0, v + i);
#pragma unroll
        for (int i = 0; i < WEIGHTS; i += 4)
            vstore4(*(const local float4 *)(weights + r * WEIGHTS + i), 0, f + i);
#pragma unroll
        for (int s = 0; s < FS; s++)
#pragma unroll
            for (int k = 0; k < FK; k++)
#pragma unroll
                for (int i = 0; i < FP; i++)
                    acc[k][i] = fma(v[i + s], f[s * FK + k], acc[k][i]);
    }
}

/* What a group computes. */
struct FN(tile) {
    int split, g, n, row, col;
};

struct FN(tile) FN(tile_of)(ulong group, const struct conv_args *a)
{
    const uint wide = (uint)(a->out[2] + 31) / 32, tiles = wide * ((uint)(a->out[1] + FP - 1) / FP);
    const uint image = (uint)(group / tiles), tile = (uint)(group - (ulong)image * tiles);
    const uint outer = image / a->n;
    struct FN(tile) t;
    t.n = (int)(image % a->n);
    t.split = (int)(outer / a->groups);
    t.g = (int)(outer % a->groups);
    t.row = (int)(tile / wide) * FP;
    t.col = (int)(tile % wide) * 32;
    return t;
}

/* Adds up the slices' sums and stores them, a filter of a pixel each work-item at a time. */
void FN(finish)(const float acc[FK][FP], const struct FN(tile) *t, SRC bias, ADD_SRC add, Y_DST y,
                const struct conv_args *a, local float *parts)
{
    const int at = LANE % TILE, row = t->row + at / 32, col = t->col + at % 32;
    const long map = (long)a->out[1] * a->out[2], p = (long)row * a->out[2] + col;
#pragma unroll
    for (int first = 0; first < FK; first += AT_ONCE) {
        local float *own = parts + LANE / 32 * WG + DOWN * 32 + ACROSS;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
            for (int i = 0; i < FP; i += 4)
                if (first + j < FK) {
                    const float *of = acc[min(first + j, FK - 1)] + i;
                    *(local float4 *)(own + j * TILE + i) = (float4)(of[0], of[1], of[2], of[3]);
                }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first + LANE / TILE < FK && row < a->out[1] && col < a->out[2]) {
            const int k = t->g * FK + first + LANE / TILE;
            float sum = parts[LANE];
#pragma unroll
            for (int s = 1; s < SLICES; s++)
                sum += parts[s * WG + LANE];
#if SPLIT
            y[(((long)t->split * a->k + k) * a->n + t->n) * map + p] = sum;
#else
            const long i = k * map + p;
            STORE_Y(EPILOGUE_OF(sum, bias, k, LOAD_ADD(add, t->n * a->add_n + i), a), y, t->n * a->dst_n + i);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_implicit_args *ia,
              local float4 *scratch)
{
    const struct conv_args *a = &ia->conv;
    const struct FN(tile) t = FN(tile_of)(group, a);
    const int cg = a->c / a->groups, chunks = (cg + SLICES - 1) / SLICES;
    const int from = t.split * ia->share, to = min(from + ia->share, chunks);
    local float *pixels = (local float *)scratch, *weights = pixels + SLICES * PLANE_STEP;
    X_POINTER xg = x + t.n * a->src_n + (long)t.g * cg * a->in[1] * a->in[2];
    const global float *wg = w + (long)t.g * cg * (FR * FS * FK);
    int at[PIXEL_LOADS];
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++) {
        const int e = i * 32 + LANE % 32, row = t.row - a->pad[1] + e / PITCH, col = t.col - a->pad[2] + e % PITCH;
        at[i] = e < PLANE && row >= 0 && row < a->in[1] && col >= 0 && col < a->in[2] ? row * a->in[2] + col : -1;
    }
    float acc[FK][FP], v[PIXEL_LOADS], f[WEIGHT_LOADS];
#pragma unroll
    for (int k = 0; k < FK; k++)
#pragma unroll
        for (int i = 0; i < FP; i++)
            acc[k][i] = 0.0f;
    FN(fetch)(v, f, xg, wg, at, from, a);
    for (int chunk = from; chunk < to; chunk++) { /* the same for all work-items */
        FN(keep)(pixels, weights, v, f);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (chunk + 1 < to)
            FN(fetch)(v, f, xg, wg, at, chunk + 1, a);
        FN(multiply)(acc, pixels, weights);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    FN(finish)(acc, &t, bias, add, y, a, (local float *)scratch);
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_implicit_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
