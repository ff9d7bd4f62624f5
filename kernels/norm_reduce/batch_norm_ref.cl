/* batch_norm_ref.cl: normalisation by running statistics.
 *
 *   y = act( (x - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c] + add )
 *
 * Layouts: rows of `inner` contiguous elements: the planes of an N,C,spatial tensor (one channel a row),
 * or the rows of a matrix (one channel a column); struct channel_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: EPI_ADD, EPI_ACT (epilogue.clh; EPI_BIAS stays 0), X_HALF, ADD_HALF, Y_HALF (maps.clh),
 * WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#include "common/rows.clh"
#ifndef FN
#define FN(x) batch_norm_ref_##x
#endif

void FN(body)(ulong group, X_SRC x, SRC weight, SRC bias, SRC mean, SRC var, ADD_SRC add, Y_DST y,
              const struct channel_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const INDEX n = row / (INDEX)a->per_item;
        const long r = row - n * (INDEX)a->per_item;
        const long c = r * a->row_step;
        X_SRC xr = x + (long)n * a->x_n + r * a->inner;
        ADD_SRC ar = add + (long)n * a->add_n + r * a->inner;
        Y_DST yr = y + (long)n * a->y_n + r * a->inner;
        if (a->column_step == 0) {
            const float scale = weight[c] / sqrt(var[c] + a->eps), centre = mean[c], shift = bias[c];
            FOR_COLUMNS(i, first, a->inner)
            STORE_Y(EPILOGUE_OF(fma(LOAD_X(xr, i) - centre, scale, shift), bias, c, LOAD_ADD(ar, i), a), yr, i);
        } else {
            FOR_COLUMNS(i, first, a->inner)
            {
                const float scale = weight[i] / sqrt(var[i] + a->eps);
                STORE_Y(EPILOGUE_OF(fma(LOAD_X(xr, i) - mean[i], scale, bias[i]), bias, i, LOAD_ADD(ar, i), a), yr, i);
            }
        }
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC mean, ulong mean_off,
                SRC var, ulong var_off, ADD_SRC add, ulong add_off, Y_DST y, ulong y_off, const struct channel_args a)
{
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, mean + mean_off, var + var_off, add + add_off,
             y + y_off, &a);
}
