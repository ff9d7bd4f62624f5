/* reorder_blocks.cl: between row-major maps and channel blocks.
 *
 *   blocked[n][c/B][p][c%B] = plain[n][c][p]      p: pixel in row-major order, lanes past C are zeros
 *
 * Index map: a work-item moves B pixels of one channel block; group = ((n * blocks) + block) * ceil(P/B) + pixels.
 * Layouts: both sides with batch strides. Work-group: WG = 1 (CPU devices). Local memory: none.
 * Defines: WG 1, B 8 or 16 channels of a block, TO_BLOCK 1: plain to blocked, 0: back. */
#ifndef WG
#define WG 1
#endif
#ifndef B
#define B 16
#endif
#ifndef TO_BLOCK
#define TO_BLOCK 1
#endif
#define V B
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) reorder_blocks_##x
#endif

void FN(body)(ulong group, SRC x, DST y, const struct reorder_args *a)
{
    const int blocks = (a->c + B - 1) / B, tiles = (a->pixels + B - 1) / B;
    const int first = (int)(group % tiles) * B;
    const ulong rest = group / tiles;
    const int block = (int)(rest % blocks), n = (int)(rest / blocks);
    const int channels = min(B, a->c - block * B), pixels = min(B, a->pixels - first);
    const long plain = (long)block * B * a->pixels + first, packed = ((long)block * a->pixels + first) * B;
    float tile[B][B];
#if TO_BLOCK
    SRC from = x + n * a->x_n + plain;
    DST to = y + n * a->y_n + packed;
    for (int c = 0; c < B; c++)
        for (int p = 0; p < pixels; p++)
            tile[p][c] = c < channels ? from[(long)c * a->pixels + p] : 0.0f;
    for (int p = 0; p < pixels; p++)
        STOREV(LOADV(tile[p], 0), to, p * B);
#else
    SRC from = x + n * a->x_n + packed;
    DST to = y + n * a->y_n + plain;
    for (int p = 0; p < pixels; p++)
        KEEPV(LOADV(from, p * B), tile[p], 0);
    for (int c = 0; c < channels; c++)
        for (int p = 0; p < pixels; p++)
            to[(long)c * a->pixels + p] = tile[p][c];
#endif
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct reorder_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
