/* nms_masks.cl: boxes without those that overlap better ones of their class, in slabs of boxes whose overlaps are bits;
 * for GPUs.
 *
 * rank:  every box finds its place by score (equal ones by index, NaN last): order[list][place] = box,
 *        near[list][place] = its corners, alive[list][place] = whether its score is above `score`
 * pairs: of the boxes of a slab, masks[list][i][w] bit b = whether box i overlaps box j = 32 w + b, for j > i
 * scan:  a group goes through the slab in order: a box that is alive is kept, until there are `most`, and those of its
 *        bits are dead; fresh[list] = how many were kept, and their places
 * clear: boxes behind the slab that overlap one of these are dead
 * The bits are those of torchvision's GPU kernel, which has them of all boxes at once.
 * Layouts: boxes[B][N][4], scores[B][C][N] with batch strides; order, near and alive[lists][N]; masks[lists][slab]
 * [slab / 32]; fresh[lists][1 + slab]; kept[lists][most], counts[lists], as nms_ref.cl writes them out.
 * Index map: rank: item = list * N + box; pairs: item = (list * slab / 32 + w) * slab + i; scan: group = list; clear:
 * item = list * (boxes behind the slab) + box. Work-group: WG, at least 32. Local memory: scan: MOST_WORDS + 33 words.
 * Defines: CENTER (boxes.clh), WG. */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) nms_masks_##x
#endif
#include "vision/boxes.clh"
#define MOST_WORDS (NMS_MOST_SLAB / 32)

void FN(rank_body)(ulong group, SRC boxes, SRC scores, DST_OF(int) order, DST near, DST_OF(int) alive,
                   const struct nms_args *a)
{
    const long item = (long)(group * WG) + LANE, list = item / a->boxes, image = list / a->classes;
    const int mine = (int)(item - list * a->boxes);
    if (list < a->lists) {
        SRC score = scores + image * a->scores_n + list % a->classes * a->boxes;
        const float own = score[mine];
        const bool number = own == own;
        int place = 0;
#pragma unroll 8
        for (int i = 0; i < a->boxes; i++) {
            const float other = score[i];
            const bool equal = number ? other == own : other != other;
            place += other > own || (!number && other == other) || (equal && i < mine);
        }
        const long at = list * a->boxes + place;
        order[at] = mine;
        alive[at] = own > a->score;
        ((global float4 *)near)[at] = FN(corners)(boxes + image * a->boxes_n + (long)mine * 4);
    }
}

void FN(pairs_body)(ulong group, SRC near, SRC_OF(int) alive, DST_OF(uint) masks, const struct nms_masks_args *m)
{
    const struct nms_args *a = &m->nms;
    const int words = m->slab / 32;
    const long item = (long)(group * WG) + LANE, row = item / m->slab, list = row / words;
    const int i = (int)(item - row * m->slab), w = (int)(row - list * words);
    const long base = list * a->boxes + m->first;
    if (list < a->lists && w >= i / 32 && m->first + i < a->boxes && alive[base + i]) {
        const global float4 *box = (const global float4 *)near + base;
        const float4 own = box[i];
        const int last = a->boxes - m->first - 1;
        uint bits = 0;
#pragma unroll 8
        for (int b = 0; b < 32; b++)
            bits |= (uint)(w * 32 + b > i && FN(overlap)(box[min(w * 32 + b, last)], own, a->iou)) << b;
        masks[(list * m->slab + i) * words + w] = bits;
    }
}

