/* batch_norm_train_groups.cl: normalisation by the mean and variance of the batch, which are results, too: for GPUs, in
 * two passes over x or in one.
 *
 *   y = act( clip((x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c], low, high) + add )
 *   with mean and biased variance of channel c over all items
 *
 * FN(moments): a group takes count, mean and sum of squared differences to the mean of its chunk, those of work-items
 * put together in pairs (Chan, Golub and LeVeque 1979), so that nothing is lost where the mean is large. FN(main):
 * every group puts those of its channel together in the same order, and normalises its chunk. FN(held): both, where a
 * work-item holds its part of the chunk in registers and groups may wait for each other, or each has a channel.
 * Layouts: N,C,(...) with batch strides; parts [C][parts][2], mean and sum of squares.
 * Index map: group = c * parts + part (channel_chunks.clh). Work-group: WG, at least as many as parts, a power of two.
 * Local memory: 3 * WG floats.
 * Defines: WG, QUAD, WAITS (channel_chunks.clh), HELD floats of a work-item, EPI_ADD, EPI_ACT (epilogue.clh; EPI_BIAS
 * stays 0). */
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) batch_norm_train_groups_##x
#endif
#include "norm_reduce/channel_chunks.clh"
#define SCRATCH ((3 * WG + 3) / 4)
#define BATCH 4 /* quads whose mean is taken at once */
#ifndef HELD
#define HELD 8
#endif
#define HELD_QUADS (HELD / QUAD)

/* count, mean, sum of squared differences to it */
struct FN(moments) {
    float count, mean, squares;
};

struct FN(moments) FN(joined)(struct FN(moments) a, struct FN(moments) b)
{
    struct FN(moments) both = a;
    both.count = a.count + b.count;
    const float apart = b.mean - a.mean, share = both.count > 0.0f ? b.count / both.count : 0.0f;
    both.mean = fma(apart, share, a.mean);
    both.squares = a.squares + b.squares + apart * apart * share * a.count;
    return b.count > 0.0f ? both : a;
}

