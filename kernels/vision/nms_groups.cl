/* nms_groups.cl: boxes without those that overlap better ones of their class: each box's place first, then a group for
 * each class; for GPUs.
 *
 * rank:   order[list][place] = box, for boxes whose score is above `score`, by score (equal ones by index)
 * select: a group takes WG boxes in that order, leaves out those that overlap kept ones, and then, one after the other,
 * those
 *         that overlap one among them that is kept, until there are `most`
 * Layouts: boxes[B][N][4], scores[B][C][N] with batch strides; order[lists][N]; near[lists][most][4], the corners of
 * kept boxes; kept[lists][most], counts[lists], as nms_ref.cl writes them out.
 * Index map: rank: item = list * N + box; select: group = list. Work-group: WG. Local memory: select: 6 * WG words.
 * Defines: CENTER (boxes.clh), WG (a power of two). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) nms_groups_##x
#endif
#include "vision/boxes.clh"
#define AT_ONCE 8 /* kept boxes that are asked for together */

void FN(rank_body)(ulong group, SRC scores, DST_OF(int) order, const struct nms_args *a)
{
    const long item = (long)(group * WG) + LANE, list = item / a->boxes;
    const int mine = (int)(item - list * a->boxes);
    if (list < a->lists) {
        SRC score = scores + list / a->classes * a->scores_n + list % a->classes * a->boxes;
        const float own = score[mine];
        int place = 0;
        if (own > a->score) {
#pragma unroll 8
            for (int i = 0; i < a->boxes; i++)
                place += score[i] > own || (score[i] == own && i < mine);
            order[list * a->boxes + place] = mine;
        }
    }
}

/* How many boxes of a list count, for all work-items. */
int FN(above)(SRC score, const struct nms_args *a, local int *buf)
{
    int mine = 0;
    for (int i = LANE; i < a->boxes; i += WG)
        mine += score[i] > a->score;
    buf[LANE] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = WG / 2; s > 0; s >>= 1) {
        if (LANE < s)
            buf[LANE] += buf[LANE + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int all = buf[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

void FN(select_body)(ulong group, SRC boxes, SRC scores, SRC_OF(int) order, DST near, DST_OF(long) kept,
                     DST_OF(long) counts, const struct nms_args *a, local float4 *corners, local int *alive)
{
    const long list = (long)group, item = list / a->classes;
    SRC box = boxes + item * a->boxes_n;
    const int all = FN(above)(scores + item * a->scores_n + list % a->classes * a->boxes, a, alive);
    global float4 *found = (global float4 *)near + list * a->most;
    int count = 0;
    for (int first = 0; first < all && count < a->most; first += WG) {
        const bool there = first + LANE < all;
        const int mine = there ? order[list * a->boxes + first + LANE] : 0;
        const float4 own = FN(corners)(box + (long)mine * 4);
        bool free = there;
        for (int k = 0; k < count && free; k += AT_ONCE)
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) /* the last one again where there are no more */
                free = free & !FN(overlap)(own, found[min(k + u, count - 1)], a->iou);
        corners[LANE] = own;
        alive[LANE] = free;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < WG; j++)
            if (alive[j] && count < a->most) { /* the same for all work-items */
                if (LANE == j) {
                    found[count] = own;
                    kept[list * a->most + count] = mine;
                }
                count++;
                if (LANE > j && alive[LANE] && FN(overlap)(own, corners[j], a->iou))
                    alive[LANE] = 0;
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    if (LANE == 0)
        counts[list] = count;
}

KERNEL FN(rank)(SRC scores, ulong scores_off, DST_OF(int) order, ulong order_off, const struct nms_args a)
{
    FN(rank_body)(GROUP, scores + scores_off, order + order_off, &a);
}

KERNEL FN(select)(SRC boxes, ulong boxes_off, SRC scores, ulong scores_off, SRC_OF(int) order, ulong order_off,
                  DST near, ulong near_off, DST_OF(long) kept, ulong kept_off, DST_OF(long) counts, ulong counts_off,
                  const struct nms_args a)
{
    local float4 corners[WG];
    local int alive[WG];
    FN(select_body)(GROUP, boxes + boxes_off, scores + scores_off, order + order_off, near + near_off, kept + kept_off,
                    counts + counts_off, &a, corners, alive);
}
