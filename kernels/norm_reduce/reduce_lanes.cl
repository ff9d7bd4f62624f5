/* reduce_lanes.cl: sum, mean, maximum or minimum along one dimension by several work-items an output, for GPUs.
 *
 * Long reductions to few outputs take two launches: parts of the dimension first, then the parts' results.
 * Layouts: any strides; struct reduce_args, with the kept dimensions first. NaN wins maximum and minimum.
 * Index map: COLUMNS 0: group = WG / LANES rows, a row is a part of an output; 1: group = row * pieces + tile, a tile is
 * WG / LANES of the innermost kept dimension's elements, and a row a part of all outputs along it.
 * Work-group: LANES work-items a row. Local memory: WG floats.
 * Defines: RED (required: red_sum, red_max, red_min), WG; COLUMNS, LANES, KEPT, LOOPS (lanes.clh); INDEX, uint or ulong:
 * that of groups. */
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

LANES_SHARE(FN(share), float, RED)

/* Where output number `rest` of the first `dims` kept dimensions begins in x (.x) and in y (.y). */
long2 FN(kept_offset)(INDEX rest, int dims, const struct reduce_args *a)
{
    long2 offset = (long2)(0, 0);
    for (int d = dims - 1; d >= 0; d--) {
        TAKE_DIGIT(digit, rest, a->size[d]);
        offset += (long2)(digit * a->x[d], digit * a->y[d]);
    }
    return offset;
}

void FN(body)(ulong group, SRC x, DST y, const struct reduce_args *a, local float4 *scratch)
{
#if COLUMNS
    const int dims = a->kept - 1;
    const INDEX row = (INDEX)group / (INDEX)a->pieces, column = ((INDEX)group - row * (INDEX)a->pieces) * ROWS + WHICH;
    const bool works = column < (INDEX)a->size[dims];
#else
    const int dims = a->kept;
    const INDEX row = (INDEX)group * ROWS + WHICH, column = 0;
    const bool works = row < (INDEX)a->rows;
#endif
    const INDEX out = row / (INDEX)a->parts;
    const long part = row - out * (INDEX)a->parts, begin = part * a->chunk, step = a->x[a->rank - 1];
    const int n = works ? (int)min((long)a->chunk, a->size[a->rank - 1] - begin) : 0;
    const long2 at = FN(kept_offset)(out, dims, a);
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
        for (int half_ = KEPT / 2; half_ > 0; half_ /= 2)
#pragma unroll
            for (int e = 0; e < half_; e++)
                v[e] = RED(v[e], v[e + half_]);
        all = RED(all, v[0]);
    }
    all = FN(share)(all, (local float *)scratch);
    if (works && MEMBER == 0)
        y[at.y + column * (COLUMNS ? a->y[dims] : 0) + part] = all / a->divisor;
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct reduce_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a), scratch);
}
