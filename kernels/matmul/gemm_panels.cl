/* gemm_panels.cl: matrix products by register tiles for CPU devices: rows of a by panels of columns of b
 * (gemm_operands.clh has the formula).
 *
 * Layouts: a of any strides. b in panels of P = KV * V columns, of which row k of panel j of an item is at
 * j * b_panel + k * b_row: packed [ceil(N/P)][K][P] by `pack`, zeros past the last column, or rows of b where they lie
 * (in_place: b_n 1, N at least V; the last vector of a row begins earlier, and what is new of it is stored). c has
 * strides (0: broadcast; c_n 0 or 1); y and add have rows y_m and add_m apart, dense along n.
 * Tile: T rows by a panel, sums in registers. `depth` products of each, DEPTH at most, are added at a time, in the
 * order of k: the rows' part of a is copied first, so that its rows lie at distances which the compiler knows and which
 * do not share a set of the cache; it serves all panels of a chunk, whose parts of b stay in the cache for all tiles of
 * the chunk. Sums wait in private memory meanwhile. The last tile has 8, 4 or 2 rows where these do, the last panel one
 * vector.
 * Index map: group = (item * across + chunk of panels) * down + chunk of tiles.
 * `pack`: group = (item * panels + panel) * ceil(K/PACK_ROWS) + part of the rows.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V columns of a vector, 16 or 8; EPI_ACT act_* (epilogue.clh), whose other parts are told at run time. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) gemm_panels_##x
#endif
#include "common/activation_vec.clh"
#include "common/prefetch.clh"
#include "matmul/gemm_operands.clh"
#undef T
#undef KV
#undef P
#define KV 2
#define P (KV * V)
#if V == 16
#define T 14    /* 28 sums, 2 vectors of b and one of a in 32 registers */
#define SUMS 32 /* tiles of a chunk whose sums wait, when there are more than `depth` products */
#else
#define T 6 /* 12 sums in 16 registers */
#define SUMS 128
#endif
#define DEPTH 256
#define PITCH (DEPTH + 16)
#define SOON 16 /* rows of a panel from what is read to what is on its way to the first cache */
#define PACK_ROWS 64

/* Adds `depth` products to the sums of R rows by W vectors of b, `next` columns apart. */
#define PRODUCTS(R, W)                                                                                          \
    {                                                                                                           \
        FV acc[R][W];                                                                                           \
        _Pragma("unroll") for (int t = 0; t < R; t++) _Pragma("unroll") for (int v = 0; v < W; v++) acc[t][v] = \
            fresh ? (FV)0.0f : LOADV(sums, (t * KV + v) * V);                                                   \
        _Pragma("unroll 1") for (int k = 0; k < depth; k++, b += step)                                          \
        {                                                                                                       \
            FV f[W];                                                                                            \
            _Pragma("unroll") for (int v = 0; v < W; v++)                                                       \
            {                                                                                                   \
                PREFETCH_NEAREST(b + SOON * step + v * next);                                                   \
                f[v] = LOADV(b, v * next);                                                                      \
            }                                                                                                   \
            _Pragma("unroll") for (int t = 0; t < R; t++)                                                       \
            {                                                                                                   \
                const FV value = rows[t * PITCH + k];                                                           \
                _Pragma("unroll") for (int v = 0; v < W; v++) acc[t][v] = fma(value, f[v], acc[t][v]);          \
            }                                                                                                   \
        }                                                                                                       \
        _Pragma("unroll") for (int t = 0; t < R; t++) _Pragma("unroll") for (int v = 0; v < W; v++)             \
            KEEPV(acc[t][v], sums, (t * KV + v) * V);                                                           \
    }

/* The same for the fewest rows that are `count` or more. */
#if V == 16
#define ROWS_PRODUCTS(W) \
    if (count > 8)       \
        PRODUCTS(T, W)   \
    else if (count > 4)  \
        PRODUCTS(8, W)   \
    else if (count > 2)  \
        PRODUCTS(4, W)   \
    else                 \
        PRODUCTS(2, W)
#else
#define ROWS_PRODUCTS(W) \
    if (count > 4)       \
        PRODUCTS(T, W)   \
    else if (count > 2)  \
        PRODUCTS(4, W)   \
    else                 \
        PRODUCTS(2, W)
#endif

void FN(products)(const float *rows, int count, SRC b, long step, int next, int depth, bool wide, bool fresh,
                  float *sums)
{
    if (wide) {
        ROWS_PRODUCTS(KV)
    } else {
        ROWS_PRODUCTS(1)
    }
}

/* Copies `count` rows of `depth` elements; zeros in the other rows of the tile. */
void FN(bring)(SRC a, long a_m, long a_k, int count, int depth, float *rows)
{
    for (int t = count; t < T; t++)
        for (int k = 0; k < depth; k += V)
            KEEPV((FV)0.0f, rows, t * PITCH + k);
    if (a_k == 1) {
        for (int t = 0; t < count; t++, a += a_m) {
            int k = 0;
            for (; k + V <= depth; k += V)
                KEEPV(LOADV(a, k), rows, t * PITCH + k);
            for (; k < depth; k++)
                rows[t * PITCH + k] = a[k];
        }
    } else {
        for (int k = 0; k < depth; k++, a += a_k)
            for (int t = 0; t < count; t++)
                rows[t * PITCH + k] = a[t * a_m];
    }
}

