/* batch_norm_train_grad_groups.cl: the gradients of batch norm by the batch's own statistics, for GPUs.
 *
 *   dbias[c] = sum of dy, dweight[c] = sum of dy * n, with n = (x - mean[c]) / sqrt(var[c] + eps), over all items; dy
 *   is 0 where y was clipped dx = weight[c] / sqrt(var[c] + eps) * (dy - dbias[c] / M - n * dweight[c] / M), M the
 *   elements of a channel
 *
 * FN(sums_of): a group adds up its chunk. FN(main): every group adds up the sums of its channel, in the same order, and
 * computes its chunk of dx. FN(held): both, where a work-item holds its part of the chunk in registers and groups may
 * wait for each other, or each has a channel.
 * Layouts: N,C,(...) with batch strides; parts [C][parts][2], sums of dy and of dy * (x - mean).
 * Index map: group = c * parts + part (channel_chunks.clh). Work-group: WG, at least as many as parts, a power of two.
 * Local memory: 2 * WG + 32 floats.
 * Defines: WG, QUAD, WAITS (channel_chunks.clh), HELD floats of a work-item of dy and of x. */
#include "common/clcnn.clh"
#ifndef FN
#define FN(x) batch_norm_train_grad_groups_##x
#endif
#include "norm_reduce/channel_chunks.clh"
#define SCRATCH ((WG + SHARES + 1) / 2)
#ifndef HELD
#define HELD 8
#endif
#define HELD_QUADS (HELD / QUAD)

/* dy where y, made of x, lies between the limits; 0 elsewhere. */
float4 FN(between)(float4 dy, float4 x, float centre, float scale, float shift, const struct channel_chunks_args *a)
{
    const float4 y = fma(x - centre, scale, shift);
    return select((float4)(0.0f), dy, (y > a->low) & (y < a->high));
}

float2 FN(of_quads)(float4 first, float4 second)
{
    return QUAD == 4 ? (float2)(first.x + first.y + (first.z + first.w), second.x + second.y + (second.z + second.w))
                     : (float2)(first.x, second.x);
}

void FN(sums_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, DST parts,
                   const struct channel_chunks_args *a, local float4 *scratch)
{
    struct FN(chunk_walk) w = FN(first_of)(group, a);
    const float centre = mean[w.c], scale = weight[w.c] * (1.0f / sqrt(var[w.c] + a->eps)), shift = bias[w.c];
    SRC xc = x + w.c * a->length;
    SRC yc = dy + w.c * a->length;
    float4 first = 0.0f, second = 0.0f;
    DST to = parts + ((long)w.c * a->parts + w.part) * 2;
    while (w.left > 0) {
        const float4 v = QUAD_AT(xc + w.n * a->x_n + w.i);
        const float4 slope = FN(between)(QUAD_AT(yc + w.n * a->dy_n + w.i), v, centre, scale, shift, a);
        first += slope;
        second = fma(slope, v - centre, second);
        FN(go_on)(&w, a);
    }
    const float2 all = FN(total)(FN(of_quads)(first, second), (local float2 *)scratch);
    if (LANE == 0) {
        to[0] = all.x;
        to[1] = all.y;
    }
}

KERNEL FN(sums_of)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                   SRC var, ulong var_off, SRC bias, ulong bias_off, DST parts, ulong parts_off,
                   const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(sums_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
                  parts + parts_off, &a, scratch);
}

/* The sums of a channel from those of its parts, which others may just have written. */
float2 FN(of_parts)(const volatile global float *parts, const struct channel_chunks_args *a, local float2 *buf)
{
    const volatile global float *from = parts + LANE * 2;
    return FN(total)(LANE < a->parts ? (float2)(from[0], from[1]) : (float2)(0.0f), buf);
}

