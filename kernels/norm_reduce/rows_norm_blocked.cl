/* rows_norm_blocked.cl: instance and group norm, and layer, RMS and L2 norm along channels, on channel blocks of CPU
 * devices.
 *
 * channels:  the channels of a pixel are normalised together; a work-item takes `run` pixels
 * sums:      channels are normalised with their pixels, in groups of `group`, first: a pivot a channel, and the sums of
 *            a part of a block's pixels
 * apply:     then: the results of a part of a block, from the sums of its groups, in their order
 * whole:     both for `span` blocks that no group goes beyond, one after the other
 * KIND says what a norm is (norm_vectors.clh); y = act(norm).
 * Layouts: x, y [ceil(C/V)][pixels][V] with batch strides; lanes of y past C are written as zeros. sums, for each item:
 * pivots [ceil(C/V)][V], then [ceil(C/V)][parts][2][V].
 * Index map: channels: group = n * parts + part; sums, apply: group = (n * blocks + block) * parts + part; whole: group
 * = n * (blocks / span) + number. A part is `run` pixels.
 * Work-group: WG = 1. Local memory: none.
 * Defines: KIND (0, 1, 2; default 0); EPI_ACT act_*; V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) rows_norm_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "norm_reduce/norm_vectors.clh"
#include "norm_reduce/row_vectors.clh"
#undef NOTHING
#undef PIXELS
#undef LIVE
#define NOTHING ((FV)0.0f)
#define PIXELS (V / 2)                                     /* of which sums are in registers at once */
#define LIVE(block, c) (LANES_V < (IV)((c) - (block) * V)) /* lanes of a block that are channels */

/* One value a channel, `other` where there is no array or no channel. */
FV FN(values)(SRC values, int block, int c, int present, float other)
{
    if (!present)
        return (FV)other;
    if ((block + 1) * V <= c)
        return LOADV(values, block * V);
    float v[V];
    for (int j = 0; j < V; j++)
        v[j] = block * V + j < c ? values[block * V + j] : other;
    return LOADV(v, 0);
}

/* `count` pixels from `first` on. */
void FN(pixels)(SRC x, SRC weight, SRC bias, DST y, int first, int count, const struct norm_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V;
    const long plane = (long)a->pixels * V;
    const float n = (float)a->c;
    FV sum[PIXELS], squares[PIXELS];
    float pivot[PIXELS], scales[PIXELS], offsets[PIXELS];
    long at[PIXELS];
    for (int t = 0; t < PIXELS; t++) {
        at[t] = (long)(first + min(t, count - 1)) * V;
        sum[t] = squares[t] = NOTHING;
        pivot[t] = KIND == 0 ? FN(fold)(select(NOTHING, LOADV(x, at[t]), LIVE(0, a->c))) / (float)min(a->c, V) : 0.0f;
    }
    for (int b = 0; b < blocks; b++)
#pragma unroll
        for (int t = 0; t < PIXELS; t++) {
            const FV d = select(NOTHING, LOADV(x, b * plane + at[t]) - pivot[t], LIVE(b, a->c));
            sum[t] += d;
            squares[t] = fma(d, d, squares[t]);
        }
    for (int t = 0; t < PIXELS; t++) {
        const float s = KIND == 0 ? FN(fold)(sum[t]) : 0.0f, q = FN(fold)(squares[t]);
        float shift = 0.0f;
        NORM_SCALE(float, s, q, n, a->eps, shift)
        scales[t] = scale;
        offsets[t] = -shift * scale;
    }
    for (int b = 0; b < blocks; b++) {
        const FV w = FN(values)(weight, b, a->c, a->weight, 1.0f), add = FN(values)(bias, b, a->c, a->bias, 0.0f);
#pragma unroll
        for (int t = 0; t < PIXELS; t++)
            if (t < count) {
                const FV v = fma(LOADV(x, b * plane + at[t]) - pivot[t], (FV)scales[t], (FV)offsets[t]);
                const FV r = VECTOR_ACT(EPI_ACT)(fma(v, w, add), a->p0, a->p1);
                STOREV(select(NOTHING, r, LIVE(b, a->c)), y, b * plane + at[t]);
            }
    }
}

