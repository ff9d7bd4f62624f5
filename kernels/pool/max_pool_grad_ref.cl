/* max_pool_grad_ref.cl: the gradient of maxima of windows.
 *
 *   dx[n][c][i] = sum of dy[n][c][o] over the windows o whose first maximum, or first NaN, is x[n][c][i]
 *
 * Layouts: N,C,(D,)(H,)W with batch strides; struct max_pool_grad_args. A row is one (n, c, d, h) of x.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: RECTIFIED 1: windows whose maximum is not positive give nothing; WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) max_pool_grad_ref_##x
#endif
#ifndef RECTIFIED
#define RECTIFIED 0
#endif

/* The window whose tap t of dimension d lies at `at`, or -1. */
int FN(window)(int at, int t, int d, const struct pool_args *a)
{
    const int first = at + a->pad[d] - t * a->dil[d];
    return first >= 0 && first % a->stride[d] == 0 && first / a->stride[d] < a->out[d] ? first / a->stride[d] : -1;
}

/* Whether `own`, at `place` of the channel, is what window (od, oh, ow) takes. */
bool FN(wins)(SRC xc, float own, long place, int od, int oh, int ow, const struct pool_args *a)
{
    bool wins = true;
    for (int t = 0; t < a->ker[0] && wins; t++) {
        const int d = od * a->stride[0] - a->pad[0] + t * a->dil[0];
        for (int r = 0; r < a->ker[1] && wins && d >= 0 && d < a->in[0]; r++) {
            const int h = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
            for (int s = 0; s < a->ker[2] && wins && h >= 0 && h < a->in[1]; s++) {
                const int w = ow * a->stride[2] - a->pad[2] + s * a->dil[2];
                const long at = ((long)d * a->in[1] + h) * a->in[2] + w;
                if (w >= 0 && w < a->in[2] && at != place) {
                    const float v = xc[at];
                    const bool better = v > own || (isnan(v) && !isnan(own));
                    wins = !better && !(at < place && (v == own || isnan(v)));
                }
            }
        }
    }
    return wins;
}

void FN(body)(ulong group, SRC x, SRC dy, DST dx, const struct max_pool_grad_args *m)
{
    const struct pool_args *a = &m->pool;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(h, rest, a->in[1]);
        TAKE_DIGIT(d, rest, a->in[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest, channel = (long)a->in[0] * a->in[1] * a->in[2];
        SRC xc = x + n * a->x_n + c * channel;
        SRC yc = dy + n * a->y_n + c * a->out[0] * a->out[1] * a->out[2];
        FOR_COLUMNS(i, first, a->in[2])
        {
            const long place = (d * a->in[1] + h) * a->in[2] + i;
            const float own = xc[place];
            const bool open = RECTIFIED ? own > 0.0f : true;
            float sum = 0.0f;
            for (int t = 0; t < a->ker[0]; t++) {
                const int od = FN(window)((int)d, t, 0, a);
                for (int r = 0; r < a->ker[1] && od >= 0 && open; r++) {
                    const int oh = FN(window)((int)h, r, 1, a);
                    for (int s = 0; s < a->ker[2] && oh >= 0; s++) {
                        const int ow = FN(window)((int)i, s, 2, a);
                        if (ow >= 0 && FN(wins)(xc, own, place, od, oh, ow, a))
                            sum += yc[((long)od * a->out[1] + oh) * a->out[2] + ow];
                    }
                }
            }
            dx[n * m->dx_n + c * channel + place] = sum;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dx, ulong dx_off, const struct max_pool_grad_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, dx + dx_off, &a);
}
