/* reduce_quads.cl: sum, mean, maximum or minimum of a few elements along a dimension that is not the innermost one, for
 * GPUs.
 *
 * A work-item combines four neighbours at a time, which lie on a boundary of four where all strides are multiples.
 * Layouts: any strides, neighbours side by side; struct lanes_reduce_args with one part. NaN wins maximum and minimum.
 * Index map: item = row * pieces + quad, with ceil(inner / 4) pieces; a row is all outputs along the innermost kept
 * dimension, whose `inner` elements lie y_step apart in y.
 * Work-group: WG items. Local memory: none.
 * Defines: RED (required: red_sum, red_max, red_min), WG; INDEX, uint or ulong: that of items. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef INDEX
#define INDEX ulong
#endif
#include "common/strided.clh"
#include "common/reduce.clh"
#ifndef FN
#define FN(x) reduce_quads_##x
#endif
#ifndef RED
#error "RED is required: red_sum, red_max or red_min"
#endif
#include "norm_reduce/kept_offset.clh"

/* Up to four elements from p on; zeros beyond. */
float4 FN(quad)(const global float *p, int count)
{
    float4 v = 0.0f;
    v.x = p[0];
    if (count > 1)
        v.y = p[1];
    if (count > 2)
        v.z = p[2];
    if (count > 3)
        v.w = p[3];
    return v;
}

void FN(body)(ulong group, SRC x, DST y, const struct lanes_reduce_args *a)
{
    const INDEX item = (INDEX)group * WG + LANE, pieces = (INDEX)a->pieces, row = item / pieces;
    if (row < (INDEX)a->rows) {
        const INDEX column = (item - row * pieces) * 4;
        const long2 at = FN(kept_offset)(row, a);
        const global float *from = x + at.x + column;
        global float *to = y + at.y + column * a->y_step;
        const int count = (int)min((INDEX)4, (INDEX)a->inner - column);
        float4 all = RED_INIT(RED);
        const bool whole = ((ulong)from / 4 | (ulong)a->x_step) % 4 == 0 && count == 4;
        for (int i = 0; i < (int)a->length; i++, from += a->x_step) {
            const float4 v = whole ? *(const global float4 *)from : FN(quad)(from, count);
            all = RED(all, v);
        }
        all /= a->divisor;
        if (((ulong)to / 4) % 4 == 0 && a->y_step == 1 && count == 4)
            *(global float4 *)to = all;
        else {
            to[0] = all.x;
            if (count > 1)
                to[a->y_step] = all.y;
            if (count > 2)
                to[2 * a->y_step] = all.z;
            if (count > 3)
                to[3 * a->y_step] = all.w;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct lanes_reduce_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