/* Those of all work-items in pairs, for all of them; scratch is free again. */
struct FN(moments) FN(together)(struct FN(moments) mine, local float *buf)
{
    for (int s = WG / 2; s > 0; s >>= 1) {
        buf[LANE] = mine.count;
        buf[LANE + WG] = mine.mean;
        buf[LANE + 2 * WG] = mine.squares;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (LANE < s)
            mine = FN(joined)(mine, (struct FN(moments)){buf[LANE + s], buf[LANE + s + WG], buf[LANE + s + 2 * WG]});
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (LANE == 0) {
        buf[0] = mine.count;
        buf[1] = mine.mean;
        buf[2] = mine.squares;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    mine = (struct FN(moments)){buf[0], buf[1], buf[2]};
    barrier(CLK_LOCAL_MEM_FENCE);
    return mine;
}

/* Elements of part `part`. */
float FN(count_of)(int part, const struct channel_chunks_args *a)
{
    return (float)min((long)a->chunk, (long)a->n * a->length - (long)part * a->chunk);
}

void FN(moments_body)(ulong group, SRC x, DST parts, const struct channel_chunks_args *a, local float4 *scratch)
{
    struct FN(chunk_walk) w = FN(first_of)(group, a);
    SRC xc = x + w.c * a->length;
    struct FN(moments) all = {0.0f, 0.0f, 0.0f};
    const int part = w.part, c = w.c;
    while (w.left > 0) {
        float4 v[BATCH], sum = 0.0f, squares = 0.0f;
        int taken = 0;
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            v[b] = 0.0f;
            if (w.left > 0) {
                v[b] = QUAD_AT(xc + w.n * a->x_n + w.i);
                taken++;
                FN(go_on)(&w, a);
            }
            sum += v[b];
        }
        struct FN(moments) some;
        some.count = (float)(taken * QUAD);
        some.mean = (sum.x + sum.y + sum.z + sum.w) / some.count;
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (b < taken) {
                const float4 apart = v[b] - some.mean;
                squares = fma(apart, apart, squares);
            }
        some.squares = QUAD == 4 ? squares.x + squares.y + squares.z + squares.w : squares.x;
        all = FN(joined)(all, some);
    }
    all = FN(together)(all, (local float *)scratch);
    if (LANE == 0) {
        DST to = parts + ((long)c * a->parts + part) * 2;
        to[0] = all.mean;
        to[1] = all.squares;
    }
}

KERNEL FN(moments_of)(SRC x, ulong x_off, DST parts, ulong parts_off, const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(moments_body)(GROUP, x + x_off, parts + parts_off, &a, scratch);
}

/* A quad as the epilogue leaves it; add: where its other operand is. */
float4 FN(finished)(float4 v, SRC add, const struct channel_chunks_args *a)
{
    float4 other = 0.0f;
#if EPI_ADD
    other = QUAD_AT(add);
#endif
    return (float4)(EPILOGUE_END(v.x, other.x, a), EPILOGUE_END(v.y, other.y, a), EPILOGUE_END(v.z, other.z, a),
                    EPILOGUE_END(v.w, other.w, a));
}

/* What all elements of a channel become: v * scale + shift, once the mean is off. */
struct FN(change) {
    float mean, variance, scale, shift;
};

struct FN(change) FN(change_of)(struct FN(moments) all, int c, SRC weight, SRC bias,
                                const struct channel_chunks_args *a)
{
    struct FN(change) to = {.mean = all.mean, .variance = all.squares / all.count, .shift = bias[c]};
    to.scale = weight[c] / sqrt(to.variance + a->eps);
    return to;
}

float4 FN(changed)(float4 x, struct FN(change) to, SRC add, const struct channel_chunks_args *a)
{
    const float4 v = fma(x - to.mean, to.scale, to.shift);
    const float4 above = select((float4)a->low, v, !(v < a->low)); /* NaN stays */
    return FN(finished)(select((float4)a->high, above, !(above > a->high)), add, a);
}

/* The moments of a channel from those of its parts. */
struct FN(moments) FN(of_parts)(SRC parts, const struct channel_chunks_args *a, local float *buf)
{
    struct FN(moments) one = {0.0f, 0.0f, 0.0f};
    if (LANE < a->parts) {
        SRC from = parts + LANE * 2;
        one = (struct FN(moments)){FN(count_of)(LANE, a), from[0], from[1]};
    }
    return FN(together)(one, buf);
}

void FN(body)(ulong group, SRC x, SRC parts, SRC weight, SRC bias, SRC add, DST y, DST mean, DST var,
              const struct channel_chunks_args *a, local float4 *scratch)
{
    struct FN(chunk_walk) w = FN(first_of)(group, a);
    const struct FN(moments) all = FN(of_parts)(parts + (long)w.c * a->parts * 2, a, (local float *)scratch);
    const struct FN(change) to = FN(change_of)(all, w.c, weight, bias, a);
    if (w.part == 0 && LANE == 0) {
        mean[w.c] = to.mean;
        var[w.c] = to.variance;
    }
    SRC xc = x + w.c * a->length;
    DST yc = y + w.c * a->length;
    SRC ac = add + w.c * a->length;
    while (w.left > 0) {
        const float4 v = QUAD_AT(xc + w.n * a->x_n + w.i);
        QUAD_TO(yc + w.n * a->y_n + w.i, FN(changed)(v, to, ac + w.n * a->add_n + w.i, a));
        FN(go_on)(&w, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC parts, ulong parts_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off,
                SRC add, ulong add_off, DST y, ulong y_off, DST mean, ulong mean_off, DST var, ulong var_off,
                const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, parts + parts_off, weight + weight_off, bias + bias_off, add + add_off, y + y_off,
             mean + mean_off, var + var_off, &a, scratch);
}

/* The moments of a channel from those of its parts, which others have just written. */
struct FN(moments) FN(of_held)(const volatile global float *parts, const struct channel_chunks_args *a,
                               local float2 *buf)
{
    const int part = min(LANE, a->parts - 1);
    const float count = LANE < a->parts ? FN(count_of)(part, a) : 0.0f, base = parts[0];
    const float mean = parts[part * 2], squares = LANE < a->parts ? parts[part * 2 + 1] : 0.0f;
    struct FN(moments) all = {.count = (float)a->n * (float)a->length};
    all.mean = base + FN(total)((float2)(count * (mean - base), 0.0f), buf).x / all.count;
    const float apart = mean - all.mean;
    all.squares = FN(total)((float2)(fma(count * apart, apart, squares), 0.0f), buf).x;
    return all;
}

void FN(held_body)(ulong group, SRC x, SRC weight, SRC bias, SRC add, DST y, DST mean, DST var, global uint *meeting,
                   const struct channel_chunks_args *a, local float4 *scratch)
{
    const struct FN(chunk_walk) first = FN(held_of)(group, meeting, a, (local uint *)scratch);
    const int c = first.c;
    SRC xc = x + c * a->length;
    DST yc = y + c * a->length;
    SRC ac = add + c * a->length;
    float4 v[HELD_QUADS], sum = 0.0f, squares = 0.0f;
    struct FN(chunk_walk) w = first;
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        v[b] = w.left > 0 ? QUAD_AT(xc + w.n * a->x_n + w.i) : (float4)(0.0f);
        FN(go_on)(&w, a);
    }
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++)
        sum += v[b];
    struct FN(moments) all = {.count = FN(count_of)(first.part, a)};
    all.mean = FN(total)((float2)(sum.x + sum.y + sum.z + sum.w, 0.0f), (local float2 *)scratch).x / all.count;
    const int taken = (first.left + WG * QUAD - 1) / (WG * QUAD);
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        const float4 apart = v[b] - all.mean;
        squares = b < taken ? fma(apart, apart, squares) : squares;
    }
    sum.x = QUAD == 4 ? squares.x + squares.y + squares.z + squares.w : squares.x;
    all.squares = FN(total)((float2)(sum.x, 0.0f), (local float2 *)scratch).x;
#if WAITS
    const float2 mine = (float2)(all.mean, all.squares);
    all = FN(of_held)(FN(exchange)(meeting, c, first.part, mine, a), a, (local float2 *)scratch);
#endif
    const struct FN(change) to = FN(change_of)(all, c, weight, bias, a);
    if (first.part == 0 && LANE == 0) {
        mean[c] = to.mean;
        var[c] = to.variance;
    }
    w = first;
#pragma unroll
    for (int b = 0; b < HELD_QUADS; b++) {
        if (w.left > 0)
            QUAD_TO(yc + w.n * a->y_n + w.i, FN(changed)(v[b], to, ac + w.n * a->add_n + w.i, a));
        FN(go_on)(&w, a);
    }
}

KERNEL FN(held)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, DST mean, ulong mean_off, DST var, ulong var_off, global uint *meeting,
                ulong meeting_off, const struct channel_chunks_args a)
{
    local float4 scratch[SCRATCH];
    FN(held_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, add + add_off, y + y_off, mean + mean_off,
                  var + var_off, meeting + meeting_off, &a, scratch);
}
