/* reorder_blocks.cl: between row-major maps and channel blocks.
 *
 *   blocked[n][c/B][p][c%B] = plain[n][c][p]      p: pixel in row-major order, lanes past C are zeros
 *
 * Index map: a work-item moves SPAN * B pixels of one channel block, B of them at a time, which registers turn; group =
 * ((n * blocks) + block) * ceil(P / (SPAN * B)) + pixels.
 * Layouts: both sides with batch strides. Work-group: WG = 1 (CPU devices). Local memory: none.
 * Defines: WG 1, B 8 or 16 channels of a block, TO_BLOCK 1: plain to blocked, 0: back; SPAN (default
 * 1). */
#ifndef WG
#define WG 1
#endif
#ifndef B
#define B 16
#endif
#ifndef TO_BLOCK
#define TO_BLOCK 1
#endif
#ifndef SPAN
#define SPAN 1
#endif
#define V B
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) reorder_blocks_##x
#endif
#include "common/vec_turn.clh"

void FN(body)(ulong group, SRC x, DST y, const struct reorder_args *a)
{
    const int blocks = (a->c + B - 1) / B, tiles = (a->pixels + SPAN * B - 1) / (SPAN * B);
    const int first = (int)(group % tiles) * (SPAN * B), past = min(first + SPAN * B, a->pixels);
    const ulong rest = group / tiles;
    const int block = (int)(rest % blocks), n = (int)(rest / blocks), channels = min(B, a->c - block * B);
    const long plane = (long)block * B * a->pixels;
    for (int p = first; p < past; p += B) {
        SRC from = x + n * a->x_n + plane + (TO_BLOCK ? p : (long)p * B);
        DST to = y + n * a->y_n + plane + (TO_BLOCK ? (long)p * B : p);
        const int count = past - p;
        if (TO_BLOCK && count >= B)
            FN(turn_tile)(from, a->pixels, channels, to, B, B);
        else if (TO_BLOCK)
            FN(turn_part)(from, a->pixels, channels, to, B, count, B);
        else if (count >= B)
            FN(turn_tile)(from, B, B, to, a->pixels, channels);
        else
            FN(turn_part)(from, B, B, to, a->pixels, channels, count);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct reorder_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
