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
 * Defines: V columns of a vector, 16 or 8; SMALL_CODE 0 (default) or 1: soon built, as all tiles have T rows, and
 * results, and rows of a whose columns are dense, go element by element; EPI_ACT act_* (epilogue.clh), whose other
 * parts are told at run time. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef SMALL_CODE
#define SMALL_CODE 0
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) gemm_panels_##x
#endif
#include "common/prefetch.clh"
#include "matmul/gemm_operands.clh"
#include "common/vec_turn.clh"
#undef T
#undef KV
#undef P
#define KV 2
#if V == 16
#define P 32
#define T 14       /* 28 sums, 2 vectors of b and one of a in 32 registers */
#define TOGETHER 1 /* tiles that take a panel's part one after the other */
#define PREFETCH_AHEAD(v) PREFETCH_NEAREST(b + SOON * step + (v)*next)
#define SUMS 64 /* tiles of a chunk whose sums wait, when there are more than `depth` products */
#else
#define P 16
#define T 6 /* 12 sums in 16 registers */
#define TOGETHER 16
#define PREFETCH_AHEAD(v)  \
    if (v == 0) {          \
        PREFETCH(ahead);   \
        ahead += ahead_by; \
    }
#define SUMS 128
#endif
#define DEPTH 256
#define PITCH (DEPTH + 16)
#define SOON 16 /* rows of a panel from what is read to what is on its way to the first cache */
#define PACK_ROWS 64

/* Adds `depth` products to the sums of R rows by W vectors of b, `next` columns apart. What is at `ahead` and so many
 * elements on for each product is on its way to the second cache meanwhile (V = 8), or what is read soon to the first
 * one. */
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
                PREFETCH_AHEAD(v);                                                                              \
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
#if SMALL_CODE
#define ROWS_PRODUCTS(W) PRODUCTS(T, W)
#elif V == 16
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

void FN(products)(const float *rows, int count, SRC b, long step, int next, SRC ahead, long ahead_by, int depth,
                  bool wide, bool fresh, float *sums)
{
    if (wide) {
        ROWS_PRODUCTS(KV)
    } else {
        ROWS_PRODUCTS(1)
    }
}

/* The same where the elements of a column are neighbours: V columns at a time are turned in registers, as far as V rows
 * of them are there. */
void FN(bring_turned)(SRC a, long a_k, int count, int left, int depth, float *rows)
{
    int k = 0;
    for (; k + V <= depth && left >= V; k += V) {
        FV tile[V];
#pragma unroll
        for (int i = 0; i < V; i++)
            tile[i] = LOADV(a, (k + i) * a_k);
        FN(turn)(tile);
#pragma unroll
        for (int t = 0; t < (T < V ? T : V); t++)
            if (t < count)
                KEEPV(tile[t], rows, t * PITCH + k);
    }
    for (; k < depth; k++)
        for (int t = 0; t < count; t++)
            rows[t * PITCH + k] = a[k * a_k + t];
}

