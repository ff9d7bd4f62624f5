/* nms_sorted.cl: boxes without those that overlap better ones of their class: sorted first, then each against vectors
 * of those that are kept and may reach it; for CPU devices.
 *
 * A work-item takes one pair of item and class after the other. It sorts the boxes whose score is above `score` by
 * score (equal ones by index; NaN is not above), and keeps those that overlap none of the kept ones, until there are
 * `most`. Kept boxes lie in bins by their first corner along the first axis, V boxes a chunk; of each bin the furthest
 * end is known, so that a box looks only at bins that begin before its own end and reach its beginning. Where classes
 * lie apart, as exporters write them for one list, that leaves the boxes of one class.
 * Layouts: boxes[B][N][4], scores[B][C][N] with batch strides; order[groups][2][N]; near[groups][6][padded], the
 * corners and areas of kept boxes, and of each chunk which one is before it in its bin; kept[lists][most],
 * counts[lists], as nms_ref.cl writes them out.
 * Index map: group g has the lists g, g + groups, ... Work-group: WG = 1. Local memory: none.
 * Defines: V (vec.clh), BINS (at most), CENTER (boxes.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef BINS
#define BINS 128
#endif
#define BOXES_A_BIN 32 /* before there are more bins */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) nms_sorted_##x
#endif
#include "common/radix.clh"
#include "vision/boxes.clh"

/* Kept boxes by where they begin along the first axis, from `from` on. */
struct FN(bins) {
    float from, scale, end[BINS];          /* the furthest end of those of a bin */
    int n, chunks, last[BINS], used[BINS]; /* of each bin the last chunk, -1: none, and its boxes */
};

/* It never falls where x rises; NaN is in the first one. */
int FN(bin_of)(float x, const struct FN(bins) *b)
{
    return clamp(convert_int_sat((x - b->from) * b->scale), 0, b->n - 1);
}

void FN(empty)(struct FN(bins) *b, SRC box, const global ulong *sorted, int n)
{
    float low = INFINITY, high = -INFINITY;
    for (int r = 0; r < n; r++) {
        const float at = FN(corners)(box + (long)(int)(uint)sorted[r] * 4).x;
        if (isfinite(at)) {
            low = fmin(low, at);
            high = fmax(high, at);
        }
    }
    b->n = min(BINS, 1 + n / BOXES_A_BIN);
    b->chunks = 0;
    b->from = low;
    b->scale = low < high ? b->n / (high - low) : 0.0f;
    for (int i = 0; i < b->n; i++) {
        b->end[i] = -INFINITY;
        b->last[i] = -1;
        b->used[i] = V;
    }
}

/* Whether a box overlaps one of a chunk. Areas of 0 behind the last one overlap nothing. */
bool FN(overlaps)(float4 box, float one, SRC near, const struct nms_sorted_args *s)
{
    const FV high = fmin(box.z, LOADV(near, 2 * s->padded)) - fmax(box.x, LOADV(near, 0));
    const FV wide = fmin(box.w, LOADV(near, 3 * s->padded)) - fmax(box.y, LOADV(near, s->padded));
    const IV meet = (high > 0.0f) & (wide > 0.0f);
    if (!any(meet))
        return false;
    const FV two = LOADV(near, 4 * s->padded), both = high * wide, all = one + two - both;
    return any(meet & (two > 0.0f) & (all > 0.0f) & (both / all > s->nms.iou));
}

bool FN(hidden)(float4 box, SRC near, const struct FN(bins) *b, const struct nms_sorted_args *s)
{
    const float one = (box.z - box.x) * (box.w - box.y);
    if (!(one > 0.0f))
        return false;
    for (int i = 0, last = FN(bin_of)(box.z, b); i <= last; i++)
        if (b->end[i] > box.x)
            for (int c = b->last[i]; c >= 0; c = as_int(near[5 * s->padded + c]))
                if (FN(overlaps)(box, one, near + c * V, s))
                    return true;
    return false;
}

/* Boxes without an area hide none. */
void FN(keep)(float4 box, DST near, struct FN(bins) *b, const struct nms_sorted_args *s)
{
    const float of[] = {box.x, box.y, box.z, box.w, (box.z - box.x) * (box.w - box.y)};
    if (!(of[4] > 0.0f))
        return;
    const int bin = FN(bin_of)(box.x, b);
    if (b->used[bin] == V) {
        near[5 * s->padded + b->chunks] = as_float(b->last[bin]);
        for (int i = 0; i < 5; i++)
            STOREV((FV)0.0f, near, i * s->padded + b->chunks * V);
        b->last[bin] = b->chunks++;
        b->used[bin] = 0;
    }
    for (int i = 0; i < 5; i++)
        near[i * s->padded + b->last[bin] * V + b->used[bin]] = of[i];
    b->used[bin]++;
    b->end[bin] = fmax(b->end[bin], box.z);
}

void FN(select_body)(ulong group, SRC boxes, SRC scores, global ulong *order, DST near, DST_OF(long) kept,
                     DST_OF(long) counts, const struct nms_sorted_args *s)
{
    const struct nms_args *a = &s->nms;
    global ulong *const first = order + (long)group * 2 * a->boxes;
    DST mine = near + (long)group * 6 * s->padded;
    struct FN(bins) bins;
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
        FN(empty)(&bins, box, sorted, n);
        for (int r = 0; r < n && count < a->most; r++) {
            const int at = (int)(uint)sorted[r];
            const float4 corners = FN(corners)(box + (long)at * 4);
            if (!FN(hidden)(corners, mine, &bins, s)) {
                FN(keep)(corners, mine, &bins, s);
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
