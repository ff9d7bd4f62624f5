/* gemm_ref.cl: matrix products by their definition (gemm_operands.clh), one work-item an output element. The
 * reference of linear, matmul and gemm.
 *
 * Layouts: any strides of a and b; c has strides too (0: broadcast); y rows y_m apart, dense along n.
 * Work-group: WG outputs in row-major order of (batch, m, n). Local memory: none.
 * Defines: WG (any), EPI_BIAS (there is a c), EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) gemm_ref_##x
#endif
#include "matmul/gemm_operands.clh"

void FN(body)(ulong group, SRC ma, SRC mb, SRC mc, SRC add, DST y, const struct gemm_args *a)
{
    long count = (long)a->m * a->n;
    for (int d = 0; d < 6; d++)
        count *= a->batch[d];
    const long i = (long)group * WG + LANE;
    if (i < count) {
        const int col = (int)(i % a->n), row = (int)(i / a->n % a->m);
        const long b = i / a->n / a->m;
        SRC ar = ma + FN(batch_offset)(b, a->a_b, a) + row * a->a_m;
        SRC bc = mb + FN(batch_offset)(b, a->b_b, a) + col * a->b_n;
        float sum = 0.0f;
        for (int k = 0; k < a->k; k++)
            sum = fma(ar[k * a->a_k], bc[k * a->b_k], sum);
        y[FN(batch_offset)(b, a->y_b, a) + row * a->y_m + col] =
            GEMM_RESULT(a->alpha * sum, mc, add + FN(batch_offset)(b, a->add_b, a), row, col, a);
    }
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC mb, ulong b_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct gemm_args a)
{
    FN(body)(GROUP, ma + a_off, mb + b_off, mc + c_off, add + add_off, y + y_off, &a);
}
