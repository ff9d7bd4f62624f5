/* linear_fixed_skip.cl: a row of x times rows of w with weights of 24 bits, of which those that meet a zero of x are
 * not read, for CPU devices.
 *
 *   y[n] = act( sum_k x[k] * w[n][k] + c[n] + add[n] )  (gemm_operands.clh; alpha and beta are 1)
 *   w[n][k] = scale[n][k / CHUNK] * q[n][k]
 *
 * q is a float of 24 bits (linear_fixed.clh). LANES outputs share the bits of its exponent for CHUNK inputs; each has a
 * scale of its own.
 *   list   what is not zero: from `list` on the k with x[k] != 0, ascending, and AHEAD more that may be read; before
 *          them, for each chunk of k where its own begin, and their end. -0 is zero, NaN is not. Without `skip`: every
 *          k. Group = all.
 *   pack   blocks of `quads` times 4 * LANES outputs, `pitch` floats each: for every chunk of k a head of `head`
 *          floats, for each quad its four e (integers) and all scales, then a row of w for each k, a quad after the
 *          other: three times LANES numbers of 32 bits, which hold four weights. The last quad of all has as few lanes
 *          as its outputs need. Group = block * chunks + chunk.
 *   main   a block. Rows of w are asked for AHEAD entries before they are read: what is left of them lies too far apart
 *          for hardware to see a stream. Group = block.
 * Layouts: x dense; w of pack has w_n elements between rows.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 4, 8 or 16 elements at a time, QUADS the most of a block, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
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
#include "common/prefetch.clh"
#ifndef FN
#define FN(x) linear_fixed_skip_##x
#endif
#include "matmul/gemm_operands.clh"
#include "matmul/linear_fixed.clh"
#ifndef QUADS
#define QUADS 32
#endif
#define QUAD 4    /* outputs in three numbers */
#define LANES 16  /* quads of outputs side by side */
#define WIDE 64   /* QUAD * LANES */
#define CHUNK 512 /* inputs with one format */
#define LINE 16   /* floats of a cache line */
#define FLOATS 48 /* that a row of WIDE weights takes */
#define HEAD 68   /* floats of a quad's formats: QUAD and WIDE */
#define AHEAD 4   /* entries of the list between what is read and what is prefetched */

/* ---- what is not zero ------------------------------------------------------------------------------------------ */

