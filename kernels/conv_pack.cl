/* conv_pack.cl: filters of convolutions made contiguous per block, for the kernels that hold a block in
 * registers.
 *
 *   TAP_MAJOR 0: dst[b][c][t][j] = w[g*kg + i*block + j][c][t]
 *   TAP_MAJOR 1: dst[b][t][c][j] = the same
 *
 * with blocks per group nb = ceil(kg / block), b = g*nb + i, and zeros for filters beyond the group's kg.
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any), TAP_MAJOR 0 or 1. */
#include "clcnn.clh"
#include "args.h"
#ifndef FN
#define FN(x) conv_pack_##x
#endif
#ifndef TAP_MAJOR
#define TAP_MAJOR 0
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct conv_pack_args *a)
{
    const int blocks = (a->kg + a->block - 1) / a->block;
    const long each = (long)a->c * a->taps * a->block;
    const long i = (long)group * WG + LANE;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each);
        const int inner = (int)(i % each / a->block);
        const int k = b % blocks * a->block + (int)(i % a->block);
#if TAP_MAJOR
        const int c = inner % a->c, t = inner / a->c;
#else
        const int c = inner / a->taps, t = inner % a->taps;
#endif
        dst[i] = k < a->kg ? w[(b / blocks * a->kg + k) * a->w_k + (long)c * a->taps + t] : 0.0f;
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
