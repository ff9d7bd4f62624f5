/* conv_amx.cl: convolution and linear layers by tiles of bfloat16, for CPU devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} w[k][c][r][s] x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] + bias[k]
 *                          + add[n][k][oh][ow] )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides, or with ROWS rows of C and K elements, which are the
 * pixels of an image then; w [K][C][R][S], w_k elements between filters.
 * amx_products.clh tells of positions, s, their parts, and u, those of the filters.
 *   pack   u. Group = block of filters * chunks + chunk.
 *   main   y, or s with AMX_SPLIT.
 * Index map: as told there. Work-group: WG = 1. Local memory: none.
 * Defines: V 16; AMX (amx.clh); PARTS of a number, 3 (default) or 1; ROWS 0 (default) or 1; EPI_ACT act_*
 * (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_amx_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/row_ends.clh"
#include "common/group_blocks.clh"
#include "common/prefetch.clh"
#include "common/vec_turn.clh"
#include "conv_cpu/amx_places.clh"

/* The parts of 32 channels from c on, of a phase's positions from..past - 1. */
#undef SOURCE_PARAMS
#undef SOURCE
#define SOURCE_PARAMS SRC x
#define SOURCE x
void FN(split_run)(DST out, int c, int phase, long from, long past, const struct conv_amx_args *a, SRC x)
{
    const long map = (long)a->width * a->map_height * V; /* of a block of channels */
    const int top = phase / a->phases[1], left = phase % a->phases[1];
    long position = from;
    for (; position < min(past, (long)a->lead); position++, out += POSITION)
        for (int p = 0; p < PARTS; p++)
            STOREV((FV)0.0f, out, p * V);
    struct FN(place) at = FN(place_of)(position - a->lead, a);
    for (; position < past; position++, out += POSITION, FN(advance)(&at, a)) {
        FV low = 0.0f, high = 0.0f;
        const int row = at.row * a->stride[0] + top, column = at.column * a->stride[1] + left;
        if (at.n < a->n && row < a->map_height && column < a->width) {
            const long pixel = (long)row * a->width + column;
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

#include "conv_cpu/amx_products.clh"

/* 32 channels of one tap of a filter; zeros where there are none. */
void FN(filter)(SRC w, int filter, int c, int tap, int taps, const struct conv_amx_args *a, float some[SIDE])
{
    for (int j = 0; j < SIDE; j++)
        some[j] = filter < a->k && c + j < a->c ? w[filter * a->w_k + (long)(c + j) * taps + tap] : 0.0f;
}

/* 16 filters of one tap as floats: [16][16][2]. */
void FN(pack_floats)(SRC w, DST out, int k, int c, int tap, int taps, const struct conv_amx_args *a)
{
    for (int i = 0; i < V; i++) {
        float some[SIDE];
        FN(filter)(w, k + i, c, tap, taps, a, some);
        for (int j = 0; j < SIDE; j++)
            out[(j / 2 * V + i) * 2 + j % 2] = some[j];
    }
}

/* The same as parts: [PARTS], so many floats apart, [16][16][2]. */
void FN(pack_parts)(SRC w, DST out, int k, int c, int tap, int taps, const struct conv_amx_args *a)
{
    FV rows[PARTS][V];
    for (int i = 0; i < V; i++) {
        float some[SIDE] __attribute__((aligned(64)));
        uint16 parts[PARTS];
        FN(filter)(w, k + i, c, tap, taps, a, some);
        FN(parts)(LOADV(some, 0), LOADV(some, V), parts);
        for (int p = 0; p < PARTS; p++)
            rows[p][i] = as_float16(parts[p]);
    }
    for (int p = 0; p < PARTS; p++) {
        FN(turn)(rows[p]);
        for (int i = 0; i < V; i++)
            STOREV(rows[p][i], out, p * (2 * V * V) + i * V);
    }
}

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_amx_args *a)
{
    const int k = (int)(group / a->chunks) * SIDE, c = (int)(group % a->chunks) * SIDE, taps = a->ker[0] * a->ker[1];
    for (int tap = 0; tap < taps; tap++)
        for (int side = 0; side < 2; side++) {
            DST tile = u + ((long)group * taps + tap) * TILE_OF_FILTERS(a);
            if (a->floats)
                FN(pack_floats)(w, tile + side * (2 * V * V), k + side * V, c, tap, taps, a);
            else
                FN(pack_parts)(w, tile + side * (V * V), k + side * V, c, tap, taps, a);
        }
}

void FN(body)(ulong group, SRC x, SRC u, SRC bias, SRC add, DST s, DST y, const struct conv_amx_args *a)
{
    FN(amx)(group, u, s, a, x, bias, add, y);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST u, ulong u_off, const struct conv_amx_args a)
{
    FN(pack_body)(GROUP, w + w_off, u + u_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST s,
                ulong s_off, DST y, ulong y_off, const struct conv_amx_args a)
{
    FN(body)(GROUP, x + x_off, u + u_off, bias + bias_off, add + add_off, s + s_off, y + y_off, &a);
}
