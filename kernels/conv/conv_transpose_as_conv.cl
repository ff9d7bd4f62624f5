/* conv_transpose_as_conv.cl: filters of a transposed convolution as those of the convolution that it is at stride 1.
 *
 *   dst[g*K/g + k][c][t] = w[g*C/g + c][k][taps - 1 - t]
 *
 * Layouts: w [C][K/groups][D][H][W], its first stride a->w_k; dst dense [K][C/groups][D][H][W].
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#ifndef FN
#define FN(x) conv_transpose_as_conv_##x
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct conv_args *a)
{
    const uint taps = (uint)(a->ker[0] * a->ker[1] * a->ker[2]), cg = (uint)(a->c / a->groups);
    const uint kg = (uint)(a->k / a->groups);
    const ulong i = group * WG + LANE;
    if (i < (ulong)a->k * cg * taps) {
        const ulong row = i / taps;
        const uint t = (uint)(i - row * taps), k = (uint)(row / cg), c = (uint)(row - (ulong)k * cg), g = k / kg;
        dst[i] = w[(long)(g * cg + c) * a->w_k + (long)(k - g * kg) * taps + (taps - 1 - t)];
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
