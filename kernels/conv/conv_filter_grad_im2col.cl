/* conv_filter_grad_im2col.cl: the windows of images as the columns of a matrix, a line of outputs at a time, which is
 * what CPUs like; conv_im2col.cl does it element by element.
 *
 *   m[c*taps + t][n*map + p] = x[n][c][p*stride - pad + t*dil]      (zero outside of the image)
 *
 * Layouts: x NC(D)HW with a batch stride; m [C*taps][N*map].
 * Work-group: WG lines (c, t, n, depth, height) in row-major order, each a work-item's. Local memory: none.
 * Defines: WG (any). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_im2col_##x
#endif

void FN(body)(ulong group, SRC x, DST m, const struct conv_args *a)
{
    const int taps = a->ker[0] * a->ker[1] * a->ker[2], width = a->out[2], stride = a->stride[2];
    const long lines = (long)a->n * a->out[0] * a->out[1], i = (long)group * WG + LANE;
    if (i < lines * a->c * taps) {
        const int t = (int)(i / lines % taps), c = (int)(i / lines / taps);
        const int oh = (int)(i % a->out[1]), od = (int)(i / a->out[1] % a->out[0]);
        const int n = (int)(i % lines / ((long)a->out[1] * a->out[0]));
        const int id = od * a->stride[0] - a->pad[0] + t / (a->ker[1] * a->ker[2]) * a->dil[0];
        const int ih = oh * a->stride[1] - a->pad[1] + t / a->ker[2] % a->ker[1] * a->dil[1];
        const int at = t % a->ker[2] * a->dil[2] - a->pad[2];
        const bool inside = id >= 0 && id < a->in[0] && ih >= 0 && ih < a->in[1] && at < a->in[2];
        const int first = inside ? min(width, at < 0 ? (-at + stride - 1) / stride : 0) : width;
        const int past = inside ? max(first, min(width, (a->in[2] - at + stride - 1) / stride)) : width;
        SRC row = x + n * a->src_n + (((long)c * a->in[0] + id) * a->in[1] + ih) * a->in[2] + at;
        DST line = m + i * width;
        for (int o = 0; o < first; o++)
            line[o] = 0.0f;
        if (stride == 1) {
            int o = first;
            for (; o + 16 <= past; o += 16)
                vstore16(vload16(0, row + o), 0, line + o);
            for (; o < past; o++)
                line[o] = row[o];
        } else {
            for (int o = first; o < past; o++)
                line[o] = row[o * stride];
        }
        for (int o = past; o < width; o++)
            line[o] = 0.0f;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST m, ulong m_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, m + m_off, &a);
}
