/* linear_skip.cl: a row of x times rows of w, of which those numbers that meet a zero of x are not read, on any device.
 *
 *   y[n] = act( sum_k x[k] * w[n][k] + c[n] + add[n] )  (gemm_operands.clh; alpha and beta are 1)
 *
 *   pack  blocks of WIDTH outputs: for each k the weights of the block side by side; the last block as wide as its
 *         outputs need, up to a multiple of 4, with zeros for outputs that lack. Group = block * ceil(K / DEEP) + DEEP
 *         inputs.
 *   main  a block and `share` inputs. The group lists its inputs that are not zero, ascending (-0 is zero, NaN is not;
 *         without `skip` every one), and leaves its sums in parts[block][part][WIDTH]. LANES work-items side by side
 *         have four outputs each, and every TURNS-th entry of the list. With JOIN the last group of a block goes on
 *         with `add`.
 *         Group = part * blocks + block.
 *   add   a block: its parts in a fixed order. Group = block. Without JOIN.
 * Layouts: x dense; w of pack has w_n elements between rows.
 * Work-group: WG. Local memory: the list, of at most MOST inputs, or a float4 for each work-item.
 * Defines: WG (a multiple of LANES), JOIN 0 or 1 (needs PTX), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) linear_skip_##x
#endif
#include "matmul/gemm_operands.clh"
#ifndef JOIN
#define JOIN 0
#endif
#define LANES 64
#define WIDTH 256 /* four outputs for each of them */
#define TURNS (WG / LANES)
#define MOST 1024 /* inputs of a group */
#define WORDS 32  /* that have a bit for each */
#define AHEAD 8   /* rows of weights that a work-item waits for at a time */
#define DEEP 8    /* inputs that a group packs: a sector of memory */
#define SCRATCH ((2 * MOST + WORDS) / 4)
#if SCRATCH < WG
#error "a work-group must fit the list"
#endif

