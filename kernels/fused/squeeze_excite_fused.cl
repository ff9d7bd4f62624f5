/* squeeze_excite_fused.cl: the gate of a squeeze-and-excite block: means of channels, then two small layers of them.
 *
 *   s[n][c] = mean of x[n][c],  h[n][r] = mid( sum_c w1[r][c] s[n][c] + b1[r] ),
 *   y[n][k] = act( sum_r w2[k][r] h[n][r] + b2[k] )
 *
 *   pack    weights by inputs: for each input those of all outputs side by side, with zeros up to a multiple of 4.
 *           Group = WG floats.
 *   main    RUN times WG / LANES channels of an image, each shared by LANES work-items, whose means go to `means`
 *           [n][c]. With JOIN the last group of an image goes on with `excite`. Group = image * parts + part.
 *   excite  both layers of an image, the values between them in local memory. Group = image. Without JOIN.
 * In a layer a work-item has four outputs, and with others every parts-th input: what a group reads at once is dense.
 * Layouts: x N,C,spatial and y N,K with batch strides; weights packed.
 * Work-group: WG. Local memory: ROOM floats for the means and what is between the layers, and a float4 a work-item.
 * Defines: WG, LANES (reduce.clh), RUN 1 or 4, ROOM (a multiple of 4, C + R or more), JOIN 0 or 1 (needs PTX), MID_ACT
 * act_*, MID_BIAS 0 or 1, EPI_BIAS, EPI_ACT (epilogue.clh), X_HALF, Y_HALF (maps.clh). Means do not depend on RUN. */
#include "common/clcnn.clh"
#include "fused/squeeze_excite_args.h"
#include "common/epilogue.clh"
#include "conv_nvidia/mma.clh"
#ifndef LANES
#define LANES 32
#endif
#include "common/reduce.clh"
#ifndef FN
#define FN(x) squeeze_excite_fused_##x
#endif
#ifndef RUN
#define RUN 1
#endif
#ifndef ROOM
#define ROOM 1024
#endif
#ifndef JOIN
#define JOIN 0
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef MID_BIAS
#define MID_BIAS 0
#endif
#define SCRATCH (WG + ROOM / 4)
#define AHEAD (WG < 256 ? 16 : 8) /* rows of weights that a work-item waits for at a time */

RED_FOLD(FN(fold), red_sum)
RED_PART(FN(part), red_sum, FN(fold))

void FN(pack_body)(ulong group, SRC w, DST dst, const struct squeeze_pack_args *a)
{
    const int width = (a->outputs + 3) / 4 * 4;
    const long at = (long)group * WG + LANE;
    const int input = (int)(at / width), output = (int)(at % width);
    if (input < a->inputs)
        dst[at] = output < a->outputs ? w[(long)output * a->inputs + input] : 0.0f;
}

/* ---- the layers ------------------------------------------------------------------------------------------------ */

/* This work-item's part of four outputs. What is read past the last input counts as nothing. */
float4 FN(products)(const local float *v, int inputs, SRC w, int quads, int part, int parts)
{
    float4 sum = 0.0f;
    for (int i = part; i < inputs; i += AHEAD * parts) {
        float4 row[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            row[j] = *(const global float4 *)(w + (long)min(i + j * parts, inputs - 1) * quads * 4);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const float4 more = fma((float4)(v[min(i + j * parts, inputs - 1)]), row[j], sum);
            sum = i + j * parts < inputs ? more : sum; /* no branch, into which compilers would move the loads */
        }
    }
    return sum;
}

