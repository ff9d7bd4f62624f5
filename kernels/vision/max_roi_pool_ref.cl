/* max_roi_pool_ref.cl: maxima of the bins of regions of interest (Girshick, "Fast R-CNN", 2015).
 *
 * A region's corners are rounded to elements (halves away from zero), both included; bin o of n covers the elements
 * from floor(o * size / n) to ceil((o + 1) * size / n) - 1 of it. An empty bin gives 0, NaN wins.
 * Layouts: N,C,H,W with batch strides; struct roi_args. A row is one (region, c, height) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) max_roi_pool_ref_##x
#endif

/* Elements of bin o of `bins`, from a region of `size` that begins at `from`: the first, and one past the last. */
int2 FN(bin)(int o, int bins, int from, int size, int limit)
{
    /* in integers: a quotient of floats is rounded in other ways on other devices */
    const long begin = (long)o * size / bins, end = ((long)(o + 1) * size + bins - 1) / bins;
    /* element by element: Oclgrind mistakes limits that are no vectors */
    return (int2)((int)clamp(from + begin, 0L, (long)limit), (int)clamp(from + end, 0L, (long)limit));
}

void FN(body)(ulong group, SRC x, SRC rois, DST y, const struct roi_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long r = rest;
        SRC roi = rois + r * a->roi_n;
        const int item = convert_int_sat(roi[0]);
        const int w0 = convert_int_sat(round(roi[1] * a->scale)), h0 = convert_int_sat(round(roi[2] * a->scale));
        const int w1 = convert_int_sat(round(roi[3] * a->scale)), h1 = convert_int_sat(round(roi[4] * a->scale));
        const int2 h = FN(bin)((int)oh, a->out[0], h0, max(h1 - h0 + 1, 1), a->in[0]);
        const bool known = item >= 0 && item < a->n;
        SRC xc = x + (known ? item * a->x_n : 0) + c * a->in[0] * a->in[1];
        FOR_COLUMNS(ow, first, a->out[1])
        {
            const int2 w = FN(bin)((int)ow, a->out[1], w0, max(w1 - w0 + 1, 1), a->in[1]);
            float most = !known ? NAN : h.x < h.y && w.x < w.y ? -INFINITY : 0.0f;
            for (int i = h.x; known && i < h.y; i++)
                for (int j = w.x; j < w.y; j++) {
                    const float v = xc[(long)i * a->in[1] + j];
                    most = v > most || isnan(v) ? v : most;
                }
            y[r * a->y_n + (c * a->out[0] + oh) * a->out[1] + ow] = most;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC rois, ulong rois_off, DST y, ulong y_off, const struct roi_args a)
{
    FN(body)(GROUP, x + x_off, rois + rois_off, y + y_off, &a);
}
