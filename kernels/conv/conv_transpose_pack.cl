/* conv_transpose_pack.cl: filters of transposed convolutions made contiguous per block, for the kernels that hold a
 * block in registers.
 *
 *   dst[b][t][cc][j] = w[g*C + cc][i*block + j][t]
 *
 * with C channels a group, blocks per group nb = ceil(kg / block), b = g*nb + i, and zeros for filters beyond the
 * group's kg and for channels from C to c_block.
 * Work-group: WG rows of `block` elements of dst. Local memory: none. Defines: WG (any). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#ifndef FN
#define FN(x) conv_transpose_pack_##x
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct conv_pack_args *a)
{
    const int blocks = (a->kg + a->block - 1) / a->block;
    const uint inside = (uint)(a->taps * a->c_block);
    const ulong row = group * WG + LANE;
    if (row < (ulong)inside * (uint)(blocks * a->groups)) {
        const int b = (int)(row / inside), inner = (int)(row % inside);
        const int c = inner % a->c_block, t = inner / a->c_block;
        const int first = b % blocks * a->block, left = c < a->c ? a->kg - first : 0;
        SRC from = w + ((long)(b / blocks) * a->c + c) * a->w_k + (long)first * a->taps + t;
        DST out = dst + row * (uint)a->block;
        for (int j = 0; j < a->block; j++)
            out[j] = j < left ? from[(long)j * a->taps] : 0.0f;
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