/* The sums of `count` quads of outputs from `first` on, in a fixed order, for the first so many work-items. */
float4 FN(layer)(const local float *v, int inputs, SRC w, int quads, int first, int count, local float4 *scratch)
{
    const int parts = min(WG / count, inputs), part = LANE / count;
    if (part < parts)
        scratch[LANE] = FN(products)(v, inputs, w + (first + LANE % count) * 4, quads, part, parts);
    for (int left = parts; left > 1; left = (left + 1) / 2) {
        const int half_of = (left + 1) / 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part + half_of < left)
            scratch[LANE] += scratch[LANE + half_of * count];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float4 sum = scratch[min(LANE, count - 1)];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

/* The gate of image n. */
void FN(gate)(long n, const global float *means, SRC w1, SRC b1, SRC w2, SRC bias, Y_DST y,
              const struct squeeze_excite_args *a, local float4 *scratch)
{
    local float *mean = (local float *)(scratch + WG), *hidden = mean + a->c;
    const int quads1 = (a->hidden + 3) / 4, quads2 = (a->k + 3) / 4;
    for (int c = LANE; c < a->c; c += WG)
        mean[c] = means[n * a->c + c];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int first = 0; first < quads1; first += WG) {
        const int count = min(WG, quads1 - first);
        float v[4];
        vstore4(FN(layer)(mean, a->c, w1, quads1, first, count, scratch), 0, v);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = (first + LANE) * 4 + i;
            if (LANE < count && r < a->hidden)
                hidden[r] = MID_ACT(v[i] + (MID_BIAS ? b1[r] : 0.0f), a->mid_p0, a->mid_p1);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int first = 0; first < quads2; first += WG) {
        const int count = min(WG, quads2 - first);
        float v[4];
        vstore4(FN(layer)(hidden, a->hidden, w2, quads2, first, count, scratch), 0, v);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int k = (first + LANE) * 4 + i;
            if (LANE < count && k < a->k)
                STORE_Y(EPILOGUE_OF(v[i], bias, k, 0.0f, a), y, n * a->y_n + k);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* ---- means ----------------------------------------------------------------------------------------------------- */

/* RUN sums of parts, each added up over the LANES work-items of a channel, for all of them. */
void FN(share)(float v[RUN], local float4 *scratch)
{
    local float *mine = (local float *)scratch + LANE * RUN;
#pragma unroll
    for (int j = 0; j < RUN; j++)
        mine[j] = v[j];
    for (int s = LANES / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (LANE % LANES < s)
#pragma unroll
            for (int j = 0; j < RUN; j++)
                mine[j] += mine[s * RUN + j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int j = 0; j < RUN; j++)
        v[j] = ((local float *)scratch)[LANE / LANES * LANES * RUN + j];
    barrier(CLK_LOCAL_MEM_FENCE);
}

void FN(body)(ulong group, X_SRC x, DST means, DST arrived, SRC w1, SRC b1, SRC w2, SRC bias, SRC add, Y_DST y,
              const struct squeeze_excite_args *a, local float4 *scratch)
{
    const uint parts = (uint)a->parts;
    const long n = (uint)group / parts;
    const int first = (int)((uint)group % parts) * (RUN * (WG / LANES)) + LANE / LANES;
    float v[RUN];
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        const int c = first + j * (WG / LANES);
        v[j] = c < a->c ? FN(part)(x + n * a->x_n + c * a->length, a->length, 1, LANE % LANES) : 0.0f;
    }
    FN(share)(v, scratch);
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        const int c = first + j * (WG / LANES);
        if (LANE % LANES == 0 && c < a->c)
            means[n * a->c + c] = v[j] / (float)a->length;
    }
#if JOIN
    local uint *before = (local uint *)scratch;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (LANE == 0) {
        uint others;
        ARRIVE(others, (global uint *)arrived + n, parts - 1);
        *before = others;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool last = *before == parts - 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (last)
        FN(gate)(n, means, w1, b1, w2, bias, y, a, scratch);
#endif
}

void FN(excite_body)(ulong group, SRC means, SRC w1, SRC b1, SRC w2, SRC bias, SRC add, Y_DST y,
                     const struct squeeze_excite_args *a, local float4 *scratch)
{
    FN(gate)((long)group, means, w1, b1, w2, bias, y, a, scratch);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct squeeze_pack_args a)
{
    FN(pack_body)(GROUP, w + w_off, dst + dst_off, &a);
}

KERNEL FN(main)(X_SRC x, ulong x_off, DST means, ulong means_off, DST arrived, ulong arrived_off, SRC w1, ulong w1_off,
                SRC b1, ulong b1_off, SRC w2, ulong w2_off, SRC bias, ulong bias_off, SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct squeeze_excite_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, means + means_off, arrived + arrived_off, w1 + w1_off, b1 + b1_off, w2 + w2_off,
             bias + bias_off, add + add_off, y + y_off, &a, scratch);
}

KERNEL FN(excite)(SRC means, ulong means_off, SRC w1, ulong w1_off, SRC b1, ulong b1_off, SRC w2, ulong w2_off,
                  SRC bias, ulong bias_off, SRC add, ulong add_off, Y_DST y, ulong y_off,
                  const struct squeeze_excite_args a)
{
    local float4 scratch[SCRATCH];
    FN(excite_body)(GROUP, means + means_off, w1 + w1_off, b1 + b1_off, w2 + w2_off, bias + bias_off, add + add_off,
                    y + y_off, &a, scratch);
}
