/* reduce_lanes.cl: sum, mean, maximum or minimum along one dimension by several work-items an output, for GPUs.
 *
 * Long reductions to few outputs take two launches: parts of the dimension first, then the parts' results.
 * Layouts: any strides; struct lanes_reduce_args. NaN wins maximum and minimum.
 * Index map: COLUMNS 0: group = WG / LANES rows, a row is a part of an output; 1: group = row * pieces + tile, a tile
 * is WG / LANES of the innermost kept dimension's elements, and a row a part of all outputs along it.
 * Work-group: LANES work-items a row. Local memory: WG floats.
 * Defines: RED (required: red_sum, red_max, red_min), WG; COLUMNS, LANES, KEPT, LOOPS (lanes.clh); INDEX, uint or
 * ulong: that of groups. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef INDEX
#define INDEX ulong
#endif
#include "common/strided.clh"
#include "norm_reduce/lanes.clh"
#include "common/reduce.clh"
#ifndef FN
#define FN(x) reduce_lanes_##x
#endif
#ifndef RED
#error "RED is required: red_sum, red_max or red_min"
#endif
#define SCRATCH ((WG + 3) / 4)
#include "norm_reduce/kept_offset.clh"

LANES_SHARE(FN(share), float, RED)

void FN(body)(ulong group, SRC x, DST y, const struct lanes_reduce_args *a, local float4 *scratch)
{
#if COLUMNS
    const INDEX row = (INDEX)group / (INDEX)a->pieces, column = ((INDEX)group - row * (INDEX)a->pieces) * ROWS + WHICH;
    const bool works = column < (INDEX)a->inner;
#else
    const INDEX row = (INDEX)group * ROWS + WHICH, column = 0;
    const bool works = row < (INDEX)a->rows;
#endif
    const INDEX out = row / (INDEX)a->parts;
    const long part = row - out * (INDEX)a->parts, begin = part * a->chunk, step = a->x_step;
    const int n = works ? (int)min((long)a->chunk, a->length - begin) : 0;
    const long2 at = FN(kept_offset)(out, a);
    SRC xr = x + at.x + begin * step + column;
    float all = RED_INIT(RED);
    FOR_BLOCKS(b, n)
    {
        float v[KEPT];
#pragma unroll
        for (int e = 0; e < KEPT; e++) {
            const int i = IN_BLOCK(b, e);
            v[e] = i < n ? xr[i * step] : RED_INIT(RED);
        }
#pragma unroll
        for (int e = 4; e < KEPT; e++)
            v[e % 4] = RED(v[e % 4], v[e]);
        v[0] = RED(v[0], v[1]);
        v[2] = RED(v[2], v[3]);
        v[0] = RED(v[0], v[2]);
        all = RED(all, v[0]);
    }
    all = FN(share)(all, (local float *)scratch);
    if (works && MEMBER == 0)
        y[at.y + column * a->y_step + part] = all / a->divisor;
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct lanes_reduce_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, &a, scratch);
}
