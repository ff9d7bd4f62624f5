/* conv_halves.cl: maps, or rows of linear layers, as scaled halves in cores of Hopper's tensor cores, for
 * conv_wgmma_halves.cl.
 *
 *   y[u][c] = the half nearest to scale[u] gain[c] x[n][c][p]
 *
 * Position u of all images one behind another is pixel p of image n; with DEEP 1 images are one pixel, as rows of
 * linear layers are, and the channels of a position are neighbours. scale[u] is a power of two that brings the
 * position's largest finite value to where halves have all of their bits; back[u] undoes it. gain[c] is what packed
 * filters ask for (conv_wgmma_scaled_pack.cl).
 * Channels from c on, up to `padded`, are zeros; both are multiples of 8.
 * Layouts: x NCHW with a batch stride; y in cores (common/cores.clh), where what lies behind the last position is left
 * as it is.
 * Index map: group = TOGETHER positions, 8 with DEEP 1, else 32.
 * Work-group: WG. Local memory: a word a position. Defines: WG (a multiple of 32), DEEP 0 or 1, BM filters of a block,
 * KEPT (common/octets.clh); all required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_halves_##x
#endif
#ifndef KEPT
#error "KEPT is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#define PAIRS 0
#include "common/half_scale.clh"
#include "conv_nvidia/mma.clh"
#include "common/cores.clh"
#include "common/octets.clh"

/* FN(take_octets), times their gains; zeros behind the last one. */
void FN(take)(float v[KEPT][8], const global float *from, int first, int plane, bool wide, const global float *gains,
              const struct conv_halves_args *h)
{
    const int last = h->conv.c / 8 - 1;
    FN(take_octets)(v, from, first, last, plane, wide);
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const int o = min(first + i * ACROSS, last);
        const global float4 *gain = (const global float4 *)(gains + o / 4 * SCALED_GAINS(1) + o % 4 * 8);
        const bool present = first + i * ACROSS <= last;
        vstore4(present ? vload4(0, v[i]) * gain[0] : (float4)(0.0f), 0, v[i]);
        vstore4(present ? vload4(1, v[i]) * gain[1] : (float4)(0.0f), 1, v[i]);
    }
}

void FN(body)(ulong group, SRC x, SRC w, DST y, DST back, const struct conv_halves_args *h, local float4 *scratch)
{
    local uint *largest = (local uint *)scratch;
    const struct conv_args *a = &h->conv;
    const int u = (int)group * TOGETHER + SPOT, plane = DEEP ? 1 : a->in[1] * a->in[2], octets = h->padded / 8;
    const uint at = (uint)min(u, h->positions - 1), n = DEEP ? at : at / (uint)plane,
               pixel = DEEP ? 0 : at - n * (uint)plane;
    const bool present = u < h->positions, wide = ((ulong)x & 15) == 0 && a->src_n % 4 == 0;
    const global float *from = x + n * a->src_n + pixel;
    const global float *gains = w + (long)((a->k + BM - 1) / BM) * (h->padded / 16) * (BM * 8);
    float v[KEPT][8], most = 0.0f;
    for (int i = LANE; i < TOGETHER; i += WG)
        largest[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int first = OCTET; first < octets; first += KEPT * ACROSS) {
        FN(take)(v, from, first, plane, wide, gains, h);
#pragma unroll
        for (int i = 0; i < KEPT * 8; i++)
            most = fmax(most, isfinite(v[i / 8][i % 8]) ? fabs(v[i / 8][i % 8]) : 0.0f);
    }
    atomic_max((volatile local uint *)largest + SPOT, as_uint(most)); /* ordered as the numbers are */
    barrier(CLK_LOCAL_MEM_FENCE);
    const float2 scale = FN(scale_of)(as_float(largest[SPOT]));
    if (OCTET == 0 && present)
        back[u] = scale.y;
    for (int first = OCTET; first < octets; first += KEPT * ACROSS) {
        if (octets > KEPT * ACROSS)
            FN(take)(v, from, first, plane, wide, gains, h);
        if (present)
            FN(keep_octets)(y, u, v, first, octets, scale.x);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, DST y, ulong y_off, DST back, ulong back_off,
                const struct conv_halves_args a)
{
    local float4 scratch[TOGETHER / 4];
    FN(body)(GROUP, x + x_off, w + w_off, y + y_off, back + back_off, &a, scratch);
}
#endif
