/* conv_amx.cl: convolution at stride 1, of any stride with windows of one pixel, and linear layers, by tiles of
 * bfloat16, for CPU devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} w[k][c][r][s] x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] + bias[k]
 *                          + add[n][k][oh][ow] )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides, or with ROWS rows of C and K elements, which are the
 * pixels of an image then; w [K][C][R][S], w_k elements between filters.
 * Positions: the pixels of all images in one row, with so many between two rows and two images that a window finds
 * zeros there past every edge; that of a result is its window's first pixel. s [ceil(C/32)][positions][3][32] holds
 * their channels as parts (amx.clh), zeros past the last one, u [ceil(K/32)][ceil(C/32)][R*S][3][2][16][16][2] those of
 * the filters: 16 pairs of channels of 16 filters.
 * With AMX_FRESH each group splits the positions that it needs itself, `depth` chunks at a time: s is then
 * [across][depth][positions][3][32], with the positions of one group.
 * Order: for `depth` chunks of channels at a time a block of 32 filters serves all blocks of 32 positions of the group,
 * so that what both are made of stays in a core's cache. Sums wait in private memory meanwhile.
 *   pack   u. Group = block of filters * chunks + chunk.
 *   main   AMX_SPLIT: s. Group = chunk * runs of RUN positions + run. Else y: Group = part of the filters * parts of
 *          the positions + part of the positions.
 * Index map: as told. Work-group: WG = 1. Local memory: main: 4 KiB.
 * Defines: V 16; AMX (amx.clh); ROWS 0 (default) or 1; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/amx_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_amx_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/rows_store.clh"
#include "common/prefetch.clh"
#include "common/vec_turn.clh"
#include "conv_cpu/amx.clh"
#ifndef ROWS
#define ROWS 0
#endif
#define SIDE 32 /* positions, filters and channels of a block */
#define PARTS 3
#define POSITION (PARTS * SIDE / 2) /* floats of s and of u */
#define FILTERS (SIDE * POSITION)
#define RUN 128
#define SUMS 48 /* blocks of a group whose sums wait, when there are more than `depth` chunks */
#define SCRATCH (SIDE * SIDE / 4)

/* Where a position lies. */
struct FN(place) {
    int n, row, column;
};
struct FN(place) FN(place_of)(long position, const struct conv_amx_args *a)
{
    const long row = position / a->pitch;
    return (struct FN(place)){(int)(row / a->height), (int)(row % a->height), (int)(position % a->pitch)};
}

void FN(advance)(struct FN(place) *at, const struct conv_amx_args *a)
{
    if (++at->column == a->pitch) {
        at->column = 0;
        if (++at->row == a->height) {
            at->row = 0;
            at->n++;
        }
    }
}

/* 16 channels from element i on, of which `lanes` are there. */
FV FN(channels)(SRC x, long i, int lanes)
{
    if (lanes >= V)
        return LOADV(x, i);
    float some[V] __attribute__((aligned(64)));
    for (int j = 0; j < V; j++)
        some[j] = j < lanes ? x[i + j] : 0.0f;
    return LOADV(some, 0);
}

/* The parts of 32 channels from c on, of positions from..past - 1. */
void FN(split_run)(SRC x, DST out, int c, long from, long past, const struct conv_amx_args *a)
{
    const long map = (long)a->width * a->map_height * V; /* of a block of channels */
    long position = from;
    for (; position < min(past, (long)a->lead); position++, out += POSITION)
        for (int p = 0; p < PARTS; p++)
            STOREV((FV)0.0f, out, p * V);
    struct FN(place) at = FN(place_of)(position - a->lead, a);
    for (; position < past; position++, out += POSITION, FN(advance)(&at, a)) {
        FV low = 0.0f, high = 0.0f;
        if (at.n < a->n && at.row < a->in[0] && at.column < a->in[1]) {
            const long pixel = (long)at.row * a->stride[0] * a->width + at.column * a->stride[1];
            SRC from = x + at.n * a->src_n + (ROWS ? pixel * a->x_row + c : c / V * map + pixel * V);
            low = FN(channels)(from, 0, ROWS ? a->c - c : V);
            if (c + V < a->c)
                high = FN(channels)(from, ROWS ? V : map, ROWS ? a->c - c - V : V);
        }
        uint16 parts[PARTS];
        FN(parts)(low, high, parts);
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            STOREV(as_float16(parts[p]), out, p * V);
    }
}

void FN(split_all)(ulong group, SRC x, DST s, const struct conv_amx_args *a)
{
    const int runs = (int)((a->positions + RUN - 1) / RUN), c = (int)(group / runs);
    const long from = (long)(group % runs) * RUN, past = min(from + RUN, (long)a->positions);
    FN(split_run)(x, s + (c * (long)a->positions + from) * POSITION, c * SIDE, from, past, a);
}

