/* local_response_norm_ref.cl: normalisation across neighbouring channels, as torch defines it.
 *
 *   y[c] = x[c] / (k + alpha/size * sum of x[j]^2)^beta, j = c - size/2 .. c + (size-1)/2 where that is a channel
 *
 * Layouts: N,C,spatial with batch strides; a row is one (n, c).
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/rows.clh"
#ifndef FN
#define FN(x) local_response_norm_ref_##x
#endif

void FN(body)(ulong group, SRC x, DST y, const struct lrn_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const long n = row / (INDEX)a->c;
        const int c = (int)(row - n * a->c);
        const int low = max(0, c - a->size / 2), high = min(a->c - 1, c + (a->size - 1) / 2);
        SRC xn = x + n * a->x_n;
        SRC xr = xn + c * a->inner;
        DST yr = y + n * a->y_n + c * a->inner;
        float sum[ELEMS];
        for (int e = 0; e < ELEMS; e++)
            sum[e] = 0.0f;
        for (int j = low; j <= high; j++) {
            SRC xj = xn + j * a->inner;
            FOR_COLUMNS(i, first, a->inner)
            sum[SLOT_OF(i, first)] = fma(xj[i], xj[i], sum[SLOT_OF(i, first)]);
        }
        if (a->beta == 0.75f) { /* every published network; two square roots cost far less than pow */
            FOR_COLUMNS(i, first, a->inner)
            {
                const float root = sqrt(fma(a->alpha, sum[SLOT_OF(i, first)], a->k));
                yr[i] = xr[i] / (root * sqrt(root));
            }
        } else {
            FOR_COLUMNS(i, first, a->inner)
            yr[i] = xr[i] / pow(fma(a->alpha, sum[SLOT_OF(i, first)], a->k), a->beta);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct lrn_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
