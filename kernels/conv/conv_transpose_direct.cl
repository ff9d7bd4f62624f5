/* conv_transpose_direct.cl: 2-D transposed convolution with register tiles straight from global memory; the portable
 * form.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][ih][iw] * w[g*C/g + c][k - g*K/g][r][s] + bias[k] + add )
 *
 * over the taps for which oh + ph - r*dh = ih*sh and ow + pw - s*dw = iw*sw with (ih, iw) inside of the image. A
 * work-item computes TP pixels of a phase (conv_phases.clh), PL apart in the order of (n, row, column), times 8
 * filters.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_transpose_pack.cl:
 * [groups][blocks][R][S][C/groups][WG/PL*8], where blocks = ceil(K/groups / (WG/PL*8)) and missing filters are zeros.
 * Index map: group = (block of filters * phases + phase) * tiles of the largest phase + tile; lane = 8 filters * PL +
 * pixel.
 * Work-group: WG. Local memory: none.
 * Defines: WG 256, PL pixels side by side (32, 64 or 128), TP, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_phases_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_transpose_direct_##x
#endif
#include "conv/conv_phases.clh"
#ifndef PL
#define PL 32
#endif
#ifndef TP
#define TP 4
#endif
#undef KB
#define KB (WG / PL * 8)

/* Sums of TP pixels. x: the first channel of the group, w: this work-item's filters. */
void FN(tile)(float8 acc[TP], SRC x, SRC w, const struct FN(pixel) p[TP], const struct FN(phase) *rows,
              const struct FN(phase) *cols, const struct conv_transpose_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int cg = a->c / a->groups;
    const long plane = (long)f->in[0] * f->in[1];
    for (int j = 0; j < rows->taps; j++)
        for (int i = 0; i < cols->taps; i++) {
            long at[TP];
            bool inside[TP];
#pragma unroll
            for (int t = 0; t < TP; t++) {
                const int ih = p[t].row + rows->from - j * f->step[0], iw = p[t].col + cols->from - i * f->step[1];
                inside[t] = ih >= 0 && ih < f->in[0] && iw >= 0 && iw < f->in[1];
                at[t] = inside[t] ? p[t].n * a->src_n + (long)ih * f->in[1] + iw : 0;
            }
            const int tap = (rows->first + j * f->every[0]) * f->ker[1] + cols->first + i * f->every[1];
            SRC wp = w + (long)tap * cg * KB;
#pragma unroll 4
            for (int c = 0; c < cg; c++) {
                const float8 filters = vload8(0, wp + c * KB);
#pragma unroll
                for (int t = 0; t < TP; t++) {
                    const float v = x[at[t] + c * plane];
                    acc[t] = fma((float8)(inside[t] ? v : 0.0f), filters, acc[t]);
                }
            }
        }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_transpose_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int cg = a->c / a->groups, kg = a->k / a->groups, blocks = (kg + KB - 1) / KB;
    const int phases = f->count[0] * f->count[1], part = (int)(group / a->tiles);
    const int block = part / phases, g = block / blocks;
    const struct FN(phase) rows = FN(phase_of)(part % phases / f->count[1], 0, f);
    const struct FN(phase) cols = FN(phase_of)(part % f->count[1], 1, f);
    const int pixels = a->n * rows.outputs * cols.outputs;
    const int first = (int)(group % a->tiles) * (PL * TP) + LANE % PL;
    if (first < pixels) {
        struct FN(pixel) p[TP];
        float8 acc[TP];
#pragma unroll
        for (int t = 0; t < TP; t++) {
            p[t] = FN(pixel_of)(min(first + t * PL, pixels - 1), &rows, &cols);
            acc[t] = 0.0f;
        }
        SRC xg = x + (long)g * cg * f->in[0] * f->in[1];
        SRC wb = w + (long)block * f->ker[0] * f->ker[1] * cg * KB + LANE / PL * 8;
        FN(tile)(acc, xg, wb, p, &rows, &cols, a);

        const long map = (long)f->out[0] * f->out[1];
        const int k0 = block % blocks * KB + LANE / PL * 8; /* within the group */
#pragma unroll
        for (int t = 0; t < TP; t++)
            if (first + t * PL < pixels) {
                const int oh = rows.q + p[t].row * f->stride[0], ow = cols.q + p[t].col * f->stride[1];
                float v[8];
                vstore8(acc[t], 0, v);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    if (k0 + j < kg) {
                        const int k = g * kg + k0 + j;
                        const long i = k * map + (long)oh * f->out[1] + ow;
                        y[p[t].n * a->dst_n + i] = EPILOGUE(v[j], bias, k, add, p[t].n * a->add_n + i, a);
                    }
            }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_transpose_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
