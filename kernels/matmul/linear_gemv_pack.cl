/* linear_gemv_pack.cl: the weights of linear layers as halves, for linear_gemv.cl.
 *
 *   dst[n][k] = w[n][k], rows of `pitch` halves, zeros from the k-th on
 *
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#ifndef FN
#define FN(x) linear_gemv_pack_##x
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct linear_pack_args *a)
{
    const long i = (long)group * WG + LANE, n = i / a->pitch, k = i % a->pitch;
    if (n < a->n)
        vstore_half_rte(k < a->k ? w[n * a->w_n + k] : 0.0f, i, (global half *)dst);
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct linear_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