void FN(list_body)(ulong group, SRC x, DST dst, const struct linear_fixed_skip_args *a)
{
    global int *starts = (global int *)dst, *list = starts + a->list;
    const bool all = !a->skip;
    int count = 0;
    for (int k = 0; k < a->gemm.k;) {
        *starts++ = count;
        for (const int past = min(k + CHUNK, a->gemm.k); k < past; k++) {
            list[count] = k;
            count += all || as_uint(x[k]) << 1 != 0;
        }
    }
    *starts = count;
    for (int i = 0; i < AHEAD; i++)
        list[count + i] = 0;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

/* Weights of WIDE outputs, rows[] of w, that share formats, of `there` inputs: lane j of row r is rows[r * lanes +
 * j]. */
void FN(pack_quad)(SRC *rows, int lanes, int there, DST head, global int *dst, long width)
{
    struct FN(format) f[WIDE];
    for (int r = 0; r < QUAD; r++) {
        int high[LANES], low, bits = 1;
        for (int j = 0; j < lanes; j++) {
            FN(range_of)(rows[r * lanes + j], there, high + j, &low);
            bits = max(bits, FN(bits_for)(high[j], low));
        }
        ((global int *)head)[r] = bits;
        for (int j = 0; j < lanes; j++) {
            f[r * lanes + j] = FN(format_with)(high[j], bits);
            head[QUAD + r * LANES + j] = f[r * lanes + j].scale;
        }
        for (int j = lanes; j < LANES; j++)
            head[QUAD + r * LANES + j] = 0.0f;
    }
    for (int i = 0; i < there; i += V)
        for (int j = 0; j < lanes; j++) {
            const int o = 3 * lanes + j;
            const IV fourth = FN(encoded)(FN(elements)(rows[o], i, there), f + o);
            for (int r = 0; r < 3; r++) {
                const IV q = FN(encoded)(FN(elements)(rows[r * lanes + j], i, there), f + r * lanes + j);
                int three[V];
                STORE_PART(q << 8 | (fourth >> (16 - 8 * r) & 255), 0, three);
                for (int k = 0; k < V && i + k < there; k++)
                    dst[(i + k) * width + r * lanes + j] = three[k];
            }
        }
}

/* Lanes of a quad that begins at output n. */
int FN(lanes_at)(int n, const struct linear_fixed_skip_args *a)
{
    return min(LANES, (a->gemm.n - n + QUAD - 1) / QUAD);
}

/* Quads of a block, and the floats of its rows; *last: lanes of the last quad, where they are fewer than LANES, or
 * 0. */
int FN(quads_of)(int block, int *last, long *width, const struct linear_fixed_skip_args *a)
{
    const int first = block * a->quads, all = (a->gemm.n + WIDE - 1) / WIDE, quads = min(a->quads, all - first);
    const int lanes = FN(lanes_at)((first + quads - 1) * WIDE, a);
    *last = lanes < LANES ? lanes : 0;
    *width = (long)(quads - 1) * FLOATS + 3 * lanes;
    return quads;
}

void FN(pack_body)(ulong group, SRC w, DST dst, const struct linear_fixed_skip_args *a)
{
    const int chunks = (a->gemm.k + CHUNK - 1) / CHUNK;
    const int block = (int)(group / chunks), chunk = (int)(group % chunks),
              there = min(CHUNK, a->gemm.k - chunk * CHUNK);
    int last;
    long width;
    const int quads = FN(quads_of)(block, &last, &width, a);
    dst += block * a->pitch + chunk * (a->head + CHUNK * width);
    for (int q = 0; q < quads; q++) {
        const int n = (block * a->quads + q) * WIDE, lanes = FN(lanes_at)(n, a);
        SRC rows[WIDE];
        for (int o = 0; o < QUAD * lanes; o++)
            rows[o] = w + (long)min(n + o, a->gemm.n - 1) * a->w_n + chunk * CHUNK;
        FN(pack_quad)(rows, lanes, there, dst + q * HEAD, (global int *)dst + a->head + q * FLOATS, width);
    }
    if (last && chunk + 1 == chunks) /* lanes that there are not are read behind the last row */
        for (int j = 0; j < LANES; j++)
            dst[a->head + there * width + j] = 0.0f;
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* acc[WIDE] += x * the weights from w on; those at `soon` will be needed, too. */
__attribute__((always_inline)) void FN(quad)(float *acc, const struct FN(code) *code, SRC w, SRC soon, float x,
                                             int lanes)
{
#pragma unroll
    for (int i = 0; i < FLOATS; i += LINE)
        PREFETCH(soon + i);
#pragma unroll
    for (int j = 0; j < LANES; j += V) {
        const global int *q = (const global int *)w + j;
        const IV q0 = LOAD_PART(0, q), q1 = LOAD_PART(0, q + lanes), q2 = LOAD_PART(0, q + 2 * lanes);
        const IV bits[QUAD] = {q0, q1, q2, FN(fourth)(q0, q1, q2)};
#pragma unroll
        for (int r = 0; r < QUAD; r++) {
            const FV sum = LOADV(acc, r * LANES + j);
            KEEPV(fma(FN(decoded)(bits[r], code + r), (FV)x, sum), acc, r * LANES + j);
        }
    }
}

/* What is the same for all inputs of a block. */
struct FN(block) {
    SRC x;
    SRC w;
    const global int *list;
    long head, width;
    int quads, last;
};

SRC FN(row_at)(const struct FN(block) *b, int k)
{
    return b->w + (k / CHUNK + 1) * b->head + k * b->width;
}

/* total += the products of a chunk's entries of the list. */
void FN(chunk)(float *total, const struct FN(block) *b, SRC head, int first, int past)
{
    const int whole = b->last ? b->quads - 1 : b->quads;
    float acc[QUADS * WIDE];
    struct FN(code) code[QUADS * QUAD];
    for (int i = 0; i < b->quads * WIDE; i += V)
        KEEPV((FV)0.0f, acc, i);
    for (int i = 0; i < b->quads * QUAD; i++)
        code[i] = FN(code_of)(((const global int *)head)[i / QUAD * HEAD + i % QUAD]);
    for (int i = first; i < past; i++) {
        SRC w = FN(row_at)(b, b->list[i]);
        SRC soon = FN(row_at)(b, b->list[i + AHEAD]);
        const float x = b->x[b->list[i]];
        for (int q = 0; q < whole; q++)
            FN(quad)(acc + q * WIDE, code + q * QUAD, w + q * FLOATS, soon + q * FLOATS, x, LANES);
        if (b->last)
            FN(quad)(acc + whole * WIDE, code + whole * QUAD, w + whole * FLOATS, soon + whole * FLOATS, x, b->last);
    }
    for (int q = 0; q < b->quads; q++)
        for (int o = 0; o < WIDE; o += V) {
            const FV scale = LOADV(head + q * HEAD + QUAD, o);
            KEEPV(fma(LOADV(acc, q * WIDE + o), scale, LOADV(total, q * WIDE + o)), total, q * WIDE + o);
        }
}

void FN(body)(ulong group, SRC x, SRC list, SRC w, SRC mc, SRC add, DST y, const struct linear_fixed_skip_args *a)
{
    const int block = (int)group;
    const global int *starts = (const global int *)list;
    struct FN(block) b = {.x = x, .w = w + block * a->pitch, .list = starts + a->list, .head = a->head};
    b.quads = FN(quads_of)(block, &b.last, &b.width, a);
    float total[QUADS * WIDE];
    for (int i = 0; i < b.quads * WIDE; i += V)
        KEEPV((FV)0.0f, total, i);
    for (int k = 0; k < a->gemm.k; k += CHUNK, starts++)
        if (starts[0] < starts[1])
            FN(chunk)(total, &b, FN(row_at)(&b, k) - b.head, starts[0], starts[1]);
    for (int q = 0; q < b.quads; q++) {
        const int n = (block * a->quads + q) * WIDE, lanes = FN(lanes_at)(n, a);
        for (int o = 0; o < QUAD * lanes && n + o < a->gemm.n; o++)
            y[n + o] = GEMM_RESULT(total[q * WIDE + o / lanes * LANES + o % lanes], mc, add, 0, n + o, &a->gemm);
    }
}

KERNEL FN(list)(SRC x, ulong x_off, DST dst, ulong dst_off, const struct linear_fixed_skip_args a)
{
    FN(list_body)(GROUP, x + x_off, dst + dst_off, &a);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct linear_fixed_skip_args a)
{
    FN(pack_body)(GROUP, w + w_off, dst + dst_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC list, ulong list_off, SRC w, ulong w_off, SRC mc, ulong c_off, SRC add,
                ulong add_off, DST y, ulong y_off, const struct linear_fixed_skip_args a)
{
    FN(body)(GROUP, x + x_off, list + list_off, w + w_off, mc + c_off, add + add_off, y + y_off, &a);
}
