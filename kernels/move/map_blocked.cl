/* map_blocked.cl: padding, cropping and slices of pixels on channel blocks, for CPU devices.
 *
 *   y[c][i] = x[c][from + i * step] in each spatial dimension where that lies inside of x, else value, or what `mode`
 *   says; and 0 for channels that x does not have
 *
 * Layouts: x, y [ceil(C/V)][D][H][W][V] with batch strides, x also with strides of blocks, planes and rows; lanes of y
 * past C get zeros where they are padded.
 * Index map: group = (n * blocks + block) * parts + part; a work-item writes `run` rows of one block of channels.
 * Work-group: WG = 1. Local memory: none.
 * Of the argument block: mode, 0: value, 1: reflect, 2: edge, 3: wrap.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) map_blocked_##x
#endif

/* Where in x index i of the output comes from, along dimension d; -1: from nowhere. */
int FN(source)(int i, int d, const struct map_blocked_args *a)
{
    const long at = (long)a->from[d] + (long)i * a->step[d], size = a->in[d];
    if (at >= 0 && at < size)
        return (int)at;
    if (a->mode == 0)
        return -1;
    if (a->mode == 2)
        return at < 0 ? 0 : (int)size - 1;
    const long period = a->mode == 3 ? size : size > 1 ? 2 * (size - 1) : 1, rest = at % period;
    const long r = rest < 0 ? rest + period : rest;
    return (int)(r < size ? r : period - r);
}

void FN(fill)(DST y, int first, int past, FV value)
{
    for (int i = first; i < past; i++)
        STOREV(value, y, i * V);
}

/* Columns that lie outside of x. */
void FN(outside)(SRC x, DST y, int first, int past, FV value, const struct map_blocked_args *a)
{
    if (a->mode == 0)
        FN(fill)(y, first, past, value);
    else
        for (int i = first; i < past; i++)
            STOREV(LOADV(x, FN(source)(i, 2, a) * V), y, i * V);
}

void FN(row)(SRC x, DST y, int d, int h, FV value, const struct map_blocked_args *a)
{
    const int width = a->out[2], step = a->step[2];
    if (d < 0 || h < 0) {
        FN(fill)(y, 0, width, value);
        return;
    }
    SRC row = x + d * a->x_plane + h * a->x_row;
    const int left = step == 1 ? clamp(-a->from[2], 0, width) : 0;
    const int right = step == 1 ? clamp(a->in[2] - a->from[2], left, width) : width;
    SRC first = row + (long)a->from[2] * V;
    FN(outside)(row, y, 0, left, value, a);
    if (step == 1)
        for (int i = left; i < right; i++)
            STOREV(LOADV(first, i * V), y, i * V);
    else
        for (int i = left; i < right; i++)
            STOREV(LOADV(first, (long)i * step * V), y, i * V);
    FN(outside)(row, y, right, width, value, a);
}

void FN(body)(ulong group, SRC x, DST y, const struct map_blocked_args *a)
{
    const int rows = a->out[0] * a->out[1], parts = (rows + a->run - 1) / a->run;
    const int first = (int)(group % parts) * a->run, past = min(first + a->run, rows);
    const int block = (int)(group / parts % a->blocks);
    const long n = (long)(group / parts / a->blocks), across = (long)a->out[2] * V;
    SRC from = x + n * a->x_n + block * a->x_block;
    DST to = y + n * a->y_n + (long)block * rows * across;
    const FV value = select((FV)0.0f, (FV)a->value, LANES_V < (IV)(a->c - block * V));
    if (block >= a->x_blocks)
        FN(fill)(to, first * a->out[2], past * a->out[2], 0.0f);
    for (int row = first; row < past && block < a->x_blocks; row++)
        FN(row)(from, to + row * across, FN(source)(row / a->out[1], 0, a), FN(source)(row % a->out[1], 1, a), value,
                a);
    if (a->more && block < a->x_blocks && a->c < (block + 1) * V) /* lanes of x past c may be those of another map */
        for (int i = first * a->out[2]; i < past * a->out[2]; i++)
            STOREV(select((FV)0.0f, LOADV(to, i * V), LANES_V < (IV)(a->c - block * V)), to, i * V);
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct map_blocked_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
