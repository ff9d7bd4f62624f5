/* deform_conv_ref.cl: convolution whose taps are moved by offsets (Zhu et al., "Deformable ConvNets v2", 2019).
 *
 *   y[n][k][o] = b[k] + sum over c, t of w[k][c][t] * mask[n][m][o] * x[n][c](o * stride - pad + t * dil +
 *   offset[n][m][o])
 *
 * m counts the taps of the offset group of c. x between elements is blended linearly, and 0 outside.
 * Layouts: N,C,H,W with batch strides; struct deform_args. A row is one (n, k, h) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: BIAS, MASK (1: present; default 0), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) deform_conv_ref_##x
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef MASK
#define MASK 0
#endif

float FN(at)(SRC x, int h, int w, const struct deform_args *a)
{
    return h >= 0 && h < a->in[0] && w >= 0 && w < a->in[1] ? x[(long)h * a->in[1] + w] : 0.0f;
}

float FN(blend)(SRC x, float h, float w, const struct deform_args *a)
{
    const bool near = h > -1.0f && h < (float)a->in[0] && w > -1.0f && w < (float)a->in[1];
    const float h0 = near ? floor(h) : -2.0f, w0 = near ? floor(w) : -2.0f;
    const float dh = near ? h - h0 : 0.0f, dw = near ? w - w0 : 0.0f;
    const int i = (int)h0, j = (int)w0;
    return (FN(at)(x, i, j, a) * (1.0f - dw) + FN(at)(x, i, j + 1, a) * dw) * (1.0f - dh) +
           (FN(at)(x, i + 1, j, a) * (1.0f - dw) + FN(at)(x, i + 1, j + 1, a) * dw) * dh;
}

void FN(body)(ulong group, SRC x, SRC weights, SRC offset, SRC b, SRC mask, DST y, const struct deform_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[0]);
        TAKE_DIGIT(k, rest, a->k);
        const long n = rest, plane = (long)a->out[0] * a->out[1];
        const int cg = a->c / a->groups, from = (int)k / (a->k / a->groups) * cg, taps = a->ker[0] * a->ker[1];
        FOR_COLUMNS(ow, first, a->out[1])
        {
            const long pixel = oh * a->out[1] + ow;
            float sum = 0.0f;
            for (int c = 0; c < cg; c++) {
                const int m = (from + c) / (a->c / a->offset_groups) * taps;
                SRC xc = x + n * a->x_n + (long)(from + c) * a->in[0] * a->in[1];
                float some = 0.0f;
                for (int t = 0; t < taps; t++) {
                    SRC moved = offset + n * a->offset_n + 2 * (m + t) * plane + pixel;
                    const float h = (float)(oh * a->stride[0] - a->pad[0] + t / a->ker[1] * a->dil[0]) + moved[0];
                    const float w = (float)(ow * a->stride[1] - a->pad[1] + t % a->ker[1] * a->dil[1]) + moved[plane];
                    float v = FN(blend)(xc, h, w, a) * weights[k * a->w_k + (long)c * taps + t];
                    if (MASK)
                        v *= mask[n * a->mask_n + (m + t) * plane + pixel];
                    some += v;
                }
                sum += some;
            }
            y[n * a->y_n + k * plane + pixel] = BIAS ? sum + b[k] : sum;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC offset, ulong offset_off, SRC b, ulong b_off, SRC mask,
                ulong mask_off, DST y, ulong y_off, const struct deform_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, offset + offset_off, b + b_off, mask + mask_off, y + y_off, &a);
}
