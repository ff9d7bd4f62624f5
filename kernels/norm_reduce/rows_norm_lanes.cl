/* rows_norm_lanes.cl: instance, group, layer, RMS and L2 norm by several work-items a row, for GPUs.
 *
 * main:   a row's elements are read once, all at once where registers hold them
 * sums:   long rows in parts, first: of each part its mean, what that is off by, and the squares of differences, to
 *         sums[row][part][3]
 * apply:  then: the results of one part, from what all parts of the row have
 * The mean is taken first, then differences to it, which also tell how far it is off. KIND says what a norm is
 * (norm_vectors.clh); y = act(norm).
 * Layouts: struct norm_vector_args.
 * Index map: main: COLUMNS 0: group = WG / LANES rows; 1: group = row * tiles + tile, a tile is WG / LANES of the
 * `inner` elements side by side. sums, apply: group = row * parts + part.
 * Work-group: LANES work-items a row. Local memory: 2 * WG floats.
 * Defines: KIND (0, 1, 2; default 0), EPI_ACT act_*, WG; COLUMNS, LANES, KEPT, LOOPS (lanes.clh; sums and apply: 0, WG,
 * any, 0); INDEX, uint or ulong: that of groups; VEC (1; 4: neighbours share a parameter by fours, in which parts and
 * rows are counted: a work-item has four neighbours at a time, read at once where they are aligned). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#include "norm_reduce/lanes.clh"
#ifndef FN
#define FN(x) rows_norm_lanes_##x
#endif
#include "norm_reduce/norm_vectors.clh"
#ifndef INDEX
#define INDEX ulong
#endif
#ifndef VEC
#define VEC 1
#endif
#define SCRATCH ((WG + 1) / 2)
#undef AT_ONCE
#define AT_ONCE (KEPT < 8 ? KEPT : 8)

#undef AT
#undef APART
/* This work-item's element e of a block, counted from the block's first, and where that is behind it. */
#define AT(e) (VEC == 1 ? IN_BLOCK(0, e) : (MEMBER + (e) / VEC * LANES) * VEC + (e) % VEC)
#define APART(e, step) (COLUMNS ? (long)AT(e) * (int)(step) : AT(e))

LANES_SHARE(FN(share), float2, LANES_ADD)

/* Whether fours that begin at p are vectors. */
bool FN(aligned)(SRC p)
{
    return VEC == 4 && (ulong)p / sizeof(float) % 4 == 0;
}

