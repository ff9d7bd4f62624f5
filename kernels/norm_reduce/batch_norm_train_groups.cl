/* batch_norm_train_groups.cl: normalisation by the mean and variance of the batch, which are results, too: for GPUs, in
 * two passes over x.
 *
 *   y = act( clip((x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c], low, high) + add )
 *   with mean and biased variance of channel c over all items
 *
 * FN(moments): a group takes count, mean and sum of squared differences to the mean of its chunk, those of work-items
 * put together in pairs (Chan, Golub and LeVeque 1979), so that nothing is lost where the mean is large. FN(main):
 * every group puts those of its channel together in the same order, and normalises its chunk.
 * Layouts: N,C,(...) with batch strides; parts [C][parts][2], mean and sum of squares.
 * Index map: group = c * parts + part (channel_chunks.clh). Work-group: WG, at least as many as parts, a power of two.
 * Local memory: 3 * WG floats.
 * Defines: WG, QUAD (channel_chunks.clh), EPI_ADD, EPI_ACT (epilogue.clh; EPI_BIAS stays 0). */
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) batch_norm_train_groups_##x
#endif
#include "norm_reduce/channel_chunks.clh"
#define SCRATCH ((3 * WG + 3) / 4)
#define BATCH 4 /* quads whose mean is taken at once */

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

void FN(body)(ulong group, SRC x, SRC parts, SRC weight, SRC bias, SRC add, DST y, DST mean, DST var,
              const struct channel_chunks_args *a, local float4 *scratch)
{
    struct FN(chunk_walk) w = FN(first_of)(group, a);
    struct FN(moments) all = {0.0f, 0.0f, 0.0f};
    if (LANE < a->parts) {
        SRC from = parts + ((long)w.c * a->parts + LANE) * 2;
        all = (struct FN(moments)){FN(count_of)(LANE, a), from[0], from[1]};
    }
    all = FN(together)(all, (local float *)scratch);
    const float variance = all.squares / all.count;
    const float scale = weight[w.c] / sqrt(variance + a->eps), shift = bias[w.c];
    if (w.part == 0 && LANE == 0) {
        mean[w.c] = all.mean;
        var[w.c] = variance;
    }
    SRC xc = x + w.c * a->length;
    DST yc = y + w.c * a->length;
    SRC ac = add + w.c * a->length;
    while (w.left > 0) {
        const float4 v = fma(QUAD_AT(xc + w.n * a->x_n + w.i) - all.mean, scale, shift);
        const float4 above = select((float4)a->low, v, !(v < a->low)); /* NaN stays */
        const float4 clipped = select((float4)a->high, above, !(above > a->high));
        QUAD_TO(yc + w.n * a->y_n + w.i, FN(finished)(clipped, ac + w.n * a->add_n + w.i, a));
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