/* 32 channels of one tap of a filter; zeros where there are none. */
void FN(filter_parts)(SRC w, int filter, int c, int tap, int taps, const struct conv_amx_args *a, uint16 parts[PARTS])
{
    float some[SIDE] __attribute__((aligned(64)));
    for (int j = 0; j < SIDE; j++)
        some[j] = filter < a->k && c + j < a->c ? w[filter * a->w_k + (long)(c + j) * taps + tap] : 0.0f;
    FN(parts)(LOADV(some, 0), LOADV(some, V), parts);
}

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_amx_args *a)
{
    const int k = (int)(group / a->chunks) * SIDE, c = (int)(group % a->chunks) * SIDE, taps = a->ker[0] * a->ker[1];
    for (int tap = 0; tap < taps; tap++)
        for (int side = 0; side < 2; side++) {
            FV rows[PARTS][V];
            for (int i = 0; i < V; i++) {
                uint16 parts[PARTS];
                FN(filter_parts)(w, k + side * V + i, c, tap, taps, a, parts);
                for (int p = 0; p < PARTS; p++)
                    rows[p][i] = as_float16(parts[p]);
            }
            for (int p = 0; p < PARTS; p++) {
                DST out = u + ((long)group * taps + tap) * FILTERS + (p * 2 + side) * (V * V);
                FN(turn)(rows[p]);
                for (int i = 0; i < V; i++)
                    STOREV(rows[p][i], out, i * V);
            }
        }
}

#define LOAD_X(part)                     \
    TILE_LOAD(4, x + (part)*V, POSITION) \
    TILE_LOAD(5, x + (V * POSITION + (part)*V), POSITION)
#define LOAD_W(part)                          \
    TILE_LOAD(6, w + (part) * (2 * V * V), V) \
    TILE_LOAD(7, w + ((part)*2 + 1) * (V * V), V)
#define PRODUCTS           \
    TILE_PRODUCTS(0, 4, 6) \
    TILE_PRODUCTS(1, 4, 7) \
    TILE_PRODUCTS(2, 5, 6) \
    TILE_PRODUCTS(3, 5, 7)

/* A sixth of what a block of positions has of a chunk is on its way to the first cache. */
void FN(bring)(SRC p)
{
#pragma unroll
    for (int i = 0; i < SIDE / 2; i++)
        PREFETCH_NEAREST(p + i * V);
}
#define SOON(part)   \
    if (column == 0) \
        FN(bring)(soon + (part) * (SIDE / 2 * V));

/* Adds what so many chunks of channels give: s and w at the first one, of the first position and the block of filters.
 * What the next chunk reads, or the first one of the next block, is on its way to the first cache meanwhile; and so
 * many lines from `ahead` on, for each chunk and tap, to the second: a network's weights come from memory. */
void FN(products)(struct FN(tiles) *tiles, SRC s, SRC w, int chunks, SRC ahead, int lines,
                  const struct conv_amx_args *a)
{
    const long plane = (long)a->positions * POSITION, row = (long)a->dil[0] * a->pitch * POSITION;
    for (int c = 0; c < chunks; c++) {
        SRC next = s + (c + 1 < chunks ? (c + 1) * plane : SIDE * POSITION);
        for (int r = 0; r < a->ker[0]; r++) {
            SRC x = s + c * plane + r * row;
            SRC soon = next + r * row;
            for (int column = 0; column < a->ker[1]; column++, x += a->dil[1] * POSITION, w += FILTERS) {
                for (int i = 0; i < lines; i++)
                    PREFETCH(ahead + i * V);
                ahead += FILTERS;
                LOAD_X(0)
                LOAD_W(2)
                PRODUCTS
                SOON(0)
                LOAD_W(1)
                PRODUCTS
                SOON(1)
                LOAD_X(1)
                PRODUCTS
                SOON(2)
                LOAD_W(0)
                PRODUCTS
                SOON(3)
                LOAD_X(2)
                PRODUCTS
                SOON(4)
                LOAD_X(0)
                PRODUCTS
                SOON(5)
            }
        }
    }
}

/* Stores results of `count` positions side by side: sums, those of add and y, and the bias, from 16 filters on. */
void FN(store_run)(const local float *sums, int count, FV b, SRC add, DST y, int lanes, const struct conv_amx_args *a)
{
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    const long step = ROWS ? a->y_row : V;
    if (ROWS && lanes < V)
        for (int t = 0; t < count; t++)
            FN(store_some)(LOADV(sums, t * SIDE) + b, add, y, t * step, lanes, &epi);
    else
        for (int t = 0; t < count; t++)
            FN(store)(LOADV(sums, t * SIDE), b, add, y, t * step, lanes, &epi);
}

