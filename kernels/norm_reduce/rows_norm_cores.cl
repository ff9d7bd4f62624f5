/* rows_norm_cores.cl: layer and RMS norm whose results are scaled halves in cores (common/cores.clh), for
 * conv_wgmma_halves.cl.
 *
 *   y[u][c] = the half nearest to up * act( norm_c x[n][c][p] ), or with PAIRS 1 that and what it leaves
 *
 * Position u of all items one behind another is pixel p of item n, and its channels are one row of the norm; with DEEP
 * 1 items are one pixel, and the channels of a position are neighbours. A position is read once, and stays in
 * registers.
 * KIND says what a norm is (norm_vectors.clh).
 * Layouts: x NCHW with a batch stride; y in cores, where what lies behind the last position is left as it is.
 * Index map: group = TOGETHER positions, 8 with DEEP 1, else 32.
 * Work-group: WG. Local memory: WG pairs of floats.
 * Defines: WG (a multiple of 32), DEEP 0 or 1, KEPT (common/octets.clh; a work-item's octets are all of them), KIND 0
 * (default) or 1, PAIRS 0 or 1, EPI_ACT act_*; all but KIND required. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) rows_norm_cores_##x
#endif
#ifndef KEPT
#error "KEPT is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "norm_reduce/norm_vectors.clh"
#include "conv_nvidia/mma.clh"
#include "common/cores.clh"
#include "common/octets.clh"
#define COLUMNS 0
#define LANES ACROSS
#define LOOPS 0
#include "norm_reduce/lanes.clh"
#undef MEMBER
#undef MEMBER_AT
#define MEMBER OCTET
#define MEMBER_AT(o) OCTET_AT(o)

LANES_SHARE(FN(share), float2, LANES_ADD)

/* Sums of v - mean (.x) and of its square (.y) over those of the octets that there are. */
float2 FN(sums_of)(const float v[KEPT][8], int octets, float mean)
{
    float2 s[2] = {(float2)(0.0f), (float2)(0.0f)};
#pragma unroll
    for (int i = 0; i < KEPT; i++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const float d = OCTET + i * ACROSS < octets ? v[i][e] - mean : 0.0f;
            s[e % 2] += (float2)(d, d * d);
        }
    return s[0] + s[1];
}

/* v becomes the norm's result. */
void FN(finish)(float v[KEPT][8], SRC weight, SRC bias, float mean, float shift, float scale,
                const struct norm_cores_args *a)
{
    const int last = a->channels / 8 - 1;
    float w[KEPT][8], b[KEPT][8];
#pragma unroll
    for (int i = 0; i < KEPT * 8; i++) {
        w[i / 8][i % 8] = 1.0f;
        b[i / 8][i % 8] = 0.0f;
    }
    if (a->weight)
        FN(take_octets)(w, weight, OCTET, last, 1, ((ulong)weight & 15) == 0);
    if (a->bias)
        FN(take_octets)(b, bias, OCTET, last, 1, ((ulong)bias & 15) == 0);
#pragma unroll
    for (int i = 0; i < KEPT; i++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[i][e] = EPI_ACT(((v[i][e] - mean) - shift) * scale * w[i][e] + b[i][e], a->p0, a->p1);
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct norm_cores_args *a, local float4 *scratch)
{
    local float2 *buf = (local float2 *)scratch;
    const int u = (int)group * TOGETHER + SPOT, octets = a->channels / 8, at = min(u, a->positions - 1);
    const int n = at / a->plane, pixel = at - n * a->plane;
    const float count = (float)a->channels;
    float v[KEPT][8], mean = 0.0f, shift = 0.0f;
    FN(take_octets)(v, x + n * a->x_n + pixel, OCTET, octets - 1, a->plane, ((ulong)x & 15) == 0 && a->x_n % 4 == 0);
    if (KIND == 0)
        mean = FN(share)(FN(sums_of)(v, octets, 0.0f), buf).x / count;
    const float2 sums = FN(share)(FN(sums_of)(v, octets, mean), buf);
    NORM_SCALE(float, sums.x, sums.y, count, a->eps, shift)
    FN(finish)(v, weight, bias, mean, shift, scale, a);
    if (u < a->positions)
        FN(keep_octets)(y, u, v, OCTET, octets, a->up);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                const struct norm_cores_args a)
{
    local float4 scratch[(WG + 1) / 2];
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a, scratch);
}
#endif
