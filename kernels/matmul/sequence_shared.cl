/* sequence_shared.cl: all steps of a recurrent layer, as sequence_ref.cl has them, whose weights lie in the registers
 * of all groups together, for NVIDIA's GPUs.
 *
 * After Diamos et al., "Persistent RNNs: Stashing Recurrent Weights On-Chip" (2016). A group has all gates of UNITS
 * units, a warp those of one: of each gate's weights a work-item keeps every 32nd four. In each step the warp adds up
 * its products with the state of TB rows, and work-item t applies the gates to row t. Where a group has more rows it
 * takes turns with parts of them, which hides the time that stores need to get around. The other groups read what it
 * stores: a number with its step in one word of 64 bits, so that none must wait for anything but the word. There are
 * two sets of words: who writes a step's has read all of the step before, and so no one needs those of the one before
 * that any more. A step's number counts on over all runs, since words are never cleared.
 * So all groups must be on the device at once. A wait ends after BOUND looks; then what runs next computes the layer
 * again (sequence_shared.c), which `again` tells it.
 *
 * Layouts: rows of x[t * n + row][GATES * size], h, c, y and d lie batch strides apart; w packed by entry pack:
 * [unit][gate][DEPTH], zeros past the last unit. shared, which holds zeros before the first run: how often the layer
 * ran, groups that are done, whether one waited in vain, again; and, on a boundary of 8 bytes, words[2][n][DEPTH].
 * Index map: group = tile of PARTS * TB rows * ceil(size / UNITS) + tile of UNITS units.
 * Work-group: WG = 32 * UNITS. Local memory: TB rows of the state, twice, and what a work-item keeps of each part.
 * Defines: WG; DEPTH units with those that are zeros, a multiple of 128; GATES 3 or 4; TB rows, 32 at most; PARTS;
 * BOUND. */
#ifndef WG
#define WG 256
#endif
#ifndef DEPTH
#error "DEPTH is required, and so is a device with PTX"
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/activation.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) sequence_shared_##x
#endif
#ifndef GATES
#define GATES 4
#endif
#ifndef TB
#define TB 2
#endif
#ifndef PARTS
#define PARTS 1
#endif
#ifndef BOUND
#define BOUND 1000
#endif
#include "matmul/gates.clh"
#define UNITS (WG / 32)
#define FOURS (DEPTH / 128)               /* of a gate's weights that a work-item keeps */
#define EACH ((TB * DEPTH + WG - 1) / WG) /* numbers of the state that a work-item brings */
#define WORD_LOOK(v, p) asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory")
#define WORD_STORE(p, v) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory")

/* Brings the rows of a state to local memory; false: they did not come. Number e is that at LANE + e * WG, and `wanted`
 * has the bit of those that are there. */
bool FN(bring)(local float *state, const global ulong *words, uint wanted, uint step)
{
    ulong word[EACH];
    uint missing = wanted;
    for (int looks = 0; missing && looks < BOUND; looks++) {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (wanted >> e & 1)
                WORD_LOOK(word[e], words + LANE + e * WG);
        missing = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (wanted >> e & 1)
                missing |= (uint)(word[e] >> 32) != step ? 1u << e : 0u;
    }
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (wanted >> e & 1)
            state[LANE + e * WG] = as_float((uint)word[e]);
    return !missing;
}

/* The sums of a warp's gates, of which work-item t gets those of row t. */
void FN(multiply)(float mine[4], const local float4 *state, const float4 wv[GATES][FOURS], int lane)
{
    for (int t = 0; t < TB; t++) {
        float s[GATES];
#pragma unroll
        for (int g = 0; g < GATES; g++)
            s[g] = 0.0f;
#pragma unroll
        for (int j = 0; j < FOURS; j++) {
            const float4 hv = state[t * (DEPTH / 4) + j * 32 + lane];
#pragma unroll
            for (int g = 0; g < GATES; g++)
                s[g] = fma(hv.w, wv[g][j].w, fma(hv.z, wv[g][j].z, fma(hv.y, wv[g][j].y, fma(hv.x, wv[g][j].x, s[g]))));
        }
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2)
#pragma unroll
            for (int g = 0; g < GATES; g++) {
                float other;
                FROM_LANE(other, s[g], apart);
                s[g] += other;
            }
#pragma unroll
        for (int g = 0; g < GATES; g++)
            mine[g] = lane == t ? s[g] : mine[g];
    }
}

/* The last group to end tells whether one waited in vain. */
void FN(end)(global uint *shared, bool vain, uint last)
{
    uint before;
    if (vain)
        atomic_or(shared + 2, 1u);
    ARRIVE(before, shared + 1, last);
    if (before == last) {
        shared[3] = atomic_xchg(shared + 2, 0u);
        shared[0] += 1;
    }
}

/* Which numbers there are of `rows` rows, TB at most. */
uint FN(numbers)(int rows, int size)
{
    uint there = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = LANE + e * WG;
        there |= i / DEPTH < rows && i % DEPTH < size ? 1u << e : 0u;
    }
    return there;
}

/* What the inputs add to the gates of a row. */
void FN(ask)(float given[GATES], SRC x, bool owns, int size)
{
#pragma unroll
    for (int g = 0; g < GATES; g++)
        given[g] = owns ? x[g * size] : 0.0f;
}