/* This work-item's elements of a block, of which the row has n; zeros past them. */
void FN(load)(SRC x, long step, int n, float v[KEPT])
{
    if (FN(aligned)(x)) {
#pragma unroll
        for (int e = 0; e + 3 < KEPT; e += 4) {
            const float4 four = AT(e) < n ? *(const global float4 *)(x + AT(e)) : (float4)(0.0f);
            v[e] = four.x;
            v[e + 1] = four.y;
            v[e + 2] = four.z;
            v[e + 3] = four.w;
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < KEPT; e++)
        v[e] = AT(e) < n ? x[APART(e, step)] : 0.0f;
}

/* Sums of v - mean (.x) and of its square (.y) over those of the elements that the row has. */
float2 FN(sums_of)(const float v[KEPT], int n, float mean)
{
    float2 s[2] = {(float2)(0.0f), (float2)(0.0f)};
#pragma unroll
    for (int e = 0; e < KEPT; e++) {
        const float d = AT(e) < n ? v[e] - mean : 0.0f;
        s[e % 2] += (float2)(d, d * d);
    }
    return s[0] + s[1];
}

/* Which parameter element i of a row has, counted from the row's first, kept up to date as i grows. */
struct FN(place) {
    INDEX c;
    uint rest;
};

struct FN(place) FN(place_of)(INDEX i, uint plane)
{
    struct FN(place) p = {i, 0};
    if (plane) {
        p.c = i / plane;
        p.rest = (uint)(i - p.c * plane);
    }
    return p;
}

void FN(advance)(struct FN(place) *p, uint plane)
{
    const uint by = LANES * VEC;
    if (plane == 0) {
        p->c += by;
        return;
    }
    p->rest += by;
    const uint over = plane >= by ? p->rest >= plane : p->rest / plane;
    p->c += over;
    p->rest -= over * plane;
}

/* Results of a block, AT_ONCE at once: parameters are read before any is waited for. first: the number of the block's
 * first element where rows are parts of others. weight, bias: at the row's first parameter. */
void FN(write)(const float v[KEPT], SRC weight, SRC bias, DST y, long step, int n, INDEX first, float mean, float shift,
               float scale, const struct norm_vector_args *a)
{
    const bool aligned = FN(aligned)(y);
    const uint plane = COLUMNS ? 0 : (uint)a->plane;
    struct FN(place) p = FN(place_of)(first + AT(0), plane);
#pragma unroll
    for (int some = 0; some < KEPT; some += AT_ONCE) {
        float w[AT_ONCE], b[AT_ONCE], r[AT_ONCE];
        INDEX c[AT_ONCE];
#pragma unroll
        for (int e = 0; e < AT_ONCE; e += VEC) {
            c[e] = AT(some + e) < n ? p.c : 0;
            FN(advance)(&p, plane);
            w[e] = 1.0f;
            b[e] = 0.0f;
        }
        if (a->weight)
#pragma unroll
            for (int e = 0; e < AT_ONCE; e += VEC)
                w[e] = weight[c[e]];
        if (a->bias)
#pragma unroll
            for (int e = 0; e < AT_ONCE; e += VEC)
                b[e] = bias[c[e]];
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            r[e] = EPI_ACT(((v[some + e] - mean) - shift) * scale * w[e / VEC * VEC] + b[e / VEC * VEC], a->p0, a->p1);
        if (aligned) {
#pragma unroll
            for (int e = 0; e + 3 < AT_ONCE; e += 4)
                if (AT(some + e) < n)
                    *(global float4 *)(y + AT(some + e)) = (float4)(r[e], r[e + 1], r[e + 2], r[e + 3]);
            continue;
        }
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            if (AT(some + e) < n)
                y[APART(some + e, step)] = r[e];
    }
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct norm_vector_args *a, local float4 *scratch)
{
    local float2 *buf = (local float2 *)scratch;
#if COLUMNS
    const INDEX row = (INDEX)group / (INDEX)a->parts, column = ((INDEX)group - row * (INDEX)a->parts) * ROWS + WHICH;
    const int n = column < (INDEX)a->inner ? (int)a->length : 0;
#else
    const INDEX row = (INDEX)group * ROWS + WHICH, column = 0;
    const int n = row < (INDEX)a->rows ? (int)a->length : 0;
#endif
    const INDEX item = row / (INDEX)a->middle, m = row - item * (INDEX)a->middle;
    SRC xr = x + item * a->x_n + m * a->middle_step + column;
    DST yr = y + item * a->y_n + m * a->middle_step + column;
    const long x_by = COLUMNS ? a->x_step : 1, y_by = COLUMNS ? a->y_step : 1;
    const float count = (float)a->length;
    float v[KEPT], mean = 0.0f, shift = 0.0f;
    float2 sums = (float2)(0.0f);
    if (!LOOPS)
        FN(load)(xr, a->x_step, n, v);
    if (KIND == 0) {
        FOR_BLOCKS(b, n)
        {
            if (LOOPS)
                FN(load)(xr + b * x_by, a->x_step, n - b, v);
            sums += FN(sums_of)(v, n - b, 0.0f);
        }
        mean = FN(share)(sums, buf).x / count;
    }
    sums = (float2)(0.0f);
    FOR_BLOCKS(b, n)
    {
        if (LOOPS)
            FN(load)(xr + b * x_by, a->x_step, n - b, v);
        sums += FN(sums_of)(v, n - b, mean);
    }
    sums = FN(share)(sums, buf);
    NORM_SCALE(float, sums.x, sums.y, count, a->eps, shift)
    FOR_BLOCKS(b, n)
    {
        if (LOOPS)
            FN(load)(xr + b * x_by, a->x_step, n - b, v);
        FN(write)(v, weight + m * a->channels, bias + m * a->channels, yr + b * y_by, a->y_step, n - b, b, mean, shift,
                  scale, a);
    }
}

/* Where a part of a row lies in x (.x) and y (.y), its first element (.z), how many they are (.w). */
long4 FN(part)(INDEX row, INDEX part, const struct norm_vector_args *a)
{
    const INDEX item = row / (INDEX)a->middle, m = row - item * (INDEX)a->middle;
    const long first = part * a->part_length, at = m * a->middle_step + first;
    return (long4)(item * a->x_n + at, item * a->y_n + at, first, min((long)a->part_length, a->length - first));
}

/* Differences are to the mean of the part's first block, as it is rounded: what it lacks goes along beside it. */
void FN(sums_body)(ulong group, SRC x, DST sums, const struct norm_vector_args *a, local float4 *scratch)
{
    local float2 *buf = (local float2 *)scratch;
    const INDEX row = (INDEX)group / (INDEX)a->parts;
    const long4 part = FN(part)(row, (INDEX)group - row * (INDEX)a->parts, a);
    float v[KEPT], mean = 0.0f;
    const int n = (int)part.w;
    FN(load)(x + part.x, 1, n, v);
    if (KIND == 0)
        mean = FN(share)(FN(sums_of)(v, n, 0.0f), buf).x / (float)min(LANES * KEPT, n);
    float2 s = FN(sums_of)(v, n, mean);
    for (int block = LANES * KEPT; block < n; block += LANES * KEPT) {
        FN(load)(x + part.x + block, 1, n - block, v);
        s += FN(sums_of)(v, n - block, mean);
    }
    s = FN(share)(s, buf);
    if (LANE == 0) {
        const float off = KIND == 0 ? s.x / (float)part.w : 0.0f;
        sums[3 * group] = mean;
        sums[3 * group + 1] = off;
        sums[3 * group + 2] = KIND == 0 ? fma(-off, s.x, s.y) : s.y;
    }
}

void FN(apply_body)(ulong group, SRC x, SRC weight, SRC bias, SRC sums, DST y, const struct norm_vector_args *a,
                    local float4 *scratch)
{
    local float2 *buf = (local float2 *)scratch;
    const INDEX row = (INDEX)group / (INDEX)a->parts;
    const long4 part = FN(part)(row, (INDEX)group - row * (INDEX)a->parts, a);
    const long m = row % (INDEX)a->middle;
    SRC of = sums + 3 * row * (INDEX)a->parts;
    float v[KEPT], pivot = 0.0f, shift = 0.0f;
    const int parts = (int)a->parts, n = (int)part.w;
    FN(load)(x + part.x, 1, n, v); /* before what follows, which waits */
    float2 s = (float2)(0.0f);
    if (KIND == 0) {
        for (int i = LANE; i < parts; i += WG)
            s.x += of[3 * i];
        pivot = FN(share)(s, buf).x / (float)parts;
    }
    s = (float2)(0.0f);
    for (int i = LANE; i < parts; i += WG) {
        const float many = (float)min((long)a->part_length, a->length - i * a->part_length);
        const float d = (of[3 * i] - pivot) + of[3 * i + 1];
        s += (float2)(many * d, fma(many * d, d, of[3 * i + 2]));
    }
    s = FN(share)(s, buf);
    const float count = (float)a->length;
    NORM_SCALE(float, s.x, s.y, count, a->eps, shift)
    for (int block = 0; block < n; block += LANES * KEPT) {
        if (block)
            FN(load)(x + part.x + block, 1, n - block, v);
        FN(write)(v, weight + m * a->channels, bias + m * a->channels, y + part.y + block, 1, n - block,
                  (INDEX)(part.z + block), pivot, shift, scale, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                const struct norm_vector_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a, scratch);
}

KERNEL FN(sums)(SRC x, ulong x_off, DST sums, ulong sums_off, const struct norm_vector_args a)
{
    local float4 scratch[SCRATCH];
    FN(sums_body)(GROUP, x + x_off, sums + sums_off, &a, scratch);
}

KERNEL FN(apply)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC sums, ulong sums_off,
                 DST y, ulong y_off, const struct norm_vector_args a)
{
    local float4 scratch[SCRATCH];
    FN(apply_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, y + y_off, &a, scratch);
}
