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

/* B pixels of the first `channels` channels of a block; from and to: the first of them. */
void FN(tile)(SRC from, DST to, int channels, int pixels)
{
    FV rows[B];
#if TO_BLOCK
#pragma unroll
    for (int c = 0; c < B; c++)
        rows[c] = c < channels ? LOADV(from, (long)c * pixels) : (FV)0.0f;
    FN(turn)(rows);
#pragma unroll
    for (int p = 0; p < B; p++)
        STOREV(rows[p], to, p * B);
#else
#pragma unroll
    for (int p = 0; p < B; p++)
        rows[p] = LOADV(from, p * B);
    FN(turn)(rows);
#pragma unroll
    for (int c = 0; c < B; c++)
        if (c < channels)
            STOREV(rows[c], to, (long)c * pixels);
#endif
}

/* The same for fewer pixels: `count`. */
void FN(some)(SRC from, DST to, int channels, int pixels, int count)
{
    for (int p = 0; p < count; p++)
        for (int c = 0; c < B; c++) {
#if TO_BLOCK
            to[p * B + c] = c < channels ? from[(long)c * pixels + p] : 0.0f;
#else
            if (c < channels)
                to[(long)c * pixels + p] = from[p * B + c];
#endif
        }
}

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
        if (p + B <= past)
            FN(tile)(from, to, channels, a->pixels);
        else
            FN(some)(from, to, channels, a->pixels, past - p);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct reorder_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
