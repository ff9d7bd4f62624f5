/* conv_filter_grad_ref.cl: the gradient of a convolution's filters by its definition; one work-item a weight.
 *
 *   dw[k][c][t] = sum over n, o of dy[n][k][o] * x[n][g*C/g + c][o*stride - pad + t*dil]; g is the group of k
 *
 * Sums are taken row by row and item by item, so that errors grow with these and not with all terms.
 * Layouts: x, dy NC(D)HW with batch strides; dw [K][C/groups][D][H][W]. Up to three spatial dimensions.
 * Work-group: WG weights in row-major order. Local memory: none.
 * Defines: VECTOR (1: sums of 16 columns side by side, what a CPU likes; default 0), WG (any). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/reduce.clh"
#ifndef FN
#define FN(x) conv_filter_grad_ref_##x
#endif

#ifndef VECTOR
#define VECTOR 0
#endif

RED_FOLD(FN(fold), red_sum)

/* Sum over a row of outputs, of which [first, past) have input. */
float FN(row)(SRC x, SRC dy, int first, int past, int stride)
{
    float sum = 0.0f;
    int o = first;
#if VECTOR
    float16 wide = (float16)(0.0f);
    for (; stride == 1 && o + 16 <= past; o += 16)
        wide = fma(vload16(0, dy + o), vload16(0, x + o), wide);
    sum = FN(fold)(wide);
#endif
    for (; o < past; o++)
        sum = fma(dy[o], x[o * stride], sum);
    return sum;
}

void FN(body)(ulong group, SRC x, SRC dy, DST dw, const struct conv_args *a)
{
    const int taps = a->ker[0] * a->ker[1] * a->ker[2], cg = a->c / a->groups;
    const long i = (long)group * WG + LANE;
    if (i < (long)a->k * cg * taps) {
        const int t = (int)(i % taps), c = (int)(i / taps % cg), k = (int)(i / taps / cg);
        const int at_d = t / (a->ker[1] * a->ker[2]) * a->dil[0] - a->pad[0];
        const int at_h = t / a->ker[2] % a->ker[1] * a->dil[1] - a->pad[1];
        const int at_w = t % a->ker[2] * a->dil[2] - a->pad[2], stride = a->stride[2];
        const int first = at_w < 0 ? (-at_w + stride - 1) / stride : 0;
        const int past = at_w < a->in[2] ? min(a->out[2], (a->in[2] - at_w + stride - 1) / stride) : 0;
        const long plane = (long)a->in[0] * a->in[1] * a->in[2], map = (long)a->out[0] * a->out[1] * a->out[2];
        SRC xc = x + (k / (a->k / a->groups) * cg + c) * plane;
        SRC yk = dy + k * map;
        float sum = 0.0f;
        for (int n = 0; n < a->n; n++) {
            float item = 0.0f;
            for (int od = 0; od < a->out[0]; od++) {
                const int id = od * a->stride[0] + at_d;
                for (int oh = 0; oh < a->out[1]; oh++) {
                    const int ih = oh * a->stride[1] + at_h;
                    if (id >= 0 && id < a->in[0] && ih >= 0 && ih < a->in[1])
                        item +=
                            FN(row)(xc + n * a->src_n + ((long)id * a->in[1] + ih) * a->in[2] + at_w,
                                    yk + n * a->dst_n + ((long)od * a->out[1] + oh) * a->out[2], first, past, stride);
                }
            }
            sum += item;
        }
        dw[k * a->w_k + (long)c * taps + t] = sum;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dw, ulong dw_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, dw + dw_off, &a);
}
