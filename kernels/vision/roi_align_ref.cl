/* roi_align_ref.cl: regions of interest, sampled between elements into bins (He et al., "Mask R-CNN", 2017).
 *
 *   y[r][c][o] = mean of x[batch_indices[r]][c] over a grid of samples in bin o of region r
 *
 * A sample is blended from the four elements around; beyond one element outside it is 0. With MOST a bin gives the
 * largest of the four weighted elements of any sample, as ONNX defines it.
 * Layouts: N,C,H,W with batch strides; struct roi_args. A row is one (region, c, height) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: MOST (0, the default, or 1), I (type of batch_indices: long, the default, or int), WG, LANES, ELEMS, RUNS,
 * INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) roi_align_ref_##x
#endif
#include "vision/roi_align.clh"
#ifndef MOST
#define MOST 0
#endif
#ifndef I
#define I long
#endif

/* The four weighted elements around a sample. */
float4 FN(sample)(SRC x, float h, float w, const struct roi_args *a)
{
    const int height = a->in[0], width = a->in[1];
    float4 v = (float4)(0.0f);
    if (h >= -1.0f && h <= (float)height && w >= -1.0f && w <= (float)width) {
        h = fmax(h, 0.0f);
        w = fmax(w, 0.0f);
        const int h0 = min((int)h, height - 1), w0 = min((int)w, width - 1);
        const int h1 = min(h0 + 1, height - 1), w1 = min(w0 + 1, width - 1);
        const float dh = h0 == height - 1 ? 0.0f : h - (float)h0, dw = w0 == width - 1 ? 0.0f : w - (float)w0;
        v = (float4)((1.0f - dh) * (1.0f - dw) * x[(long)h0 * width + w0], (1.0f - dh) * dw * x[(long)h0 * width + w1],
                     dh * (1.0f - dw) * x[(long)h1 * width + w0], dh * dw * x[(long)h1 * width + w1]);
    }
    return v;
}

/* The larger one; NaN wins. */
float FN(larger)(float a, float b)
{
    return a > b || isnan(a) ? a : b;
}

void FN(body)(ulong group, SRC x, SRC rois, SRC_OF(I) batch_indices, DST y, const struct roi_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long r = rest, item = batch_indices[r];
        SRC roi = rois + r * a->roi_n;
        const float w0 = roi[0] * a->scale - a->offset, h0 = roi[1] * a->scale - a->offset;
        float wide = roi[2] * a->scale - a->offset - w0, high = roi[3] * a->scale - a->offset - h0;
        wide = a->least ? fmax(wide, 1.0f) : wide;
        high = a->least ? fmax(high, 1.0f) : high;
        const float bin_h = high / (float)a->out[0], bin_w = wide / (float)a->out[1];
        const int many_h = FN(samples_of)(bin_h, a), many_w = FN(samples_of)(bin_w, a);
        const bool known = item >= 0 && item < a->n;
        SRC xc = x + (known ? item * a->x_n : 0) + c * a->in[0] * a->in[1];
        FOR_COLUMNS(ow, first, a->out[1])
        {
            float all = known ? 0.0f : NAN;
            bool seen = false;
            for (int i = 0; known && i < many_h; i++)
                for (int j = 0; j < many_w; j++) {
                    const float h = h0 + (float)oh * bin_h + ((float)i + 0.5f) * bin_h / (float)many_h;
                    const float w = w0 + (float)ow * bin_w + ((float)j + 0.5f) * bin_w / (float)many_w;
                    const float4 v = FN(sample)(xc, h, w, a);
                    const float most = FN(larger)(FN(larger)(v.x, v.y), FN(larger)(v.z, v.w));
                    all = !MOST ? all + ((v.x + v.y) + (v.z + v.w)) : seen ? FN(larger)(all, most) : most;
                    seen = true;
                }
            if (!MOST)
                all /= fmax((float)many_h * (float)many_w, 1.0f);
            y[r * a->y_n + (c * a->out[0] + oh) * a->out[1] + ow] = all;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC rois, ulong rois_off, SRC_OF(I) batch_indices, ulong batch_indices_off, DST y,
                ulong y_off, const struct roi_args a)
{
    FN(body)(GROUP, x + x_off, rois + rois_off, batch_indices + batch_indices_off, y + y_off, &a);
}
