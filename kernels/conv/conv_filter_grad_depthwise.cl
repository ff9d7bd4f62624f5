/* conv_filter_grad_depthwise.cl: the gradient of filters that have one channel each, for GPUs.
 *
 *   parts[part][k][r][s] = sum over outputs (n, i, j) of a chunk of
 *                          dy[n][k][i][j] * x[n][k/m][i*SH - ph + r*DH][j*SW - PAD_W + s*DW], m = K/C
 *
 * conv_sum_parts.cl adds the chunks up. A work-item has sums for all taps, over tiles of four columns of RY rows of
 * outputs; each row of x that lies under a tile is read once. The group's sums are added up in pairs.
 * Layouts: x, dy NCHW with batch strides; parts dense. chunk: tiles of a part, fewer than 2^31.
 * Index map: group = part * K + k. Work-group: WG, a power of two. Local memory: WG floats for each of TAPS.
 * Defines: WG, RY, KH, KW, SH, SW, DH, DW, PAD_W (window_tile.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_filter_grad_depthwise_##x
#endif
#include "conv/window_tile.clh"
#define TAPS (KH * KW < 9 ? KH * KW : 9) /* added up at a time */
#define SCRATCH ((TAPS * WG + 3) / 4)

/* Four slopes of a row of dy from column ow on, with zeros behind its end. */
float4 FN(slopes)(SRC row, int ow, int width, bool valid, bool quads)
{
    float4 four = 0.0f;
    if (valid && quads)
        return *(const global float4 *)(row + ow);
    if (valid) {
        four.x = row[ow];
        four.y = ow + 1 < width ? row[ow + 1] : 0.0f;
        four.z = ow + 2 < width ? row[ow + 2] : 0.0f;
        four.w = ow + 3 < width ? row[ow + 3] : 0.0f;
    }
    return four;
}

/* Adds a tile whose first output is (oh, ow). */
void FN(tile)(float sum[KH * KW], SRC plane, SRC slopes, int oh, int ow, bool quads, bool slope_quads,
              const struct conv_args *a)
{
    const int line = oh * SH - a->pad[1];
    float slope[RY * 4];
#pragma unroll
    for (int j = 0; j < RY; j++)
        vstore4(FN(slopes)(slopes + (long)(oh + j) * a->out[2], ow, a->out[2], oh + j < a->out[1], slope_quads), j,
                slope);
#pragma unroll
    for (int i = 0; i < WINDOW_LINES; i++) {
        float v[WINDOW_QUADS * 4];
        FN(read)(v, plane + (long)(line + i) * a->in[2], WINDOW_FIRST(ow), a->in[2], (uint)(line + i) < (uint)a->in[1],
                 quads);
#pragma unroll
        for (int j = 0; j < RY; j++)
            if (i >= j * SH && (i - j * SH) % DH == 0 && (i - j * SH) / DH < KH)
#pragma unroll
                for (int s = 0; s < KW; s++)
#pragma unroll
                    for (int t = 0; t < 4; t++) {
                        const int tap = (i - j * SH) / DH * KW + s;
                        sum[tap] = fma(slope[4 * j + t], v[WINDOW_LEAD + t * SW + s * DW], sum[tap]);
                    }
    }
}

/* The sums of all work-items, TAPS at a time. */
void FN(together)(const float sum[KH * KW], DST to, local float *buf)
{
#pragma unroll
    for (int first = 0; first < KH * KW; first += TAPS) {
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            if (first + t < KH * KW)
                buf[t * WG + LANE] = sum[first + t];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = WG / 2; s > 0; s >>= 1) {
            if (LANE < s)
#pragma unroll
                for (int t = 0; t < TAPS; t++)
                    if (first + t < KH * KW)
                        buf[t * WG + LANE] += buf[t * WG + LANE + s];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (int t = LANE; t < min(TAPS, KH * KW - first); t += WG)
            to[first + t] = buf[t * WG];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

void FN(body)(ulong group, SRC x, SRC dy, DST parts, const struct filter_grad_parts_args *f, local float4 *scratch)
{
    const struct conv_args *a = &f->conv;
    const int part = (int)(group / (uint)a->k), k = (int)(group - (ulong)part * (uint)a->k);
    const uint across = (uint)(a->out[2] + 3) / 4, down = (uint)(a->out[1] + RY - 1) / RY;
    const long first = part * f->chunk;
    const uint each = (uint)min(f->chunk, (long)a->n * across * down - first);
    /* the first tile's column, row and image: what is added to them stays small */
    const long lines = first / across, n0 = lines / down;
    const uint column0 = (uint)(first - lines * across), line0 = (uint)(lines - n0 * down);
    SRC xc = x + (long)(k / (a->k / a->c)) * a->in[1] * a->in[2];
    SRC yk = dy + (long)k * a->out[1] * a->out[2];
    const bool quads = ((ulong)a->in[2] | a->src_n | (ulong)x / 4) % 4 == 0;
    const bool slope_quads = ((ulong)a->out[2] | a->dst_n | (ulong)dy / 4) % 4 == 0;
    float sum[KH * KW];
#pragma unroll
    for (int t = 0; t < KH * KW; t++)
        sum[t] = 0.0f;
    for (uint tile = LANE; tile < each; tile += WG) {
        const uint row = (column0 + tile) / across, image = (line0 + row) / down;
        const int ow = (int)(column0 + tile - row * across) * 4, oh = (int)(line0 + row - image * down) * RY;
        const long n = n0 + image;
        FN(tile)(sum, xc + n * a->src_n, yk + n * a->dst_n, oh, ow, quads, slope_quads, a);
    }
    FN(together)(sum, parts + ((long)part * a->k + k) * (KH * KW), (local float *)scratch);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST parts, ulong parts_off,
                const struct filter_grad_parts_args f)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dy + dy_off, parts + parts_off, &f, scratch);
}
