/* max_pool_indices_ref.cl: maximum of windows, and where it was found.
 *
 *   y[n][c][o] = max over t of x[n][c][o * stride - pad + t * dil], taps outside left out; the first maximum, or NaN
 *   indices[n][c][o] = (n * C + c) * D * H * W + d * step[0] + h * step[1] + w * step[2] of that one
 *
 * Layouts: N,C,(D,)(H,)W with batch strides; struct max_indices_args. A row is one (n, c, d, h) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) max_pool_indices_ref_##x
#endif

void FN(body)(ulong group, SRC x, DST y, DST_OF(long) indices, const struct max_indices_args *m)
{
    const struct pool_args *a = &m->pool;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest, channel = (long)a->in[0] * a->in[1] * a->in[2];
        SRC xc = x + n * a->x_n + c * channel;
        const long out = ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
        FOR_COLUMNS(i, first, a->out[2])
        {
            float best = -INFINITY;
            long at = -1;
            for (int t = 0; t < a->ker[0]; t++) {
                const long d = od * a->stride[0] - a->pad[0] + t * a->dil[0];
                for (int r = 0; r < a->ker[1] && d >= 0 && d < a->in[0]; r++) {
                    const long h = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
                    for (int s = 0; s < a->ker[2] && h >= 0 && h < a->in[1]; s++) {
                        const long w = i * a->stride[2] - a->pad[2] + s * a->dil[2];
                        if (w >= 0 && w < a->in[2]) {
                            const float v = xc[(d * a->in[1] + h) * a->in[2] + w];
                            if (at < 0 || v > best || (isnan(v) && !isnan(best))) {
                                best = v;
                                at = d * m->step[0] + h * m->step[1] + w * m->step[2];
                            }
                        }
                    }
                }
            }
            y[n * a->y_n + out + i] = best;
            indices[n * m->i_n + out + i] = (n * a->c + c) * channel + at;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, DST_OF(long) indices, ulong indices_off,
                const struct max_indices_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, indices + indices_off, &a);
}