/* Copies `count` rows of `depth` elements, of `left` that follow in the matrix; zeros in the other rows of the tile. */
void FN(bring)(SRC a, long a_m, long a_k, int count, int left, int depth, float *rows)
{
    for (int t = count; t < T; t++)
        for (int k = 0; k < depth; k += V)
            KEEPV((FV)0.0f, rows, t * PITCH + k);
    if (a_k == 1) {
        for (int t = 0; t < count; t++, a += a_m) {
            int k = 0;
            for (; k + 4 * V <= depth; k += 4 * V) {
                FV some[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    some[i] = *(const global FVU *)(a + k + i * V); /* PoCL makes two vectors of vload8 */
#pragma unroll
                for (int i = 0; i < 4; i++)
                    KEEPV(some[i], rows, t * PITCH + k + i * V);
            }
            for (; k + V <= depth; k += V)
                KEEPV(LOADV(a, k), rows, t * PITCH + k);
            for (; k < depth; k++)
                rows[t * PITCH + k] = a[k];
        }
    } else if (!SMALL_CODE && a_m == 1) {
        FN(bring_turned)(a, a_k, count, left, depth, rows);
    } else {
        for (int k = 0; k < depth; k++, a += a_k)
            for (int t = 0; t < count; t++)
                rows[t * PITCH + k] = a[t * a_m];
    }
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
    } else if (g->b_k == 1) {
        for (int j = 0; j < P; j += V) {
            const int rows = clamp(columns - j, 0, V);
            int k = k0;
            for (; k + V <= k1; k += V)
                FN(turn_tile)(b + j * g->b_n + k, g->b_n, rows, out + k * P + j, P, V);
            FN(turn_part)(b + j * g->b_n + k, g->b_n, rows, out + k * P + j, P, k1 - k, V);
        }
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

/* From here on vectors have 16 floats: on narrower ones an activation is then two chains of operations side by side,
 * where one after the other would wait for each result. */
#undef V
#define V 16
#include "common/vec.clh"
#include "common/activation_vec.clh"

/* Elements first .. first + V - 1 of a row, of which those in [from, to) are there. */
FV FN(load_some)(SRC row, int first, int from, int to)
{
    float part[V] __attribute__((aligned(64)));
    KEEPV((FV)0.0f, part, 0);
    for (int n = max(first, from); n < min(first + V, to); n++)
        part[n - first] = row[n];
    return LOADV(part, 0);
}

void FN(store_some)(FV value, DST row, int first, int from, int to)
{
    float part[V] __attribute__((aligned(64)));
    KEEPV(value, part, 0);
    for (int n = max(first, from); n < min(first + V, to); n++)
        row[n] = part[n - first];
}

#if P == V
/* A row of sums that is not whole: the second of two vectors begins `next` columns after the first, or there is
 * none. */
FV FN(sums_of_some)(const float *sums, bool wide, int next)
{
    float part[V] __attribute__((aligned(64)));
    for (int j = 0; j < V; j++)
        part[j] = j < V / 2 ? sums[j] : 0.0f;
    for (int j = 0; j < V / 2 && wide; j++)
        part[next + j] = sums[V / 2 + j];
    return LOADV(part, 0);
}
#define SUMS_OF_SOME(t, v) FN(sums_of_some)(sums + (t)*P, to - begin > V / 2, next)
#else
#define SUMS_OF_SOME(t, v) LOADV(sums, (t)*P + (v)*V)
#endif

#define LOAD_SOME(row) FN(load_some)(row, n, from, to)
#define STORE_SOME(row) FN(store_some)(sum, row, n, from, to)
#define SUMS_OF_ALL(t, v) LOADV(sums, (t)*P + (v)*V)
#define LOAD_ALL(row) LOADV(row, n)
#define STORE_ALL(row) STOREV(sum, row, n)

/* Rows of a panel, of which ALL or SOME columns are stored. */
#define FINISH(WHICH)                                                 \
    for (int t = 0; t < count; t++)                                   \
        for (int v = 0; v < P / V && begin + v * V < to; v++) {       \
            const int n = first + v * next, from = begin + v * V;     \
            FV sum = g.alpha * SUMS_OF_##WHICH(t, v);                 \
            if (has_c) {                                              \
                SRC c = mc + (row + t) * g.c_m;                       \
                sum += g.beta * (g.c_n ? LOAD_##WHICH(c) : (FV)c[0]); \
            }                                                         \
            if (adds)                                                 \
                sum += LOAD_##WHICH(add + (row + t) * g.add_m);       \
            sum = VECTOR_ACT(EPI_ACT)(sum, g.p0, g.p1);               \
            if (multiplies)                                           \
                sum *= LOAD_##WHICH(add + (row + t) * g.add_m);       \
            STORE_##WHICH(y + (row + t) * g.y_m);                     \
        }

/* Stores columns [begin, to) of `count` rows. Vectors of sums begin at columns `first` and `next` later. */
void FN(finish)(const float *sums, int row, int count, int begin, int to, int first, int next, SRC mc, SRC add, DST y,
                const struct gemm_panels_args *p)
{
    const struct gemm_args g = p->gemm; /* a copy: stores of y cannot change it */
    const bool has_c = p->c != 0, adds = p->add == 1, multiplies = p->add == 2;
    if (!SMALL_CODE && begin + P == to && first == begin) {
        const int next = V;
        FINISH(ALL)
    } else
        FINISH(SOME)
}

/* Where the part of a panel begins that comes after the one at column n and product k: of the next panel, of the first
 * one for the next products, or of the next chunk. */
long FN(part_after)(int n, int k, int down, int panel_begin, int panel_end, const struct gemm_panels_args *p)
{
    int column = n + P;
    if (column >= panel_end) {
        k += p->depth;
        column = k < p->gemm.k || down + 1 < p->down ? panel_begin : panel_end;
        k = k < p->gemm.k ? k : 0;
    }
    return k * p->b_row + (p->in_place ? (long)column : column / P * p->b_panel);
}

void FN(body)(ulong group, SRC ma, SRC mb, SRC mc, SRC add, DST y, const struct gemm_panels_args *p)
{
    const struct gemm_args *g = &p->gemm;
    const int down = (int)(group % p->down), across = (int)(group / p->down % p->across);
    const long item = (long)(group / p->down / p->across);
    SRC ai = ma + FN(batch_offset)(item, g->a_b, g);
    SRC bi = mb + FN(batch_offset)(item, g->b_b, g);
    SRC addi = add + FN(batch_offset)(item, g->add_b, g);
    DST yi = y + FN(batch_offset)(item, g->y_b, g);
    const int row_end = min((down + 1) * p->tiles * T, g->m);
    const int panel_begin = across * p->panels * P, panel_end = min(panel_begin + p->panels * P, g->n);
    float rows[TOGETHER][T * PITCH] __attribute__((aligned(64)));
    float sums[SUMS][T * P] __attribute__((aligned(64)));
    const int waits = g->k > p->depth;
    for (int k = 0; k < g->k; k += p->depth) {
        const int depth = min(p->depth, g->k - k);
        int at = 0; /* of the sums; all tiles have the same ones when nothing waits */
        for (int row0 = down * p->tiles * T; row0 < row_end; row0 += TOGETHER * T) {
            const int stop = min(row0 + TOGETHER * T, row_end);
            /* of the part after a panel's: each tile brings one near */
            const long share = p->b_row * T / (stop - row0);
            for (int row = row0, i = 0; row < stop; row += T, i++)
                FN(bring)(ai + row * g->a_m + k * g->a_k, g->a_m, g->a_k, min(T, stop - row), g->m - row, depth,
                          rows[i]);
            for (int n = panel_begin; n < panel_end; n += P) {
                const bool wide = g->n - n > P / KV;
                const int first = p->in_place ? min(n, g->n - P / KV) : n,
                          next = p->in_place && wide ? min(P / KV, g->n - P / KV - n) : P / KV;
                const long begin = k * p->b_row + (p->in_place ? (long)first : n / P * p->b_panel);
                SRC after = bi + FN(part_after)(n, k, down, panel_begin, panel_end, p);
                for (int row = row0, i = 0; row < stop; row += T, i++, at += waits) {
                    const int count = min(T, stop - row);
                    FN(products)(rows[i], count, bi + begin, p->b_row, next, after + i * depth * share, share, depth,
                                 wide, k == 0, sums[at]);
                    if (k + depth == g->k)
                        FN(finish)(sums[at], row, count, n, min(n + P, g->n), first, next, mc, addi, yi, p);
                }
            }
        }
    }
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC mb, ulong b_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct gemm_panels_args p)
{
    FN(body)(GROUP, ma + a_off, mb + b_off, mc + c_off, add + add_off, y + y_off, &p);
}
