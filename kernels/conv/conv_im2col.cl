/* conv_im2col.cl: the windows of a chunk of images as the columns of a matrix, and the way back from the
 * product.
 *
 *   columns: m[c*taps + t][n*map + p] = x[n][c][p*stride - pad + t*dil]      (zero outside of the image)
 *   finish:  y[n][k][p] = act( product[k][n*map + p] + bias[k] + add[n][k][p] )
 *
 * p counts the outputs of an image (map = D*H*W of them), t the taps, both in row-major order.
 * Layouts: x, y, add NC(D)HW with batch strides; m [C*taps][N*map], product [K][N*map].
 * Index map: group = row of the matrix * ceil(N*map / WG) + piece of it. Work-group: WG neighbours along the
 * row.
 * Local memory: none.
 * Defines: WG (any); finish also EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_im2col_##x
#endif

void FN(columns_body)(ulong group, SRC x, DST m, const struct conv_args *a)
{
    const int map = a->out[0] * a->out[1] * a->out[2];
    const long width = (long)a->n * map, pieces = (width + WG - 1) / WG;
    const int row = (int)(group / pieces);
    const long col = (long)(group % pieces) * WG + LANE;
    if (col < width) {
        const int n = (int)(col / map), p = (int)(col % map);
        const int tw = row % a->ker[2], th = row / a->ker[2] % a->ker[1];
        const int td = row / (a->ker[2] * a->ker[1]) % a->ker[0], c = row / (a->ker[2] * a->ker[1] * a->ker[0]);
        const int iw = p % a->out[2] * a->stride[2] - a->pad[2] + tw * a->dil[2];
        const int ih = p / a->out[2] % a->out[1] * a->stride[1] - a->pad[1] + th * a->dil[1];
        const int id = p / (a->out[2] * a->out[1]) * a->stride[0] - a->pad[0] + td * a->dil[0];
        float v = 0.0f;
        if (id >= 0 && id < a->in[0] && ih >= 0 && ih < a->in[1] && iw >= 0 && iw < a->in[2])
            v = x[n * a->src_n + (((long)c * a->in[0] + id) * a->in[1] + ih) * a->in[2] + iw];
        m[row * width + col] = v;
    }
}

KERNEL FN(columns)(SRC x, ulong x_off, DST m, ulong m_off, const struct conv_args a)
{
    FN(columns_body)(GROUP, x + x_off, m + m_off, &a);
}

void FN(finish_body)(ulong group, SRC product, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int map = a->out[0] * a->out[1] * a->out[2];
    const long width = (long)a->n * map, pieces = (width + WG - 1) / WG;
    const int k = (int)(group / pieces);
    const long col = (long)(group % pieces) * WG + LANE;
    if (col < width) {
        const int n = (int)(col / map);
        const long i = (long)k * map + col % map;
        y[n * a->dst_n + i] = EPILOGUE(product[k * width + col], bias, k, add, n * a->add_n + i, a);
    }
}

KERNEL FN(finish)(SRC product, ulong product_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                  const struct conv_args a)
{
    FN(finish_body)(GROUP, product + product_off, bias + bias_off, add + add_off, y + y_off, &a);
}
