/* gemm_sum_parts.cl: y = act( alpha * sum of the partial sums + beta * c + add ), where gemm_tiled.cl has split a
 * depth; see gemm_operands.clh.
 *
 * Layouts: parts[split_k][item][M][N]. Work-group: WG outputs in row-major order of (batch, m, n). Local memory: none.
 * Defines: WG (any), EPI_BIAS (there is a c), EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) gemm_sum_parts_##x
#endif
#include "matmul/gemm_operands.clh"

void FN(body)(ulong group, SRC parts, SRC mc, SRC add, DST y, const struct gemm_tiled_args *p)
{
    const struct gemm_args *a = &p->gemm;
    const long count = p->items * a->m * a->n, i = (long)group * WG + LANE;
    if (i < count) {
        const int col = (int)(i % a->n), row = (int)(i / a->n % a->m);
        const long b = i / a->n / a->m;
        float sum = parts[i];
        for (int s = 1; s < p->split_k; s++)
            sum += parts[s * count + i];
        y[FN(batch_offset)(b, a->y_b, a) + row * a->y_m + col] =
            GEMM_RESULT(a->alpha * sum, mc, add + FN(batch_offset)(b, a->add_b, a), row, col, a);
    }
}

KERNEL FN(main)(SRC parts, ulong parts_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct gemm_tiled_args a)
{
    FN(body)(GROUP, parts + parts_off, mc + c_off, add + add_off, y + y_off, &a);
}
