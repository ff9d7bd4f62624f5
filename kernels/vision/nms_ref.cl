/* nms_ref.cl: boxes without those that overlap better ones of their class.
 *
 * select: a work-item a pair of item and class takes boxes by score (equal ones by index) and keeps those that overlap
 *         none of the kept ones by more than `iou`, until there are `most`; only scores above `score` count, NaN does
 *         not
 * write:  the lists one after the other as rows (item, class, box), -1 in the rows behind, and the number of rows
 * Layouts: boxes[B][N][4], scores[B][C][N] with batch strides; kept[lists][most], counts[lists]; struct nms_args.
 * Work-group: WG work-items, one a pair of item and class. Local memory: none.
 * Defines: CENTER (boxes.clh), WG. */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) nms_ref_##x
#endif
#include "vision/boxes.clh"

void FN(select_body)(ulong group, SRC boxes, SRC scores, DST_OF(long) kept, DST_OF(long) counts,
                     const struct nms_args *a)
{
    const long list = (long)group * WG + LANE;
    if (list < a->lists) {
        const long item = list / a->classes;
        SRC score = scores + item * a->scores_n + list % a->classes * a->boxes;
        SRC box = boxes + item * a->boxes_n;
        int count = 0, last = -1;
        bool more = true;
        while (more && count < a->most) {
            int best = -1;
            for (int i = 0; i < a->boxes; i++) {
                const bool after = last < 0 || score[i] < score[last] || (score[i] == score[last] && i > last);
                if (score[i] > a->score && after && (best < 0 || score[i] > score[best]))
                    best = i;
            }
            more = best >= 0;
            last = best;
            bool free = more;
            for (int k = 0; k < count && free; k++)
                free =
                    !FN(overlap)(FN(corners)(box + best * 4), FN(corners)(box + kept[list * a->most + k] * 4), a->iou);
            if (free)
                kept[list * a->most + count++] = best;
        }
        counts[list] = count;
    }
}

void FN(write_body)(ulong group, SRC_OF(long) kept, SRC_OF(long) counts, DST_OF(long) rows, DST_OF(long) total,
                    const struct nms_args *a)
{
    const long list = (long)group * WG + LANE;
    if (list < a->lists) {
        long before = 0, all = 0;
        for (int i = 0; i < a->lists; i++) {
            before += i < list ? counts[i] : 0;
            all += counts[i];
        }
        for (long k = 0; k < counts[list]; k++) {
            DST_OF(long) row = rows + (before + k) * a->row_n;
            row[0] = list / a->classes;
            row[1] = list % a->classes;
            row[2] = kept[list * a->most + k];
        }
        for (long r = max(list * a->most, all); r < (list + 1) * a->most; r++)
            for (int i = 0; i < 3; i++)
                rows[r * a->row_n + i] = -1;
        if (list == 0)
            total[0] = all;
    }
}

KERNEL FN(select)(SRC boxes, ulong boxes_off, SRC scores, ulong scores_off, DST_OF(long) kept, ulong kept_off,
                  DST_OF(long) counts, ulong counts_off, const struct nms_args a)
{
    FN(select_body)(GROUP, boxes + boxes_off, scores + scores_off, kept + kept_off, counts + counts_off, &a);
}

KERNEL FN(write)(SRC_OF(long) kept, ulong kept_off, SRC_OF(long) counts, ulong counts_off, DST_OF(long) rows,
                 ulong rows_off, DST_OF(long) total, ulong total_off, const struct nms_args a)
{
    FN(write_body)(GROUP, kept + kept_off, counts + counts_off, rows + rows_off, total + total_off, &a);
}
