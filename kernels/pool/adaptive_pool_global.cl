/* adaptive_pool_global.cl: one value a channel: y[n][c] = maximum or mean of all of x[n][c], or the root of its
 * sum of squares.
 *
 * Layouts: x N,C,spatial and y N,C with batch strides. NaN wins a max.
 * Work-group: WG / LANES rows (n, c) of LANES work-items. Local memory: WG floats.
 * Defines: RED (required: red_sum, red_max), NORM 1 (with red_sum) for the root, WG, LANES (reduce.clh), X_HALF, Y_HALF
 * (maps.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#ifndef LANES
#define LANES 32
#endif
#include "common/reduce.clh"
#ifndef FN
#define FN(x) adaptive_pool_global_##x
#endif
#ifndef RED
#error "RED is required: red_sum or red_max"
#endif
#ifndef NORM
#define NORM 0
#endif
#define TERM(v) (NORM ? (v) * (v) : (v))
#define SCRATCH ((WG + 3) / 4)

RED_FOLD(FN(fold), RED)
RED_PART_OF(FN(part), RED, FN(fold), TERM)
RED_SHARE(FN(share), RED)

void FN(body)(ulong group, X_SRC x, Y_DST y, const struct global_pool_args *a, local float4 *scratch)
{
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const long n = row / a->c, c = row - n * a->c;
    float v = 0.0f;
    if (row < a->rows)
        v = FN(part)(x + n * a->x_n + c * a->length, a->length, 1, LANE % LANES);
    v = FN(share)(v, (local float *)scratch);
    if (LANE % LANES == 0 && row < a->rows)
        STORE_Y(NORM ? sqrt(v) : v / a->divisor, y, n * a->y_n + c);
}

KERNEL FN(main)(X_SRC x, ulong x_off, Y_DST y, ulong y_off, const struct global_pool_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, &a, scratch);
}