/* Elements first .. first + V - 1 of a row, of which those in [from, to) are there. */
FV FN(some)(SRC row, int first, int from, int to)
{
    if (from <= first && first + V <= to)
        return LOADV(row, first);
    float part[V] __attribute__((aligned(64)));
    for (int j = 0; j < V; j++)
        part[j] = first + j >= from && first + j < to ? row[first + j] : 0.0f;
    return LOADV(part, 0);
}

/* Stores columns [begin, to) of `count` rows. Vectors of sums begin at columns `first` and `next` later. */
void FN(finish)(const float *sums, int row, int count, int begin, int to, int first, int next, SRC mc, SRC add, DST y,
                const struct gemm_panels_args *p)
{
    const struct gemm_args g = p->gemm; /* a copy: stores of y cannot change it */
    const bool has_c = p->c != 0, has_add = p->add != 0;
    for (int t = 0; t < count; t++)
        for (int v = 0; v < KV && begin + v * V < to; v++) {
            const int n = first + v * next, from = begin + v * V;
            FV sum = g.alpha * LOADV(sums, (t * KV + v) * V);
            if (has_c) {
                SRC c = mc + (row + t) * g.c_m;
                sum += g.beta * (g.c_n ? FN(some)(c, n, from, to) : (FV)c[0]);
            }
            if (has_add)
                sum += FN(some)(add + (row + t) * g.add_m, n, from, to);
            sum = VECTOR_ACT(EPI_ACT)(sum, g.p0, g.p1);
            DST out = y + (row + t) * g.y_m;
            if (from <= n && n + V <= to) {
                STOREV(sum, out, n);
            } else {
                float part[V] __attribute__((aligned(64)));
                KEEPV(sum, part, 0);
                for (int j = 0; j < V; j++)
                    if (n + j >= from && n + j < to)
                        out[n + j] = part[j];
            }
        }
}

void FN(body)(ulong group, SRC ma, SRC mb, SRC mc, SRC add, DST y, const struct gemm_panels_args *p)
{
    const struct gemm_args *g = &p->gemm;
    const int down = (int)(group % p->down), across = (int)(group / p->down % p->across);
    const long item = (long)(group / p->down / p->across);
    SRC ai = ma + FN(batch_offset)(item, g->a_b, g);
    SRC bi = mb + FN(batch_offset)(item, g->b_b, g);
    SRC addi = add + FN(result_offset)(item, g->add_n, g);
    DST yi = y + FN(result_offset)(item, g->y_n, g);
    const int row_end = min((down + 1) * p->tiles * T, g->m), panel_end = min((across + 1) * p->panels * P, g->n);
    float rows[T * PITCH] __attribute__((aligned(64)));
    float sums[SUMS][T * P] __attribute__((aligned(64)));
    const int waits = g->k > p->depth;
    for (int k = 0; k < g->k; k += p->depth) {
        const int depth = min(p->depth, g->k - k);
        int at = 0; /* of the sums; all tiles have the same ones when nothing waits */
        for (int row = down * p->tiles * T; row < row_end; row += T) {
            const int count = min(T, row_end - row);
            FN(bring)(ai + row * g->a_m + k * g->a_k, g->a_m, g->a_k, count, depth, rows);
            for (int n = across * p->panels * P; n < panel_end; n += P, at += waits) {
                const bool wide = g->n - n > V;
                const int first = p->in_place ? min(n, g->n - V) : n, next = p->in_place ? min(V, g->n - V - n) : V;
                SRC b = bi + (p->in_place ? (long)first : n / P * p->b_panel) + k * p->b_row;
                FN(products)(rows, count, b, p->b_row, next, depth, wide, k == 0, sums[at]);
                if (k + depth == g->k)
                    FN(finish)(sums[at], row, count, n, min(n + P, g->n), first, next, mc, addi, yi, p);
            }
        }
    }
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC mb, ulong b_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct gemm_panels_args p)
{
    FN(body)(GROUP, ma + a_off, mb + b_off, mc + c_off, add + add_off, y + y_off, &p);
}

void FN(pack_body)(ulong group, SRC mb, DST dst, const struct gemm_args *g)
{
    const int panels = (g->n + P - 1) / P, parts = (g->k + PACK_ROWS - 1) / PACK_ROWS;
    const int k0 = (int)(group % parts) * PACK_ROWS, k1 = min(k0 + PACK_ROWS, g->k);
    const int n = (int)(group / parts % panels) * P, columns = min(P, g->n - n);
    const long item = (long)(group / parts / panels);
    SRC b = mb + FN(batch_offset)(item, g->b_b, g) + n * g->b_n;
    DST out = dst + (item * panels + n / P) * g->k * P;
    if (columns == P && g->b_n == 1) {
        for (int k = k0; k < k1; k++)
            for (int v = 0; v < KV; v++)
                STOREV(LOADV(b, k * g->b_k + v * V), out, k * P + v * V);
    } else {
        for (int j = 0; j < P; j++)
            for (int k = k0; k < k1; k++)
                out[k * P + j] = j < columns ? b[k * g->b_k + j * g->b_n] : 0.0f;
    }
}

KERNEL FN(pack)(SRC mb, ulong b_off, DST dst, ulong dst_off, const struct gemm_args g)
{
    FN(pack_body)(GROUP, mb + b_off, dst + dst_off, &g);
}