void FN(channels_body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct norm_blocked_args *a)
{
    const struct norm_blocked_args args = *a; /* a copy: stores of y cannot change it */
    const long n = (long)group / args.parts;
    const int first = (int)((long)group % args.parts) * args.run, past = min(first + args.run, args.pixels);
    for (int i = first; i < past; i += PIXELS)
        FN(pixels)(x + n * args.x_n, weight, bias, y + n * args.y_n, i, min(PIXELS, past - i), &args);
}

/* A number near the mean of each channel of a block: the mean of pixels spread evenly over the map. */
FV FN(pivot)(SRC xb, int pixels)
{
    const int step = (pixels + NORM_FEW - 1) / NORM_FEW;
    FV all = NOTHING;
    int count = 0;
    for (int i = 0; i < pixels; i += step, count++)
        all += LOADV(xb, (long)i * V);
    return all / (float)count;
}

/* The sums of the pixels [first, past) of a block. */
void FN(sum_part)(SRC xb, DST sums, FV pivot, int first, int past)
{
    FV all = NOTHING, squares = NOTHING;
    for (int block = first; block < past; block += NORM_BLOCK / 4) {
        const int end = min(past, block + NORM_BLOCK / 4);
        FV s0 = NOTHING, s1 = NOTHING, q0 = NOTHING, q1 = NOTHING;
        int i = block;
        for (; i + 2 <= end; i += 2) {
            const FV d = LOADV(xb, (long)i * V) - pivot, e = LOADV(xb, (long)(i + 1) * V) - pivot;
            s0 += d;
            s1 += e;
            q0 = fma(d, d, q0);
            q1 = fma(e, e, q1);
        }
        if (i < end) {
            const FV d = LOADV(xb, (long)i * V) - pivot;
            s0 += d;
            q0 = fma(d, d, q0);
        }
        all += s0 + s1;
        squares += q0 + q1;
    }
    STOREV(all, sums, 0);
    STOREV(squares, sums, V);
}

/* The sums of one part of one block of item n. */
void FN(sums_of)(long n, int block, int part, SRC x, DST sums, const struct norm_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V, first = part * a->run;
    SRC xb = x + n * a->x_n + (long)block * a->pixels * V;
    const FV pivot = FN(pivot)(xb, a->pixels);
    DST item = sums + n * a->sums_n;
    if (part == 0)
        STOREV(pivot, item, block * V);
    FN(sum_part)(xb, item + blocks * V + ((long)block * a->parts + part) * 2 * V, pivot, first,
                 min(first + a->run, a->pixels));
}

/* Pivot (.x), what differences to it are multiplied by (.y), and what is added then (.z), of group number g. The means
 * of its channels are pivot + e each. */
float4 FN(statistics)(int g, const global float *item, const struct norm_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V, low = g * a->group, high = low + a->group;
    const float channels = (float)a->group, pixels = (float)a->pixels;
    FV p = NOTHING, means = NOTHING, mean_squares = NOTHING, squares = NOTHING;
    for (int b = low / V; b * V < high; b++)
        p += select(NOTHING, LOADV(item, b * V), (b * V + LANES_V >= (IV)low) & (b * V + LANES_V < (IV)high));
    const float pivot = FN(fold)(p) / channels;
    for (int b = low / V; b * V < high; b++) {
        const IV mine = (b * V + LANES_V >= (IV)low) & (b * V + LANES_V < (IV)high);
        const global float *part = item + blocks * V + (long)b * a->parts * 2 * V;
        FV s = NOTHING, q = NOTHING;
        for (int i = 0; i < a->parts; i++) {
            s += LOADV(part, 2 * i * V);
            q += LOADV(part, (2 * i + 1) * V);
        }
        const FV shift = s / pixels;
        const FV e = select(NOTHING, (LOADV(item, b * V) - pivot) + shift, mine);
        squares += select(NOTHING, fma(-s, shift, q), mine);
        means += e;
        mean_squares = fma(e, e, mean_squares);
    }
    const float sum = FN(fold)(means);
    const float all = FN(fold)(squares) / pixels + FN(fold)(mean_squares);
    float shift;
    NORM_SCALE(float, sum, all, channels, a->eps, shift)
    return (float4)(pivot, scale, -shift * scale, 0.0f);
}

