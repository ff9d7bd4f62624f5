/* topk_places.cl: the best elements of each line in order, with their indices: each element finds its place; for GPUs.
 *
 * Equal elements come by index; NaN is above all numbers.
 * Layouts: any strides; struct topk_args with the operands x, values, indices.
 * Index map: item = line * length + element. Work-group: WG items. Local memory: none.
 * Defines: T (types.clh), LEAST (topk_lines.clh), WG. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) topk_places_##x
#endif
#include "norm_reduce/topk_lines.clh"

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) values, DST_OF(long) indices, const struct topk_args *t)
{
    const struct line_args *a = &t->lines;
    const long item = (long)(group * WG) + LANE, line = item / a->length;
    const int mine = (int)(item - line * a->length);
    if (line < t->all) {
        const struct FN(starts) at = FN(line_at)(line, a);
        SRC_OF(T) xl = x + at.of[0];
        const T own = xl[mine * a->step[0]];
        int place = 0;
#pragma unroll 8
        for (int i = 0; i < a->length; i++) {
            const T v = xl[i * a->step[0]];
            place += BETTER(v, own) || (i < mine && !BETTER(own, v));
        }
        if (place < a->count) {
            values[at.of[1] + place * a->step[1]] = own;
            indices[at.of[2] + place * a->step[2]] = mine;
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) values, ulong values_off, DST_OF(long) indices, ulong indices_off,
                const struct topk_args a)
{
    FN(body)(GROUP, x + x_off, values + values_off, indices + indices_off, ARGS(a));
}
