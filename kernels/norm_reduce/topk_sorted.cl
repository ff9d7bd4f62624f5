/* topk_sorted.cl: the best elements of each line of floats in order, with their indices: those that can be among them
 * are sorted; for CPU devices.
 *
 * Equal elements come by index; NaN is above all numbers.
 * Layouts: any strides; struct topk_args with the operands x, values, indices; order[groups][2][length].
 * Index map: group g has the lines g, g + groups, ... Work-group: WG = 1. Local memory: none.
 * Defines: LEAST (topk_lines.clh). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) topk_sorted_##x
#endif
#include "common/radix.clh"
#include "norm_reduce/topk_lines.clh"

#define BIN_BITS 11 /* of a key, by which those that come too late are left out */
#define BINS (1 << BIN_BITS)

/* A key of which those elements have smaller ones that come before. */
uint FN(key)(float v)
{
    const uint down = v == v ? FN(down_key)(v) + 1 : 0; /* 0 is NaN's; +infinity's is 0x00800000 */
    return LEAST ? ~down : down;
}

/* Sorts the elements of a line whose bins hold its first `count`, into `order`; returns where they are. */
const global ulong *FN(sorted)(SRC line, long step, int length, int count, global ulong *order)
{
    int bins[BINS];
    for (int b = 0; b < BINS; b++)
        bins[b] = 0;
    for (int i = 0; i < length; i++)
        bins[FN(key)(line[i * step]) >> (32 - BIN_BITS)]++;
    uint last = 0;
    for (int before = bins[0]; before < count; before += bins[last])
        last++;
    int n = 0;
    for (int i = 0; i < length; i++) {
        const uint key = FN(key)(line[i * step]);
        order[n] = (ulong)key << 32 | (uint)i;
        n += key >> (32 - BIN_BITS) <= last;
    }
    return FN(radix_sort)(order, order + length, n);
}

void FN(body)(ulong group, SRC x, DST values, DST_OF(long) indices, global ulong *order, const struct topk_args *t)
{
    const struct line_args *a = &t->lines;
    global ulong *const first = order + (long)group * 2 * a->length;
    for (long line = (long)group; line < t->all; line += t->groups) {
        const struct FN(starts) at = FN(line_at)(line, a);
        SRC xl = x + at.of[0];
        const global ulong *sorted = FN(sorted)(xl, a->step[0], a->length, a->count, first);
        for (int j = 0; j < a->count; j++) {
            const long i = (long)(uint)sorted[j];
            values[at.of[1] + j * a->step[1]] = xl[i * a->step[0]];
            indices[at.of[2] + j * a->step[2]] = i;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST values, ulong values_off, DST_OF(long) indices, ulong indices_off,
                global ulong *order, ulong order_off, const struct topk_args a)
{
    FN(body)(GROUP, x + x_off, values + values_off, indices + indices_off, order + order_off, ARGS(a));
}
