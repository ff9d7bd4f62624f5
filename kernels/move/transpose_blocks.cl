/* transpose_blocks.cl: between rows of channels and channel blocks, for CPU devices: vectors are copied as they are.
 *
 *   blocked[n][c/B][p][c%B] = rows[n][p][c]      p: pixel in row-major order, lanes past C are zeros
 *
 * Index map: a work-item moves RUN pixels of one channel block; group = ((n * blocks) + block) * ceil(P / RUN) + run.
 * Layouts: both sides with batch strides. Work-group: WG = 1. Local memory: none.
 * Defines: V 16 or 8 channels of a block, TO_BLOCK 1: rows to blocked, 0: back, RUN (default 32). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef TO_BLOCK
#define TO_BLOCK 1
#endif
#ifndef RUN
#define RUN 32
#endif
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) transpose_blocks_##x
#endif

void FN(body)(ulong group, SRC x, DST y, const struct reorder_args *a)
{
    const int blocks = (a->c + V - 1) / V, runs = (a->pixels + RUN - 1) / RUN;
    const int first = (int)(group % runs) * RUN, past = min(first + RUN, a->pixels);
    const ulong rest = group / runs;
    const int block = (int)(rest % blocks), n = (int)(rest / blocks), channels = min(V, a->c - block * V);
    const long packed = (long)block * a->pixels * V;
    SRC from = x + n * a->x_n + (TO_BLOCK ? block * V : packed);
    DST to = y + n * a->y_n + (TO_BLOCK ? packed : block * V);
    const long from_step = TO_BLOCK ? a->c : V, to_step = TO_BLOCK ? V : a->c;
    if (channels == V) {
        for (int p = first; p < past; p++)
            STOREV(LOADV(from, p * from_step), to, p * to_step);
    } else {
        for (int p = first; p < past; p++)
            for (int c = 0; c < (TO_BLOCK ? V : channels); c++)
                to[p * to_step + c] = c < channels ? from[p * from_step + c] : 0.0f;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct reorder_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