/* The results of one part of one block of item n. */
void FN(apply_to)(long n, int block, int part, SRC x, SRC weight, SRC bias, const global float *sums, DST y,
                  const struct norm_blocked_args *a)
{
    float pivots[V], scales[V], offsets[V];
    float4 s = (float4)(0.0f);
    for (int j = 0, known = -1; j < V; j++) {
        const int c = block * V + j, g = c / a->group;
        if (c < a->c && g != known) {
            s = FN(statistics)(g, sums + n * a->sums_n, a);
            known = g;
        }
        pivots[j] = s.x;
        scales[j] = s.y;
        offsets[j] = s.z;
    }
    const FV w = FN(values)(weight, block, a->c, a->weight, 1.0f), add = FN(values)(bias, block, a->c, a->bias, 0.0f);
    const FV pivot = LOADV(pivots, 0), scale = LOADV(scales, 0) * w, offset = fma(LOADV(offsets, 0), w, add);
    const IV live = LIVE(block, a->c);
    const long plane = (long)block * a->pixels * V;
    SRC xb = x + n * a->x_n + plane;
    DST yb = y + n * a->y_n + plane;
    const long past = min((part + 1) * a->run, a->pixels);
    const float p0 = a->p0, p1 = a->p1;
    for (long i = (long)part * a->run; i < past; i++) {
        const FV v = VECTOR_ACT(EPI_ACT)(fma(LOADV(xb, i * V) - pivot, scale, offset), p0, p1);
        STOREV(select(NOTHING, v, live), yb, i * V);
    }
}

void FN(sums_body)(ulong group, SRC x, DST sums, const struct norm_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V;
    const long plane = (long)group / a->parts;
    FN(sums_of)(plane / blocks, (int)(plane % blocks), (int)((long)group % a->parts), x, sums, a);
}

void FN(apply_body)(ulong group, SRC x, SRC weight, SRC bias, SRC sums, DST y, const struct norm_blocked_args *a)
{
    const struct norm_blocked_args args = *a;
    const int blocks = (args.c + V - 1) / V;
    const long plane = (long)group / args.parts;
    FN(apply_to)(plane / blocks, (int)(plane % blocks), (int)((long)group % args.parts), x, weight, bias, sums, y,
                 &args);
}

void FN(whole_body)(ulong group, SRC x, SRC weight, SRC bias, DST sums, DST y, const struct norm_blocked_args *a)
{
    const struct norm_blocked_args args = *a;
    const int spans = (args.c + V * args.span - 1) / (V * args.span), blocks = (args.c + V - 1) / V;
    const long n = (long)group / spans;
    const int first = (int)((long)group % spans) * args.span, past = min(first + args.span, blocks);
    for (int b = first; b < past; b++)
        for (int part = 0; part < args.parts; part++)
            FN(sums_of)(n, b, part, x, sums, &args);
    for (int b = first; b < past; b++)
        for (int part = 0; part < args.parts; part++)
            FN(apply_to)(n, b, part, x, weight, bias, sums, y, &args);
}

KERNEL FN(channels)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                    const struct norm_blocked_args a)
{
    FN(channels_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a);
}

KERNEL FN(sums)(SRC x, ulong x_off, DST sums, ulong sums_off, const struct norm_blocked_args a)
{
    FN(sums_body)(GROUP, x + x_off, sums + sums_off, &a);
}

KERNEL FN(apply)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC sums, ulong sums_off,
                 DST y, ulong y_off, const struct norm_blocked_args a)
{
    FN(apply_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, y + y_off, &a);
}

KERNEL FN(whole)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST sums, ulong sums_off,
                 DST y, ulong y_off, const struct norm_blocked_args a)
{
    FN(whole_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, y + y_off, &a);
}
