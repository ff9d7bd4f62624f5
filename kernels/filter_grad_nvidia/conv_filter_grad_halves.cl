/* conv_filter_grad_halves.cl: maps as lines of scaled halves, for conv_filter_grad_scaled.cl.
 *
 *   y[part][g][plane][p / piece][o][p % piece][e] = the half nearest to x[n][g*C/g + 8*o + e][row][column] * scale,
 *   position part*step + first + p of the line
 *
 * A line has one pixel of a plane behind another: row i, column j of image n at position (n*high + i)*wide + j. A plane
 * has every stride-th row and column of the map. Zeros elsewhere.
 * Each channel of a part of a plane has a power of two of its own, which brings its largest finite value to where
 * halves have all of their bits; back[part][g][plane][o][e] undoes it.
 * Layouts: x NCHW with a batch stride; y halves.
 * Index map: group = ((part * groups + g) * planes + plane) * octets of channels + o.
 * Work-group: WG items. Local memory: 8 floats a work-item. Defines: WG (a multiple of 8, from 64 on), KEPT: positions
 * that a work-item holds at a time, of short lines all; required. */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_halves_##x
#endif
#ifndef KEPT
#error "KEPT is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "common/half_scale.clh"
#include "conv_nvidia/mma.clh"

/* A position of the line: pixel (i, j) of image n. */
struct FN(place) {
    int n, i, j;
};

/* Places `by` positions apart follow one another. */
struct FN(place) FN(place_of)(uint position, const struct filter_grad_halves_args *a)
{
    const uint row = position / (uint)a->wide, n = row / (uint)a->high;
    return (struct FN(place)){(int)n, (int)(row - n * (uint)a->high), (int)(position - row * (uint)a->wide)};
}

void FN(go_on)(struct FN(place) *p, struct FN(place) by, const struct filter_grad_halves_args *a)
{
    p->j += by.j;
    p->i += by.i;
    p->n += by.n;
    if (p->j >= a->wide) {
        p->j -= a->wide;
        p->i++;
    }
    if (p->i >= a->high) {
        p->i -= a->high;
        p->n++;
    }
}

/* A part of a plane: where channel 0 of the octet has the plane's first pixel, rows and columns that there are, and
 * channels. */
struct FN(plane) {
    const global float *x;
    int rows, columns, channels, position;
};

struct FN(plane) FN(plane_of)(uint group, SRC x, const struct filter_grad_halves_args *a)
{
    const uint octets = (uint)(a->each + 7) / 8, rest = group / octets, planes = (uint)(a->planes[0] * a->planes[1]);
    const uint outer = rest / planes, part = outer / (uint)a->groups;
    const int o = (int)(group - rest * octets), plane = (int)(rest - outer * planes),
              g = (int)(outer - part * a->groups);
    const int down = a->begin[0] + plane / a->planes[1], right = a->begin[1] + plane % a->planes[1];
    struct FN(plane) p;
    p.x = x + ((long)(g * a->each + 8 * o) * a->in[0] + down) * a->in[1] + right;
    p.rows = min(a->rows, (a->in[0] - down + a->stride[0] - 1) / a->stride[0]);
    p.columns = min(a->columns, (a->in[1] - right + a->stride[1] - 1) / a->stride[1]);
    p.channels = min(8, a->each - 8 * o);
    p.position = (int)part * a->step + a->first;
    return p;
}

/* The pixel's values; zeros where there is none. */
void FN(take)(float v[8], const struct FN(place) *at, bool wanted, const struct FN(plane) *p,
              const struct filter_grad_halves_args *a)
{
    const bool there = wanted && at->n >= 0 && at->n < a->n && at->i < p->rows && at->j < p->columns;
    const global float *from = p->x + at->n * a->image + (long)(at->i * a->stride[0]) * a->in[1] + at->j * a->stride[1];
    const long plane = (long)a->in[0] * a->in[1];
#pragma unroll
    for (int e = 0; e < 8; e++)
        v[e] = there && e < p->channels ? from[e * plane] : 0.0f;
}

