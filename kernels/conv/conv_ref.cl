/* conv_ref.cl: convolution by its definition; one work-item an output element. The reference of every other
 * algorithm.
 *
 *   y[n][k][o] = act( sum_{c, t} x[n][g*C/g + c][o*stride - pad + t*dil] * w[k][c][t]
 *                     + bias[k] + add[n][k][o] )
 *
 * Layouts: x, y, add NC(D)HW with batch strides; w [K][C/groups][D][H][W]. Up to three spatial dimensions.
 * Work-group: WG outputs in row-major order of (n, k, d, h, w). Local memory: none.
 * Defines: WG (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_ref_##x
#endif

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const long item = (long)a->k * a->out[0] * a->out[1] * a->out[2];
    const long i = (long)group * WG + LANE;
    if (i < item * a->n) {
        const int n = (int)(i / item);
        long rest = i - n * item;
        const long inner = rest;
        const int ow = (int)(rest % a->out[2]);
        rest /= a->out[2];
        const int oh = (int)(rest % a->out[1]);
        rest /= a->out[1];
        const int od = (int)(rest % a->out[0]);
        const int k = (int)(rest / a->out[0]);
        const int cg = a->c / a->groups;
        const int g = k / (a->k / a->groups);
        const long plane = (long)a->in[0] * a->in[1] * a->in[2];
        float sum = 0.0f;
        for (int c = 0; c < cg; c++) {
            SRC xc = x + n * a->src_n + (g * cg + c) * plane;
            SRC wc = w + k * a->w_k + (long)c * a->ker[0] * a->ker[1] * a->ker[2];
            for (int td = 0; td < a->ker[0]; td++) {
                const int id = od * a->stride[0] - a->pad[0] + td * a->dil[0];
                for (int th = 0; th < a->ker[1]; th++) {
                    const int ih = oh * a->stride[1] - a->pad[1] + th * a->dil[1];
                    for (int tw = 0; tw < a->ker[2]; tw++) {
                        const int iw = ow * a->stride[2] - a->pad[2] + tw * a->dil[2];
                        if (id >= 0 && id < a->in[0] && ih >= 0 && ih < a->in[1] && iw >= 0 && iw < a->in[2])
                            sum = fma(xc[((long)id * a->in[1] + ih) * a->in[2] + iw],
                                      wc[(td * a->ker[1] + th) * a->ker[2] + tw], sum);
                    }
                }
            }
        }
        y[n * a->dst_n + inner] = EPILOGUE(sum, bias, k, add, n * a->add_n + inner, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
