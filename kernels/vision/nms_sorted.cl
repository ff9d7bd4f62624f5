/* nms_sorted.cl: boxes without those that overlap better ones of their class: sorted first, then each against vectors
 * of those that are kept; for CPU devices.
 *
 * A work-item takes one pair of item and class after the other. It sorts the boxes whose score is above `score` by
 * score (equal ones by index; NaN is not above), and keeps those that overlap none of the kept ones, until there are
 * `most`.
 * Layouts: boxes[B][N][4], scores[B][C][N] with batch strides; order[groups][2][N]; near[groups][5][padded], the
 * corners and areas of kept boxes; kept[lists][most], counts[lists], as nms_ref.cl writes them out.
 * Index map: group g has the lists g, g + groups, ... Work-group: WG = 1. Local memory: none.
 * Defines: V (vec.clh), CENTER (boxes.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) nms_sorted_##x
#endif
#include "common/radix.clh"
#include "vision/boxes.clh"

/* Whether a box overlaps one of the `count` boxes in `near`. Areas of 0 behind the last one overlap nothing. */
bool FN(hidden)(float4 box, SRC near, int count, const struct nms_sorted_args *s)
{
    const float one = (box.z - box.x) * (box.w - box.y);
    if (!(one > 0.0f))
        return false;
    for (int k = 0; k < count; k += V) {
        const FV high = fmin(box.z, LOADV(near, 2 * s->padded + k)) - fmax(box.x, LOADV(near, k));
        const FV wide = fmin(box.w, LOADV(near, 3 * s->padded + k)) - fmax(box.y, LOADV(near, s->padded + k));
        const IV meet = (high > 0.0f) & (wide > 0.0f);
        if (any(meet)) {
            const FV two = LOADV(near, 4 * s->padded + k), both = high * wide, all = one + two - both;
            if (any(meet & (two > 0.0f) & (all > 0.0f) & (both / all > s->nms.iou)))
                return true;
        }
    }
    return false;
}

void FN(keep)(float4 box, DST near, int at, const struct nms_sorted_args *s)
{
    const float of[] = {box.x, box.y, box.z, box.w, (box.z - box.x) * (box.w - box.y)};
    for (int i = 0; i < 5; i++) {
        if (at % V == 0)
            STOREV((FV)0.0f, near, i * s->padded + at);
        near[i * s->padded + at] = of[i];
    }
}

void FN(select_body)(ulong group, SRC boxes, SRC scores, global ulong *order, DST near, DST_OF(long) kept,
                     DST_OF(long) counts, const struct nms_sorted_args *s)
{
    const struct nms_args *a = &s->nms;
    global ulong *const first = order + (long)group * 2 * a->boxes;
    DST mine = near + (long)group * 5 * s->padded;
    for (long list = (long)group; list < a->lists; list += s->groups) {
        const long item = list / a->classes;
        SRC score = scores + item * a->scores_n + list % a->classes * a->boxes;
        SRC box = boxes + item * a->boxes_n;
        int n = 0, count = 0;
        for (int i = 0; i < a->boxes; i++) {
            first[n] = (ulong)FN(down_key)(score[i]) << 32 | (uint)i;
            n += score[i] > a->score;
        }
        const global ulong *sorted = FN(radix_sort)(first, first + a->boxes, n);
        for (int r = 0; r < n && count < a->most; r++) {
            const int at = (int)(uint)sorted[r];
            const float4 corners = FN(corners)(box + (long)at * 4);
            if (!FN(hidden)(corners, mine, count, s)) {
                FN(keep)(corners, mine, count, s);
                kept[list * a->most + count++] = at;
            }
        }
        counts[list] = count;
    }
}

KERNEL FN(select)(SRC boxes, ulong boxes_off, SRC scores, ulong scores_off, DST_OF(ulong) order, ulong order_off,
                  DST near, ulong near_off, DST_OF(long) kept, ulong kept_off, DST_OF(long) counts, ulong counts_off,
                  const struct nms_sorted_args a)
{
    FN(select_body)(GROUP, boxes + boxes_off, scores + scores_off, order + order_off, near + near_off, kept + kept_off,
                    counts + counts_off, &a);
}
