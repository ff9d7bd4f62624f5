/* max_pool_grad_blocked.cl: the gradient of maxima of windows, on channel blocks, for CPU devices.
 *
 *   dx[n][c][i] = sum of dy[n][c][o] over the windows o whose first maximum, or first NaN, is x[n][c][i]
 *
 * Each window is read once for the number of its tap, a number a channel, and its dy is added to that one; windows come
 * in ascending order, whatever the number of groups.
 * Layouts: x, dx [ceil(C/V)][H][W][V], dy the same of windows, with batch strides; lanes of dx past C are zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `rows` rows of dx of one block of
 * channels. Windows that reach into other rows are read there, too.
 * Work-group: WG = 1. Local memory: none.
 * Of the argument block: kind, 2 or 3: windows of that size in both dimensions, at dilation 1; 0: any.
 * Defines: V channels of a block, 16 or 8; RECTIFIED 1: windows whose maximum is not positive give nothing. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) max_pool_grad_blocked_##x
#endif
#ifndef RECTIFIED
#define RECTIFIED 0
#endif
#include "pool/pool_taps.clh"

/* Inlined by force, so that what is passed as a number is one. */
#define UNROLLED static __attribute__((always_inline))

/* A window that begins at x, and at dx: taps in.x to in.y - 1 by in.z to in.w - 1 are inside; those of the rows mine.x
 * to mine.y - 1 are written. LOOP stands before each loop over taps. */
#define WINDOW(NAME, LOOP)                                                                                 \
    UNROLLED void NAME(SRC x, DST dx, FV dy, int4 in, int2 mine, long row_step, int column_step, int wide) \
    {                                                                                                      \
        FV best = LOADV(x, in.x * row_step + in.z * column_step);                                          \
        IV at = in.x * wide + in.z;                                                                        \
        LOOP for (int r = in.x; r < in.y; r++) LOOP for (int s = in.z; s < in.w; s++)                      \
        {                                                                                                  \
            const FV v = LOADV(x, r * row_step + s * column_step);                                         \
            const IV better = ~(best >= v) & (best == best);                                               \
            best = select(best, v, better);                                                                \
            at = select(at, (IV)(r * wide + s), better);                                                   \
        }                                                                                                  \
        if (RECTIFIED)                                                                                     \
            dy = select((FV)0.0f, dy, best > (FV)0.0f);                                                    \
        LOOP for (int r = mine.x; r < mine.y; r++) LOOP for (int s = in.z; s < in.w; s++)                  \
        {                                                                                                  \
            const long i = r * row_step + s * column_step;                                                 \
            STOREV(LOADV(dx, i) + select((FV)0.0f, dy, at == (IV)(r * wide + s)), dx, i);                  \
        }                                                                                                  \
    }
WINDOW(FN(known), _Pragma("unroll"))
WINDOW(FN(any), )

FV FN(gradient)(SRC dy, int ow, int lanes)
{
    const FV v = LOADV(dy, (long)ow * V);
    return lanes < V ? select((FV)0.0f, v, LANES_V < (IV)lanes) : v;
}

/* Windows [first, past) of a row that begins at row h of x, of which rows `high` are inside and rows `mine` are
 * written. */
void FN(edge)(SRC x, DST dx, SRC dy, int h, int first, int past, int2 high, int2 mine, int lanes,
              const struct pool_blocked_args *a)
{
    for (int ow = first; ow < past; ow++) {
        const int w = ow * a->stride[1] - a->pad[1];
        const int2 wide = FN(taps)(w, a->dil[1], a->ker[1], 0, a->in[1]);
        const long at = ((long)h * a->in[1] + w) * V;
        if (wide.x < wide.y)
            FN(any)(x + at, dx + at, FN(gradient)(dy, ow, lanes), (int4)(high, wide), mine,
                    (long)a->dil[0] * a->in[1] * V, a->dil[1] * V, a->ker[1]);
    }
}

/* Windows [first, past) of such a row which lie inside altogether and are written altogether. */
UNROLLED void FN(inside)(SRC x, DST dx, SRC dy, int h, int first, int past, int ker, int lanes,
                         const struct pool_blocked_args *a)
{
    for (int ow = first; ow < past; ow++) {
        const long at = ((long)h * a->in[1] + ow * a->stride[1] - a->pad[1]) * V;
        FN(known)(x + at, dx + at, FN(gradient)(dy, ow, lanes), (int4)(0, ker, 0, ker), (int2)(0, ker),
                  (long)a->in[1] * V, V, ker);
    }
}

/* A row of windows, for the rows [first, past) of dx. */
void FN(row)(SRC x, DST dx, SRC dy, int oh, int first, int past, int lanes, const struct pool_blocked_args *a)
{
    const int h = oh * a->stride[0] - a->pad[0], ker = a->kind;
    const int2 high = FN(taps)(h, a->dil[0], a->ker[0], 0, a->in[0]);
    const int2 mine = FN(taps)(h, a->dil[0], a->ker[0], first, past);
    int left = a->out[1], right = a->out[1]; /* windows from left to right - 1 lie inside */
    if (high.x >= high.y)
        return;
    if (ker && mine.x == 0 && mine.y == ker && a->in[1] + a->pad[1] >= ker) {
        left = min((a->pad[1] + a->stride[1] - 1) / a->stride[1], a->out[1]);
        right = max(left, min((a->in[1] + a->pad[1] - ker) / a->stride[1] + 1, a->out[1]));
    }
    FN(edge)(x, dx, dy, h, 0, left, high, mine, lanes, a);
    if (ker == 2)
        FN(inside)(x, dx, dy, h, left, right, 2, lanes, a);
    else
        FN(inside)(x, dx, dy, h, left, right, 3, lanes, a);
    FN(edge)(x, dx, dy, h, right, a->out[1], high, mine, lanes, a);
}

/* Zeros in rows [first, past). */
void FN(clear)(DST dx, int first, int past, int width)
{
    for (long i = (long)first * width; i < (long)past * width; i++)
        STOREV((FV)0.0f, dx, i * V);
}

void FN(body)(ulong group, SRC x, SRC dy, DST dx, const struct max_pool_grad_blocked_args *m)
{
    const struct pool_blocked_args *a = &m->pool;
    const int blocks = (a->c + V - 1) / V, parts = (a->in[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % parts) * a->rows, past = min(first + a->rows, a->in[0]);
    const int block = (int)(group / parts % blocks);
    const long n = (long)(group / parts / blocks), plane = (long)block * a->in[0] * a->in[1] * V;
    const int extent = (a->ker[0] - 1) * a->dil[0] + 1, reach = max(0, first + a->pad[0] - extent + 1);
    const int end = min(a->out[0], (past - 1 + a->pad[0]) / a->stride[0] + 1);
    SRC xb = x + n * a->x_n + plane;
    DST db = dx + n * m->dx_n + plane;
    SRC yb = dy + n * a->y_n + (long)block * a->out[0] * a->out[1] * V;
    int clean = first; /* rows before it have been cleared */
    for (int oh = (reach + a->stride[0] - 1) / a->stride[0]; oh < end; oh++) {
        const int next = clamp(oh * a->stride[0] - a->pad[0] + extent, clean, past);
        FN(clear)(db, clean, next, a->in[1]);
        clean = next;
        FN(row)(xb, db, yb + (long)oh * a->out[1] * V, oh, first, past, a->c - block * V, a);
    }
    FN(clear)(db, clean, past, a->in[1]);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dx, ulong dx_off,
                const struct max_pool_grad_blocked_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, dx + dx_off, &a);
}
