/* gemm_finish.cl: y = act( y + beta * c + add ) after a library's matrix product; see gemm_operands.clh.
 *
 * Work-group: WG outputs in row-major order of (batch, m, n). Local memory: none.
 * Defines: WG (any), EPI_BIAS (there is a c), EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) gemm_finish_##x
#endif
#include "matmul/gemm_operands.clh"

void FN(body)(ulong group, SRC mc, SRC add, DST y, const struct gemm_args *a)
{
    long count = (long)a->m * a->n;
    for (int d = 0; d < 6; d++)
        count *= a->batch[d];
    const long i = (long)group * WG + LANE;
    if (i < count) {
        const int col = (int)(i % a->n), row = (int)(i / a->n % a->m);
        const long b = i / a->n / a->m;
        const long at = FN(batch_offset)(b, a->y_b, a) + row * a->y_m + col;
        y[at] = GEMM_RESULT(y[at], mc, add + FN(batch_offset)(b, a->add_b, a), row, col, a);
    }
}

KERNEL FN(main)(SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off, const struct gemm_args a)
{
    FN(body)(GROUP, mc + c_off, add + add_off, y + y_off, &a);
}