/* Where a work-item's positions begin; those before the line's first one belong to no image. */
struct FN(place) FN(begin)(const struct FN(plane) *p, const struct filter_grad_halves_args *a)
{
    const int image = a->high * a->wide, ahead = (-p->position + image - 1) / image; /* images to be counted from */
    struct FN(place) at = FN(place_of)((uint)(p->position + LANE + (p->position < 0 ? ahead * image : 0)), a);
    at.n -= p->position < 0 ? ahead : 0;
    return at;
}

/* most[e]: the largest of all work-items' most[e]. */
void FN(share)(float most[8], local float *scratch)
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        scratch[e * WG + LANE] = most[e];
    barrier(CLK_LOCAL_MEM_FENCE);
    float largest = 0.0f;
    if (LANE < 64)
        for (int i = LANE % 8; i < WG; i += 8)
            largest = fmax(largest, scratch[LANE / 8 * WG + i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < 64)
        scratch[LANE] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        most[e] = scratch[e * 8];
        for (int i = 1; i < 8; i++)
            most[e] = fmax(most[e], scratch[e * 8 + i]);
    }
}

/* Values of the work-item's positions from `at` on, of which `left` pixels and more are on the line; at moves on. */
void FN(take_all)(float v[KEPT][8], struct FN(place) *at, struct FN(place) by, int left, const struct FN(plane) *p,
                  const struct filter_grad_halves_args *a)
{
#pragma unroll
    for (int i = 0; i < KEPT; i++, FN(go_on)(at, by, a))
        FN(take)(v[i], at, i * WG < left, p, a);
}

uint4 FN(halves)(const float v[8], const float scale[8])
{
    uint of[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        HALVES_OF(of[e], v[2 * e] * scale[2 * e], v[2 * e + 1] * scale[2 * e + 1]);
    return (uint4)(of[0], of[1], of[2], of[3]);
}

void FN(body)(ulong group, SRC x, DST y, DST back, const struct filter_grad_halves_args *a, local float4 *scratch)
{
    const struct FN(plane) p = FN(plane_of)((uint)group, x, a);
    const struct FN(place) by = FN(place_of)(WG, a);
    const uint octets = (uint)(a->each + 7) / 8, of = (uint)group / octets, o = (uint)group - of * octets;
    const int shift = 31 - (int)clz(a->piece), within = a->piece - 1; /* of positions in pieces */
    const bool whole = a->piece == a->length;
    global uint4 *to = (global uint4 *)y + (ulong)of * octets * a->length + (ulong)o * a->piece;
    float most[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, v[KEPT][8];
    struct FN(place) at = FN(begin)(&p, a);
    for (int first = LANE; first < a->length; first += KEPT * WG) {
        FN(take_all)(v, &at, by, a->length - first, &p, a);
#pragma unroll
        for (int i = 0; i < KEPT * 8; i++)
            most[i % 8] = fmax(most[i % 8], isfinite(v[i / 8][i % 8]) ? fabs(v[i / 8][i % 8]) : 0.0f);
    }
    FN(share)(most, (local float *)scratch);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const float2 scale = FN(scale_of)(most[e]);
        most[e] = scale.x;
        if (LANE == e)
            back[group * 8 + e] = scale.y;
    }
    at = FN(begin)(&p, a);
    for (int first = LANE; first < a->length; first += KEPT * WG) {
        if (a->length > KEPT * WG)
            FN(take_all)(v, &at, by, a->length - first, &p, a);
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            if (first + i * WG < a->length) {
                const int p = first + i * WG;
                to[whole ? p : (p >> shift) * (int)octets * a->piece + (p & within)] = FN(halves)(v[i], most);
            }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, DST back, ulong back_off,
                const struct filter_grad_halves_args a)
{
    local float4 scratch[WG * 2];
    FN(body)(GROUP, x + x_off, y + y_off, back + back_off, ARGS(a), scratch);
}
#endif