void FN(body)(ulong group, SRC dy, SRC x, SRC parts, SRC weight, SRC mean, SRC var, SRC bias, DST dx, DST dweight,
              DST dbias, const struct channel_chunks_args *a, local float4 *scratch)
{
    struct FN(chunk_walk) w = FN(first_of)(group, a);
    const float2 sums = FN(of_parts)(parts + (long)w.c * a->parts * 2, a, (local float2 *)scratch);
    const float count = (float)a->n * (float)a->length, over = 1.0f / sqrt(var[w.c] + a->eps), centre = mean[w.c];
    const float scale = weight[w.c] * over, shift = bias[w.c], middle = sums.x / count,
                slope = sums.y / count * over * over;
    if (w.part == 0 && LANE == 0) {
        dweight[w.c] = sums.y * over;
        dbias[w.c] = sums.x;
    }
    SRC xc = x + w.c * a->length;
    SRC yc = dy + w.c * a->length;
    DST to = dx + w.c * a->length;
    while (w.left > 0) {
        const float4 v = QUAD_AT(xc + w.n * a->x_n + w.i);
        const float4 d = FN(between)(QUAD_AT(yc + w.n * a->dy_n + w.i), v, centre, scale, shift, a);
        QUAD_TO(to + w.n * a->y_n + w.i, scale * (d - middle - (v - centre) * slope));
        FN(go_on)(&w, a);
    }
}

KERNEL FN(main)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC parts, ulong parts_off, SRC weight, ulong weight_off,
                SRC mean, ulong mean_off, SRC var, ulong var_off, SRC bias, ulong bias_off, DST dx, ulong dx_off,
                DST dweight, ulong dweight_off, DST dbias, ulong dbias_off, const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, dy + dy_off, x + x_off, parts + parts_off, weight + weight_off, mean + mean_off, var + var_off,
             bias + bias_off, dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a, scratch);
}

void FN(held_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, DST dx, DST dweight, DST dbias,
                   global uint *meeting, const struct channel_chunks_args *a, local float4 *scratch)
{
    const struct FN(chunk_walk) first = FN(held_of)(group, meeting, a, (local uint *)scratch);
    const int c = first.c;
    const float count = (float)a->n * (float)a->length, over = 1.0f / sqrt(var[c] + a->eps), centre = mean[c];
    const float scale = weight[c] * over, shift = bias[c];
    SRC xc = x + c * a->length;
    SRC yc = dy + c * a->length;
    DST to = dx + c * a->length;
    float4 v[HELD_QUADS], d[HELD_QUADS], slopes = 0.0f, products = 0.0f;
    struct FN(chunk_walk) w = first;
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        v[b] = w.left > 0 ? QUAD_AT(xc + w.n * a->x_n + w.i) : (float4)(0.0f);
        d[b] = w.left > 0 ? QUAD_AT(yc + w.n * a->dy_n + w.i) : (float4)(0.0f);
        FN(go_on)(&w, a);
    }
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        d[b] = FN(between)(d[b], v[b], centre, scale, shift, a);
        v[b] -= centre;
        slopes += d[b];
        products = fma(d[b], v[b], products);
    }
    float2 sums = FN(total)(FN(of_quads)(slopes, products), (local float2 *)scratch);
#if WAITS
    sums = FN(of_parts)(FN(exchange)(meeting, c, first.part, sums, a), a, (local float2 *)scratch);
#endif
    if (first.part == 0 && LANE == 0) {
        dweight[c] = sums.y * over;
        dbias[c] = sums.x;
    }
    const float middle = sums.x / count, slope = sums.y / count * over * over;
    w = first;
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        if (w.left > 0)
            QUAD_TO(to + w.n * a->y_n + w.i, scale * (d[b] - middle - v[b] * slope));
        FN(go_on)(&w, a);
    }
}

KERNEL FN(held)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                SRC var, ulong var_off, SRC bias, ulong bias_off, DST dx, ulong dx_off, DST dweight, ulong dweight_off,
                DST dbias, ulong dbias_off, global uint *meeting, ulong meeting_off, const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(held_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
                  dx + dx_off, dweight + dweight_off, dbias + dbias_off, meeting + meeting_off, &a, scratch);
}
