/* lp_pool_blocked.cl: 2-norm of windows of maps with channels in blocks, for CPU devices.
 *
 *   y[n][c][o] = sqrt(sum over t of x[n][c][o * stride - pad + t * dil]^2), taps outside left out
 *
 * Layouts: x, y [ceil(C/V)][H][W][V] with batch strides; lanes of x past C are zeros, and so are those of y.
 * Index map: group = (n * blocks + block) * H_out + row of y.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) lp_pool_blocked_##x
#endif

/* The window whose first tap is (h, w); a row by itself: short sums keep the error small. */
FV FN(squares)(SRC x, int h, int w, const struct pool_args *a)
{
    FV all = 0.0f;
    for (int r = 0; r < a->ker[1]; r++, h += a->dil[1]) {
        SRC row = x + (long)h * a->in[2] * V;
        FV part = 0.0f;
        for (int s = 0; s < a->ker[2] && h >= 0 && h < a->in[1]; s++) {
            const int at = w + s * a->dil[2];
            if (at >= 0 && at < a->in[2]) {
                const FV v = LOADV(row, (long)at * V);
                part += v * v;
            }
        }
        all += part;
    }
    return all;
}

void FN(body)(ulong group, SRC x, DST y, const struct pool_args *a)
{
    const int blocks = (a->c + V - 1) / V, oh = (int)(group % a->out[1]);
    const long plane = (long)(group / a->out[1]), n = plane / blocks, block = plane % blocks;
    SRC xb = x + n * a->x_n + block * a->in[1] * a->in[2] * V;
    DST yr = y + n * a->y_n + (block * a->out[1] + oh) * a->out[2] * V;
    for (int ow = 0; ow < a->out[2]; ow++) {
        const FV all = FN(squares)(xb, oh * a->stride[1] - a->pad[1], ow * a->stride[2] - a->pad[2], a);
        STOREV(sqrt(all), yr, ow * V);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
