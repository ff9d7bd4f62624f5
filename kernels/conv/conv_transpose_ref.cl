/* conv_transpose_ref.cl: transposed convolution in its gathering form; one work-item an output element.
 *
 *   y[n][k][o] = act( sum_{c, t} x[n][g*C/g + c][i] * w[g*C/g + c][k - g*K/g][t] + bias[k] + add[n][k][o] )
 *
 * over the taps t for which o + pad - t*dil = i*stride with i inside of the image; g is the group of k.
 * Layouts: x, y, add NC(D)HW with batch strides; w [C][K/groups][D][H][W]. Up to three spatial dimensions.
 * Work-group: WG outputs in row-major order of (n, k, d, h, w). Local memory: none.
 * Defines: WG (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_transpose_ref_##x
#endif

/* The input coordinate that tap t of dimension d brings to output o, or -1. */
int FN(source)(int o, int t, int d, const struct conv_args *a)
{
    const int at = o + a->pad[d] - t * a->dil[d];
    return at >= 0 && at % a->stride[d] == 0 && at / a->stride[d] < a->in[d] ? at / a->stride[d] : -1;
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const long map = (long)a->out[0] * a->out[1] * a->out[2];
    const long i = (long)group * WG + LANE;
    if (i < map * a->k * a->n) {
        const int ow = (int)(i % a->out[2]), oh = (int)(i / a->out[2] % a->out[1]);
        const int od = (int)(i % map / ((long)a->out[2] * a->out[1]));
        const int k = (int)(i / map % a->k), n = (int)(i / map / a->k);
        const int cg = a->c / a->groups, kg = a->k / a->groups, g = k / kg;
        const long plane = (long)a->in[0] * a->in[1] * a->in[2];
        const int taps = a->ker[0] * a->ker[1] * a->ker[2];
        float sum = 0.0f;
        for (int td = 0; td < a->ker[0]; td++) {
            const int id = FN(source)(od, td, 0, a);
            for (int th = 0; th < a->ker[1]; th++) {
                const int ih = FN(source)(oh, th, 1, a);
                for (int tw = 0; tw < a->ker[2]; tw++) {
                    const int iw = FN(source)(ow, tw, 2, a);
                    if (id >= 0 && ih >= 0 && iw >= 0) {
                        SRC xp = x + n * a->src_n + g * cg * plane + ((long)id * a->in[1] + ih) * a->in[2] + iw;
                        SRC wp = w + g * cg * a->w_k + (long)(k % kg) * taps + (td * a->ker[1] + th) * a->ker[2] + tw;
                        for (int c = 0; c < cg; c++)
                            sum = fma(xp[c * plane], wp[c * a->w_k], sum);
                    }
                }
            }
        }
        const long inner = k * map + i % map;
        y[n * a->dst_n + inner] = EPILOGUE(sum, bias, k, add, n * a->add_n + inner, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