void FN(scan_body)(ulong group, SRC_OF(int) order, SRC_OF(int) alive, SRC_OF(uint) masks, DST_OF(int) fresh,
                   DST_OF(long) kept, DST_OF(long) counts, const struct nms_masks_args *m, local float4 *scratch)
{
    local uint *dead = (local uint *)scratch, *own = dead + MOST_WORDS, *chosen = own + 32;
    const struct nms_args *a = &m->nms;
    const long list = (long)group, base = list * a->boxes + m->first;
    const int words = m->slab / 32, before = m->first > 0 ? (int)counts[list] : 0;
    SRC_OF(uint) rows = masks + list * m->slab * words;
    DST_OF(int) mine = fresh + list * (1 + m->slab);
    int found = 0;
    for (int w = LANE; w < words; w += WG) {
        uint bits = 0;
        for (int b = 0; b < 32; b++) {
            const int i = w * 32 + b;
            bits |= (uint)(m->first + i >= a->boxes || !alive[base + min(i, a->boxes - m->first - 1)]) << b;
        }
        dead[w] = bits;
    }
    for (int k = 0; k < words; k++) {
        if (LANE < 32)
            own[LANE] = rows[(long)(k * 32 + LANE) * words + k];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (LANE == 0) {
            uint bits = dead[k], keep = 0;
            int room = a->most - before - found;
            for (int b = 0; b < 32; b++)
                if (!(bits >> b & 1) && room > 0) {
                    keep |= 1u << b;
                    bits |= own[b];
                    room--;
                }
            *chosen = keep;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint keep = *chosen;
        for (int w = k + 1 + LANE; keep != 0 && w < words; w += WG) {
            uint bits = dead[w];
            for (int b = 0; b < 32; b++)
                if (keep >> b & 1)
                    bits |= rows[(long)(k * 32 + b) * words + w];
            dead[w] = bits;
        }
        if (LANE < 32 && (keep >> LANE & 1)) {
            const int place = found + (int)popcount(keep & ((1u << LANE) - 1));
            mine[1 + place] = m->first + k * 32 + LANE;
            kept[list * a->most + before + place] = order[base + k * 32 + LANE];
        }
        found += (int)popcount(keep);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (LANE == 0) {
        mine[0] = found;
        counts[list] = before + found;
    }
}

void FN(clear_body)(ulong group, SRC near, SRC_OF(int) fresh, DST_OF(int) alive, const struct nms_masks_args *m)
{
    const struct nms_args *a = &m->nms;
    const int behind = m->first + m->slab, rest = a->boxes - behind;
    const long item = (long)(group * WG) + LANE, list = item / rest;
    const long base = list * a->boxes;
    const int i = behind + (int)(item - list * rest);
    if (list < a->lists && alive[base + i]) {
        const global float4 *box = (const global float4 *)near + base;
        SRC_OF(int) mine = fresh + list * (1 + m->slab);
        const float4 own = box[i];
        const int count = mine[0];
        bool over = false;
#pragma unroll 8
        for (int k = 0; k < count; k++)
            over = over | FN(overlap)(own, box[mine[1 + k]], a->iou);
        alive[base + i] = !over;
    }
}

KERNEL FN(rank)(SRC boxes, ulong boxes_off, SRC scores, ulong scores_off, DST_OF(int) order, ulong order_off, DST near,
                ulong near_off, DST_OF(int) alive, ulong alive_off, const struct nms_args a)
{
    FN(rank_body)(GROUP, boxes + boxes_off, scores + scores_off, order + order_off, near + near_off, alive + alive_off,
                  &a);
}

KERNEL FN(pairs)(SRC near, ulong near_off, SRC_OF(int) alive, ulong alive_off, DST_OF(uint) masks, ulong masks_off,
                 const struct nms_masks_args a)
{
    FN(pairs_body)(GROUP, near + near_off, alive + alive_off, masks + masks_off, &a);
}

KERNEL FN(scan)(SRC_OF(int) order, ulong order_off, SRC_OF(int) alive, ulong alive_off, SRC_OF(uint) masks,
                ulong masks_off, DST_OF(int) fresh, ulong fresh_off, DST_OF(long) kept, ulong kept_off,
                DST_OF(long) counts, ulong counts_off, const struct nms_masks_args a)
{
    local float4 scratch[(MOST_WORDS + 32 + 1 + 3) / 4];
    FN(scan_body)(GROUP, order + order_off, alive + alive_off, masks + masks_off, fresh + fresh_off, kept + kept_off,
                  counts + counts_off, &a, scratch);
}

KERNEL FN(clear)(SRC near, ulong near_off, SRC_OF(int) fresh, ulong fresh_off, DST_OF(int) alive, ulong alive_off,
                 const struct nms_masks_args a)
{
    FN(clear_body)(GROUP, near + near_off, fresh + fresh_off, alive + alive_off, &a);
}