/* Floats of a block's rows. */
int FN(width_of)(int block, const struct linear_skip_args *a)
{
    return min(WIDTH, (a->gemm.n - block * WIDTH + 3) / 4 * 4);
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

void FN(pack_body)(ulong group, SRC w, DST dst, const struct linear_skip_args *a)
{
    const int steps = (a->gemm.k + DEEP - 1) / DEEP;
    const int block = (int)(group / steps), first = (int)(group % steps) * DEEP;
    const int width = FN(width_of)(block, a), count = min(DEEP, a->gemm.k - first);
    dst += (long)block * a->gemm.k * WIDTH + (long)first * width;
    for (int o = LANE; o < width; o += WG) {
        const int n = block * WIDTH + o;
        for (int k = 0; k < count; k++)
            dst[k * width + o] = n < a->gemm.n ? w[n * a->w_n + first + k] : 0.0f;
    }
}

/* ---- what is not zero ------------------------------------------------------------------------------------------ */

/* The list: which of `inputs` inputs from x on there are, and their values. */
struct FN(list) {
    local int *at;
    local float *values;
    int count;
};

/* Bits of inputs tell how many come before each one. */
struct FN(list) FN(list_of)(SRC x, int inputs, int skip, local float4 *scratch)
{
    struct FN(list) list;
    local uint *bits = (local uint *)scratch;
    list.at = (local int *)bits + WORDS;
    list.values = (local float *)list.at + MOST;
    list.count = 0;
    for (int i = LANE; i < WORDS; i += WG)
        bits[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = LANE; i < inputs; i += WG)
        if (!skip || as_uint(x[i]) << 1 != 0)
            atomic_or(bits + i / 32, 1u << i % 32);
    barrier(CLK_LOCAL_MEM_FENCE);
    int word = 0;
    for (int i = LANE; i < inputs; i += WG) {
        for (; word < i / 32; word++)
            list.count += (int)popcount(bits[word]);
        const uint bit = 1u << i % 32;
        if (bits[word] & bit) {
            const int before = list.count + (int)popcount(bits[word] & (bit - 1));
            list.at[before] = i;
            list.values[before] = x[i];
        }
    }
    for (; word < WORDS; word++)
        list.count += (int)popcount(bits[word]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return list;
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* The sum of what the work-items of a lane have, in the order of their turns, for the first of them. */
float4 FN(meet)(float4 sum, local float4 *scratch)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[LANE] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < LANES)
        for (int turn = 1; turn < TURNS; turn++)
            sum += scratch[turn * LANES + LANE];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

/* This work-item's part of the products with the rows of weights from w on. What is read past the last entry counts as
 * nothing: reading it is faster than asking whether to. */
float4 FN(products)(const struct FN(list) *list, SRC w, int width)
{
    float4 sum = 0.0f;
    for (int i = LANE / LANES; i < list->count; i += AHEAD * TURNS) {
        float4 row[AHEAD];
        float x[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int entry = min(i + j * TURNS, list->count - 1);
            x[j] = list->values[entry];
            row[j] = *(const global float4 *)(w + (long)list->at[entry] * width);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            sum = i + j * TURNS < list->count ? fma((float4)(x[j]), row[j], sum) : sum;
    }
    return sum;
}

/* The results of a block, whose parts lie from `parts` on. */
void FN(add_parts)(int block, const global float *parts, SRC mc, SRC add, DST y, const struct linear_skip_args *a,
                   local float4 *scratch)
{
    const int lane = LANE % LANES, n = block * WIDTH + lane * 4;
    parts += (long)block * a->parts * WIDTH + lane * 4;
    float4 sum = 0.0f;
#pragma unroll 8
    for (int part = LANE / LANES; part < a->parts; part += TURNS)
        sum += *(const global float4 *)(parts + (long)part * WIDTH);
    float v[4];
    vstore4(FN(meet)(sum, scratch), 0, v);
    if (LANE < LANES) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (n + i < a->gemm.n)
                v[i] = GEMM_RESULT(v[i], mc, add, 0, n + i, &a->gemm);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (n + i < a->gemm.n)
                y[n + i] = v[i];
    }
}

void FN(body)(ulong group, SRC x, SRC w, DST parts, DST arrived, SRC mc, SRC add, DST y,
              const struct linear_skip_args *a, local float4 *scratch)
{
    const int blocks = (a->gemm.n + WIDTH - 1) / WIDTH, block = (int)(group % blocks), part = (int)(group / blocks);
    const int first = part * a->share, width = FN(width_of)(block, a), lane = LANE % LANES;
    const struct FN(list) list = FN(list_of)(x + first, min(a->share, a->gemm.k - first), a->skip, scratch);
    SRC rows = w + (long)block * a->gemm.k * WIDTH + (long)first * width + min(lane * 4, width - 4);
    const float4 sum = FN(meet)(FN(products)(&list, rows, width), scratch);
    if (LANE < LANES)
        *(global float4 *)(parts + ((long)block * a->parts + part) * WIDTH + lane * 4) = sum;
#if JOIN
    local uint *before = (local uint *)scratch;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (LANE == 0) {
        uint others;
        ARRIVE(others, (global uint *)arrived + block, (uint)a->parts - 1);
        *before = others;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (*before == (uint)a->parts - 1)
        FN(add_parts)(block, parts, mc, add, y, a, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
}

void FN(add_body)(ulong group, SRC parts, SRC mc, SRC add, DST y, const struct linear_skip_args *a,
                  local float4 *scratch)
{
    FN(add_parts)((int)group, parts, mc, add, y, a, scratch);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct linear_skip_args a)
{
    FN(pack_body)(GROUP, w + w_off, dst + dst_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, DST parts, ulong parts_off, DST arrived, ulong arrived_off,
                SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off, const struct linear_skip_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, parts + parts_off, arrived + arrived_off, mc + c_off, add + add_off,
             y + y_off, &a, scratch);
}

KERNEL FN(add)(SRC parts, ulong parts_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off,
               const struct linear_skip_args a)
{
    local float4 scratch[WG];
    FN(add_body)(GROUP, parts + parts_off, mc + c_off, add + add_off, y + y_off, &a, scratch);
}
