/* conv_transpose_col2im.cl: a transposed convolution from products of its pixels with each tap's filters, which it puts
 * where they belong; and those filters.
 *
 *   y[n][k][o] = act( sum of z[n][k*taps + t][i] over taps t, pixels i with i*stride = o + pad - t*dil
 *                     + bias[k] + add[n][k][o] )
 *   filters[k*taps + t][c] = w[g*C/g + c][k - g*K/g][t], g = k's group
 *
 * A work-item computes one column of ROWS rows. Blocks of rows begin where h + pad is a multiple of SH, the first
 * perhaps above the map, so that which taps meet which rows is known to the compiler.
 * Layouts: z [N][K*taps][D][H][W] of the input's size, y, add NC(D)HW, all with batch strides; w [C][K/groups][taps],
 * its first stride a->w_k; filters dense.
 * Index map: item = (((n * K + k) * D + d) * blocks + block of rows) * W + w; FN(filters): an element. Work-group: WG
 * items. Local memory: none.
 * Defines: WG (any), INDEX (uint, or ulong, the default: that of items), KH, KW (the window), SH, SW (strides), DH, DW
 * (dilations), EVERY (of the taps along a row, one in so many can meet a column), ROWS (a multiple of SH), EPI_BIAS,
 * EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef INDEX
#define INDEX ulong
#endif
#include "common/strided.clh"
#include "common/strided_window.clh"
#ifndef FN
#define FN(x) conv_transpose_col2im_##x
#endif
#ifndef DH
#define DH 1
#endif
#ifndef DW
#define DW 1
#endif
#ifndef EVERY
#define EVERY 2
#endif
#ifndef ROWS
#define ROWS 8
#endif
#define ACROSS ((KW + EVERY - 1) / EVERY) /* taps of a row of filters that can meet a column */

/* Adds one plane of the window: `first` is the row of z whose tap 0 meets the block's first row, `right` the column
 * with its padding. map: elements between planes of z. */
void FN(plane)(float sum[ROWS], SRC z, int first, int right, long map, const struct conv_args *a)
{
    int begin = KW; /* the first tap that meets this column */
#pragma unroll
    for (int s = min(EVERY, KW) - 1; s >= 0; s--)
        begin = (right - s * DW) % SW == 0 ? s : begin;
    long place[ACROSS];
    bool there[ACROSS];
#pragma unroll
    for (int m = 0; m < ACROSS; m++) {
        const int s = begin + m * EVERY, left = right - s * DW, j = left / SW;
        there[m] = s < KW && left >= 0 && j < a->in[2];
        place[m] = there[m] ? s * map + j : 0;
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++)
#pragma unroll
        for (int r = 0; r < KH; r++)
            if ((row - r * DH) % SH == 0) {
                const int i = first + (row - r * DH) / SH;
                SRC line = z + r * KW * map + (long)i * a->in[2];
#pragma unroll
                for (int m = 0; m < ACROSS; m++)
                    if (there[m] && (uint)i < (uint)a->in[1])
                        sum[row] += line[place[m]];
            }
}

void FN(body)(ulong group, SRC z, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int lead = a->pad[1] % SH;
    const long map = (long)a->in[0] * a->in[1] * a->in[2];
    INDEX rest = (INDEX)group * WG + LANE;
    TAKE_DIGIT(ow, rest, a->out[2]);
    TAKE_DIGIT(block, rest, (a->out[1] + lead + ROWS - 1) / ROWS);
    TAKE_DIGIT(od, rest, a->out[0]);
    TAKE_DIGIT(k, rest, a->k);
    const long n = (long)rest;
    if (n < a->n) {
        const int top = (int)block * ROWS - lead;
        float sum[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; j++)
            sum[j] = 0.0f;
        for (int t = 0; t < a->ker[0]; t++) {
            const int behind = (int)od + a->pad[0] - t * a->dil[0], d = behind / a->stride[0];
            if (behind >= 0 && behind % a->stride[0] == 0 && d < a->in[0])
                FN(plane)(sum, z + n * a->src_n + (k * a->ker[0] + t) * (KH * KW) * map + (long)d * a->in[1] * a->in[2],
                          (top + a->pad[1]) / SH, (int)ow + a->pad[2], map, a);
        }
#pragma unroll
        for (int j = 0; j < ROWS; j++)
            if (top + j >= 0 && top + j < a->out[1]) {
                const long o = ((k * a->out[0] + od) * a->out[1] + top + j) * a->out[2] + ow;
                y[n * a->dst_n + o] = EPILOGUE(sum[j], bias, (int)k, add, n * a->add_n + o, a);
            }
    }
}

KERNEL FN(main)(SRC z, ulong z_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct conv_args a)
{
    FN(body)(GROUP, z + z_off, bias + bias_off, add + add_off, y + y_off, &a);
}

void FN(filters_body)(ulong group, SRC w, DST filters, const struct conv_args *a)
{
    const uint taps = (uint)(a->ker[0] * a->ker[1] * a->ker[2]), cg = (uint)(a->c / a->groups);
    const uint kg = (uint)(a->k / a->groups);
    const ulong i = group * WG + LANE;
    if (i < (ulong)a->k * taps * cg) {
        const ulong row = i / cg;
        const uint c = (uint)(i - row * cg), k = (uint)(row / taps), t = (uint)(row - (ulong)k * taps), g = k / kg;
        filters[i] = w[(long)(g * cg + c) * a->w_k + (long)(k - g * kg) * taps + t];
    }
}

KERNEL FN(filters)(SRC w, ulong w_off, DST filters, ulong filters_off, const struct conv_args a)
{
    FN(filters_body)(GROUP, w + w_off, filters + filters_off, &a);
}