void FN(body)(ulong group, SRC x, SRC h, SRC c, SRC w, SRC b, DST y, DST d, global uint *shared,
              const struct sequence_args *a, local float4 *scratch)
{
    local float *const state = (local float *)scratch, *const kept = state + 2 * TB * DEPTH + LANE;
    local int *const over = (local int *)(state + 2 * TB * DEPTH + PARTS * WG); /* a wait was too long, by turns */
    global ulong *const words = (global ulong *)(((ulong)(shared + 4) + 7) & ~7ul);
    const int size = a->size, steps = a->steps, across = (size + UNITS - 1) / UNITS, tile = (int)group / across;
    const int lane = LANE % 32, unit = ((int)group - tile * across) * UNITS + LANE / 32, known = min(unit, size - 1);
    const int row0 = tile * PARTS * TB, rows = min(PARTS * TB, a->n - row0), set = a->n * DEPTH;
    const int parts = (rows + TB - 1) / TB, ticks = steps * parts;
    const long towards = a->reverse ? -(long)a->n : a->n;
    long from = a->reverse ? (long)(steps - 1) * a->n : 0; /* the first row of x and y of this step */
    float4 wv[GATES][FOURS];
    float given[GATES], bias[GATES];
    uint step = shared[0] * (uint)steps; /* of the run before this one, the last */
    bool vain = false;

#pragma unroll
    for (int g = 0; g < GATES; g++) {
#pragma unroll
        for (int j = 0; j < FOURS; j++)
            wv[g][j] = ((const global float4 *)(w + (long)(known * GATES + g) * DEPTH))[j * 32 + lane];
        bias[g] = GATES == 3 ? b[g * size + known] : 0.0f;
    }
    for (int p = 0; p < parts; p++) {
        const long row = row0 + min(p * TB + lane, rows - 1);
        kept[p * WG] = GATES == 4 ? c[row * a->c_n + known] : h[row * a->h_n + known];
    }
    for (int i = LANE; i < 2 * TB * DEPTH; i += WG)
        state[i] = 0.0f; /* past the last unit it stays so */
    if (LANE < 2)
        over[LANE] = 0;
    FN(ask)(given, x + (from + row0 + lane) * a->x_n + known, lane < min(TB, rows), size);
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int tick = 0, s = 0, p = 0; tick < ticks && !vain; tick++) {
        const int turn = tick % 2, first = row0 + p * TB, here = min(TB, rows - p * TB);
        const bool owns = lane < here && unit < size, ends = p + 1 == parts;
        const int next = ends ? row0 : first + TB; /* the first row of the next turn */
        const long then = ends ? from + towards : from;
        local float *const now = state + turn * TB * DEPTH;
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}, coming[GATES];
        const uint wanted = FN(numbers)(here, size);
        FN(ask)(coming, x + (then + next + lane) * a->x_n + known,
                tick + 1 < ticks && lane < min(TB, row0 + rows - next), size);
        if (s > 0) {
            if (!FN(bring)(now, words + (1 - s % 2) * set + first * DEPTH, wanted, step))
                over[turn] = 1;
        } else {
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int i = LANE + e * WG;
                if (wanted >> e & 1)
                    now[i] = h[(first + i / DEPTH) * a->h_n + i % DEPTH];
            }
        }
        float before = kept[p * WG];
        barrier(CLK_LOCAL_MEM_FENCE);
        vain = over[turn] != 0;
        FN(multiply)(sums, (const local float4 *)now, wv, lane);
        const float result = FN(next)(sums, given, bias, &before);
        if (owns) {
            const long row = first + lane;
            WORD_STORE(words + s % 2 * set + row * DEPTH + unit, (ulong)(step + 1) << 32 | as_uint(result));
            y[(from + row) * a->y_n + unit] = result;
#if GATES == 4
            if (s + 1 == steps)
                d[row * a->d_n + unit] = before;
#endif
        }
        kept[p * WG] = before;
#pragma unroll
        for (int g = 0; g < GATES; g++)
            given[g] = coming[g];
        from = then;
        step += ends;
        s += ends;
        p = ends ? 0 : p + 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE == 0)
        FN(end)(shared, vain, (uint)(across * ((a->n + PARTS * TB - 1) / (PARTS * TB)) - 1));
}

KERNEL FN(main)(SRC x, ulong x_off, SRC h, ulong h_off, SRC c, ulong c_off, SRC w, ulong w_off, SRC b, ulong b_off,
                DST y, ulong y_off, DST d, ulong d_off, global uint *shared, ulong shared_off,
                const struct sequence_args a)
{
    local float4 scratch[(2 * TB * DEPTH + PARTS * WG) / 4 + 1];
    FN(body)(GROUP, x + x_off, h + h_off, c + c_off, w + w_off, b + b_off, y + y_off, d + d_off, shared + shared_off,
             &a, scratch);
}

/* A unit's weights, gate by gate. */
void FN(pack_body)(ulong group, SRC w, DST packed, const struct sequence_args *a)
{
    const int size = a->size, unit = (int)group;
    for (int i = LANE; i < GATES * DEPTH; i += WG) {
        const int g = i / DEPTH, k = i % DEPTH;
        packed[(long)unit * GATES * DEPTH + i] = k < size ? w[(long)(g * size + unit) * a->w_n + k] : 0.0f;
    }
}

KERNEL FN(pack)(SRC w, ulong w_off, DST packed, ulong packed_off, const struct sequence_args a)
{
    FN(pack_body)(GROUP, w + w_off, packed + packed_off, &a);
}
