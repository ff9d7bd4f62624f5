/* adaptive_pool_ref.cl: max and average over torch's adaptive bins.
 *
 *   y[n][c][o] = max or mean of x[n][c][floor(o * in / out) .. ceil((o + 1) * in / out) - 1], in each dimension
 *
 * Layouts: N,C,(D,)(H,)W with batch strides. A row is one (n, c, d, h) of the output. NaN wins a max.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: AVG (0: max, 1: average), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) adaptive_pool_ref_##x
#endif
#ifndef AVG
#define AVG 0
#endif

/* First element of bin o, and one past the last. */
int2 FN(bin)(long o, int in, int out)
{
    return (int2)((int)(o * in / out), (int)(((o + 1) * in + out - 1) / out));
}

float FN(value)(SRC xc, int2 d, int2 h, int2 w, const struct adaptive_args *a)
{
    float all = AVG ? 0.0f : -INFINITY;
    for (int id = d.x; id < d.y; id++)
        for (int ih = h.x; ih < h.y; ih++) {
            SRC xr = xc + ((long)id * a->in[1] + ih) * a->in[2];
            float part = AVG ? 0.0f : -INFINITY; /* a row by itself: short sums keep the error small */
            for (int iw = w.x; iw < w.y; iw++) {
                const float v = xr[iw];
                part = AVG ? part + v : v > part || isnan(v) ? v : part;
            }
            all = AVG ? all + part : part > all || isnan(part) ? part : all;
        }
    const float count = (float)((long)(d.y - d.x) * (h.y - h.x) * (w.y - w.x));
    return AVG ? all / count : all;
}

void FN(body)(ulong group, SRC x, DST y, const struct adaptive_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest;
        const int2 d = FN(bin)(od, a->in[0], a->out[0]), h = FN(bin)(oh, a->in[1], a->out[1]);
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
        FOR_COLUMNS(i, first, a->out[2])
        yr[i] = FN(value)(xc, d, h, FN(bin)(i, a->in[2], a->out[2]), a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct adaptive_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
