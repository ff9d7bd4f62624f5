/* conv_transpose_mma_pack.cl: filters of transposed convolutions as fragments of NVIDIA's tensor cores, phase by phase,
 * for conv_mma.cl with PHASES 1.
 *
 *   dst[f][g][b][s][l][e] = w[g*C/g + c][16*b + l/4 + 8*(e%2)][tap(f, t)],  d = 8*s + l%4 + 4*(e/2) = t*padded + c
 *
 * for phases f (conv_phases.clh), blocks b of 16 filters, steps s of 8 of depth, lanes l < 32, elements e < 4, where
 * tap(f, t) is tap t of the phase in descending order. PRODUCTS 0: as conv_mma_pack.cl has it. Zeros where there is no
 * such filter, channel or tap.
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any), PRODUCTS 0, 1 or 3
 * (packed_store.clh). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_transpose_mma_pack_##x
#endif
#include "conv/conv_phases.clh"
#include "conv_nvidia/packed_store.clh"

/* Filter k of a group at channel c of all and tap t of the phase. */
float FN(weight_of)(SRC w, int phase, int k, long c, int t, const struct conv_phases_mma_pack_args *a)
{
    const struct conv_phases *f = &a->phases;
    const struct FN(phase) rows = FN(phase_of)(phase / f->count[1], 0, f);
    const struct FN(phase) cols = FN(phase_of)(phase % f->count[1], 1, f);
    float v = 0.0f;
    if (t < rows.taps * cols.taps) {
        const int r = rows.first + (rows.taps - 1 - t / cols.taps) * f->every[0];
        const int s = cols.first + (cols.taps - 1 - t % cols.taps) * f->every[1];
        v = w[c * a->w_k + ((long)k * f->ker[0] + r) * f->ker[1] + s];
    }
    return v;
}

void FN(body)(ulong group, SRC w, DST dst, const struct conv_phases_mma_pack_args *a)
{
    const int blocks = (a->kg + 15) / 16;
    const long i = (long)group * WG + LANE, each = (long)a->depth * 16;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each), g = b / blocks;
#if PRODUCTS == 0
        const int e = (int)(i % 8), lane = (int)(i / 8 % 32);
        const int k = b % blocks * 16 + lane / 4 + 8 * (e / 2 % 2);
        const int d = (int)(i % each / 256) * 16 + lane % 4 + 8 * (e / 4) + 4 * (e % 2);
#else
        const int e = (int)(i % 4), lane = (int)(i / 4 % 32);
        const int k = b % blocks * 16 + lane / 4 + 8 * (e % 2);
        const int d = (int)(i % each / 128) * 8 + lane % 4 + 4 * (e / 2);
#endif
        const int c = d % a->padded;
        const float v = k < a->kg && c < a->c
                            ? FN(weight_of)(w, g / a->each, k, (long)(g % a->each) * a->c + c, d / a->padded, a)
                            : 0.0f;
        PACKED_STORE(v, i, dst);
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_phases_mma_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
