/* conv_pack.cl: filters of convolutions made contiguous per block, for the kernels that hold a block in
 * registers.
 *
 *   dst[b][cb][t][cc][j] = w[g*kg + i*block + j - g*kg % lanes][cb*c_block + cc - g*c % lanes][t]
 *
 * with k_blocks blocks in a group, b = g*k_blocks + i, and zeros for filters and channels outside of the group. c_block
 * 1 puts the taps of a channel side by side, c_block = c the channels of a tap. lanes is 1, or that of the channel
 * blocks whose lanes the filters and channels of a group keep. With `turned`, w [C][K/groups][taps] is that of a
 * transposed convolution at stride 1: its channels and filters are exchanged, and taps come from the last to the first.
 * Work-group: WG rows of `block` elements of dst, so that divisions are a row's; taps change fastest, as in w, whose
 * lines are read once so. Local memory: none. Defines: WG (any),
 * POINTS (conv_weight.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#ifndef FN
#define FN(x) conv_pack_##x
#endif
#include "conv/conv_weight.clh"

void FN(body)(ulong group, SRC w, DST dst, const struct conv_pack_args *a)
{
    const uint inside = (uint)a->c_blocks * (uint)(a->taps * a->c_block);
    const ulong row = group * WG + LANE;
    if (row < (ulong)inside * (uint)(a->k_blocks * a->groups)) {
        const int b = (int)(row / inside), inner = (int)(row % inside), at = inner / a->taps;
        const int g = b / a->k_blocks, t = inner % a->taps, c = at - g * a->c % a->lanes;
        const ulong to = (ulong)b * inside + (at / a->c_block * a->taps + t) * a->c_block + at % a->c_block;
        const int first = b % a->k_blocks * a->block - g * a->kg % a->lanes;
        const int left = c >= 0 && c < a->c ? a->kg - first : 0;
        DST out = dst + to * (uint)a->block;
        if (a->turned) {
            int j = 0, end = min(a->block, left);
            for (; j < -first; j++)
                out[j] = 0.0f;
            while (j < end) { /* filters of one group of w */
                const int k = g * a->kg + first + j, own = k % a->turned, past = min(end, j + a->turned - own);
                SRC from = w + ((long)(k / a->turned) * a->c + c) * a->w_k + (long)own * a->taps + (a->taps - 1 - t);
                for (; j < past; j++, from += a->taps)
                    out[j] = *from;
            }
            for (; j < a->block; j++)
                out[j] = 0.0f;
        } else {
            for (int j = 0; j < a->block; j++)
                out[j] = j < left && first + j >= 0
                             ? FN(weight)(w, g, first + j, c, t, a->kg, a->taps, a->groups, a->w_k)
                             : 0.0f;
        }
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
