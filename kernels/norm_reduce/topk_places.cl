/* topk_places.cl: the best elements of each line in order, with their indices: each element finds its place; for GPUs.
 *
 * Equal elements come by index; NaN is above all numbers.
 * Layouts: any strides; struct topk_args with the operands x, values, indices.
 * Index map: item = line * length + element, for LANES work-items that share its comparisons. Work-group: WG / LANES
 * items. Local memory: WG ints. Defines: T (types.clh), LEAST (topk_lines.clh), LANES (divides WG), WG. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) topk_places_##x
#endif
#include "norm_reduce/topk_lines.clh"
#ifndef LANES
#define LANES 1
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) values, DST_OF(long) indices, const struct topk_args *t,
              local float4 *scratch)
{
    local int *places = (local int *)scratch;
    const struct line_args *a = &t->lines;
    const int lane = LANE % LANES;
    const long item = (long)(group * (WG / LANES)) + LANE / LANES, line = item / a->length;
    const int mine = (int)(item - line * a->length);
    const struct FN(starts) at = FN(line_at)(min(line, (long)t->all - 1), a);
    SRC_OF(T) xl = x + at.of[0];
    const T own = xl[mine * a->step[0]];
    int place = 0;
#pragma unroll 8
    for (int i = lane; i < a->length; i += LANES) {
        const T v = xl[i * a->step[0]];
        place += BETTER(v, own) || (i < mine && !BETTER(own, v));
    }
#if LANES > 1
    places[LANE] = place;
    for (int s = LANES / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < s)
            places[LANE] += places[LANE + s];
    }
    place = places[LANE];
#endif
    if (lane == 0 && line < t->all && place < a->count) {
        values[at.of[1] + place * a->step[1]] = own;
        indices[at.of[2] + place * a->step[2]] = mine;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) values, ulong values_off, DST_OF(long) indices, ulong indices_off,
                const struct topk_args a)
{
    local float4 scratch[(WG + 3) / 4];
    FN(body)(GROUP, x + x_off, values + values_off, indices + indices_off, ARGS(a), scratch);
}