/* Stores the sums of a block of positions and one of filters. */
void FN(store_block)(const local float *sums, int block, int k, SRC bias, SRC add, DST y, const struct conv_amx_args *a)
{
    struct FN(place) at = FN(place_of)((long)block * SIDE, a);
    for (int t = 0; t < SIDE && at.n < a->n;) {
        const int run = min(SIDE - t, a->pitch - at.column), count = min(run, a->out[1] - at.column);
        const long pixel = (long)at.row * a->out[1] + at.column, map = (long)a->out[0] * a->out[1];
        for (int v = 0; v < 2 && at.row < a->out[0]; v++) {
            const int first = k + v * V;
            const long i = ROWS ? pixel * a->y_row + first : (first / V * map + pixel) * V;
            if (first < a->k)
                FN(store_run)(sums + t * SIDE + v * V, count, FN(bias)(bias, first, a->k, &a->epi),
                              add + at.n * a->add_n + i, y + at.n * a->dst_n + i, a->k - first, a);
        }
        t += run;
        at.column += run - 1;
        FN(advance)(&at, a);
    }
}

#define EACH_TILE(DO, p, pitch) \
    DO(0, p, pitch) DO(1, (p) + V, pitch) DO(2, (p) + V * (pitch), pitch) DO(3, (p) + V * (pitch) + V, pitch)

void FN(products_of)(ulong group, SRC x, SRC u, SRC bias, SRC add, DST s, DST y, const struct conv_amx_args *a,
                     local float *ready)
{
    const int part = (int)(group % a->across);
    const int block0 = (int)((long)part * a->blocks / a->across), past = (int)((part + 1L) * a->blocks / a->across);
    const int k0 = (int)(group / a->across) * a->k_per, past_k = min(k0 + a->k_per, a->k_blocks);
    const long filters = (long)a->chunks * a->ker[0] * a->ker[1] * FILTERS, plane = (long)a->positions * POSITION;
    const int waits = a->chunks > a->depth;
    float sums[SUMS][SIDE * SIDE] __attribute__((aligned(64)));
    struct FN(tiles) state, *tiles = &state;
    DST own = s + (a->mode == AMX_FRESH ? part * a->depth * plane : (long)block0 * (SIDE * POSITION));
    const int lines = (FILTERS / V + past - block0 - 1) / max(past - block0, 1);
    TILES_BEGIN
    for (int c = 0; c < a->chunks; c += a->depth) {
        const int past_c = min(c + a->depth, a->chunks);
        int at = 0; /* of the sums; there are none when nothing waits */
        if (a->mode == AMX_FRESH)
            for (int i = c; i < past_c; i++)
                FN(split_run)(x, own + (i - c) * plane, i * SIDE, (long)block0 * SIDE,
                              (long)block0 * SIDE + a->positions, a);
        for (int k = k0; k < past_k; k++)
            for (int block = block0; block < past; block++, at += waits) {
                if (c > 0) {
                    EACH_TILE(SUMS_LOAD, sums[at], SIDE)
                } else {
                    TILE_ZERO(0)
                    TILE_ZERO(1)
                    TILE_ZERO(2)
                    TILE_ZERO(3)
                }
                SRC w = u + k * filters + (long)c * a->ker[0] * a->ker[1] * FILTERS;
                FN(products)(tiles, own + (a->mode == AMX_FRESH ? 0 : c * plane) + (block - block0) * (SIDE * POSITION),
                             w, past_c - c, w + filters + (block - block0) * lines * V, lines, a);
                if (past_c < a->chunks) {
                    EACH_TILE(SUMS_STORE, sums[at], SIDE)
                } else {
                    EACH_TILE(SUMS_STORE, ready, SIDE)
                    FN(store_block)(ready, block, k * SIDE, bias, add, y, a);
                }
            }
    }
    TILES_END
}

void FN(body)(ulong group, SRC x, SRC u, SRC bias, SRC add, DST s, DST y, const struct conv_amx_args *a,
              local float4 *scratch)
{
    if (a->mode == AMX_SPLIT)
        FN(split_all)(group, x, s, a);
    else
        FN(products_of)(group, x, u, bias, add, s, y, a, (local float *)scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST u, ulong u_off, const struct conv_amx_args a)
{
    FN(pack_body)(GROUP, w + w_off, u + u_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST s,
                ulong s_off, DST y, ulong y_off, const struct conv_amx_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, u + u_off, bias + bias_off, add + add_off, s + s_off, y + y_off, &a, scratch);
}
