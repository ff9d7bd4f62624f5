/* lp_pool_ref.cl: p-norm of windows.
 *
 *   y[n][c][o] = (sum over t of |x[n][c][o * stride - pad + t * dil]|^p)^(1/p), taps outside left out
 *
 * Layouts: N,C,(D,)(H,)W with batch strides; struct lp_pool_args. A row is one (n, c, d, h) of
 * the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: P (1 or 2 where p is that; 0, the default: what the arguments say), WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) lp_pool_ref_##x
#endif
#ifndef P
#define P 0
#endif
#define POWER(v) (P == 1 ? fabs(v) : P == 2 ? (v) * (v) : pow(fabs(v), (float)l->p))
#define ROOT(v) (P == 1 ? (v) : P == 2 ? sqrt(v) : pow(v, 1.0f / (float)l->p))

void FN(body)(ulong group, SRC x, DST y, const struct lp_pool_args *l)
{
    const struct pool_args *a = &l->pool;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest;
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
        FOR_COLUMNS(i, first, a->out[2])
        {
            float sum = 0.0f;
            for (int t = 0; t < a->ker[0]; t++) {
                const long d = od * a->stride[0] - a->pad[0] + t * a->dil[0];
                for (int r = 0; r < a->ker[1] && d >= 0 && d < a->in[0]; r++) {
                    const long h = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
                    for (int s = 0; s < a->ker[2] && h >= 0 && h < a->in[1]; s++) {
                        const long w = i * a->stride[2] - a->pad[2] + s * a->dil[2];
                        if (w >= 0 && w < a->in[2]) {
                            const float v = xc[(d * a->in[1] + h) * a->in[2] + w];
                            sum += POWER(v);
                        }
                    }
                }
            }
            yr[i] = ROOT(sum);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct lp_pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
