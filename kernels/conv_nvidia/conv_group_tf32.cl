/* conv_group_tf32.cl: convolution of few channels a group on NVIDIA tensor cores: the windows of a tile's pixels and
 * the filters lie in local memory, eight channels at a time while the next ones arrive.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} w[k][c][r][s] x[n][g*C/G + c][oh*sh - ph + r*DH][ow*sw - pw + s*DW]
 *                          + bias[k] + add )
 *
 * Operands are rounded to tf32, as conv_mma.cl does with PRODUCTS 1.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_mma_pack.cl, depth d = (r * KW + s) * 8 * CHUNKS + c.
 * Index map: group = (((images' number * conv groups + conv group) * tiles down + tile row) * tiles across + tile
 * column) * blocks of filters + block; a tile has HIGH x WIDE pixels of IMAGES images. A warp computes MI * 16 filters
 * by NJ * 8 pixels.
 * Work-group: WG. Local memory: STAGES stages of eight channels, CHANNEL floats apart, each with ROWS rows of an image
 * after another, of UNITS times VEC pixels, which begin on a boundary of VEC pixels; and their filters.
 * Defines: WG 256, MI 1 or 2, NJ 2, 4 or 8, KH, KW, DH, DW, CG and KG (channels and filters of a conv group), GROUPS,
 * DOWN, ACROSS (tiles), HIGH, WIDE, IMAGES, ROWS, UNITS, CHANNEL, VEC 1, 2 or 4 (widths are multiples), STAGES 2 or 3,
 * all required; EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) conv_group_tf32_##x
#endif
#ifndef CHANNEL
#error "CHANNEL is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "common/map_words.clh"
#define BM (MI * 16)
#define BLOCKS ((KG + BM - 1) / BM)
#define CHUNK 8
#define CHUNKS ((CG + CHUNK - 1) / CHUNK)
#define ROW (UNITS * VEC)
#define PIXELS (CHUNK * CHANNEL)     /* floats of a stage, */
#define FILTERS (KH * KW * MI * 128) /* and of its filters */
#define STAGE (PIXELS + FILTERS)
#define EACH (ROWS * IMAGES * UNITS) /* copies of a channel, by a warp */
#define PIXEL_COPIES ((EACH + 31) / 32)
#define FRAGMENTS (KH * KW * MI) /* of filters for eight channels, each copied by a warp */
#define WARPS (WG / 32)
#undef COPY
#if VEC == 4
#define COPY COPY16
#elif VEC == 2
#define COPY COPY8
#else
#define COPY COPY4
#endif

/* A group's tile: conv group, block of filters of it, first image and pixel; and the first row and column of what is
 * copied, `lead` pixels before its windows. */
struct FN(tile) {
    int g, block, n, row, column, top, left, lead;
};

struct FN(tile) FN(tile_of)(ulong group, const struct conv_args *a)
{
    const uint all = (uint)group, tile = all / BLOCKS, row = tile / ACROSS, map = row / DOWN;
    struct FN(tile) t;
    t.block = (int)(all % BLOCKS);
    t.column = (int)(tile % ACROSS) * WIDE;
    t.row = (int)(row % DOWN) * HIGH;
    t.g = (int)(map % GROUPS);
    t.n = (int)(map / GROUPS) * IMAGES;
    t.top = t.row * a->stride[1] - a->pad[1];
    t.left = t.column * a->stride[2] - a->pad[2];
    t.lead = t.left & (VEC - 1);
    t.left -= t.lead;
    return t;
}

/* Where this work-item's copies come from in a channel of the tile's first image; -1: zeros. */
void FN(plan)(int from[PIXEL_COPIES], const struct FN(tile) *t, const struct conv_args *a)
{
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; i++) {
        const uint unit = (uint)LANE % 32 + i * 32, row = unit / UNITS, image = IMAGES > 1 ? row / ROWS : 0;
        const int ih = t->top + (int)(row - image * ROWS), iw = t->left + (int)(unit % UNITS * VEC);
        const bool inside = t->n + (int)image < a->n && (uint)ih < (uint)a->in[1] && (uint)iw < (uint)a->in[2];
        from[i] = inside ? (int)image * (int)a->src_n + ih * a->in[2] + iw : -1;
    }
}

/* Starts the copies of a channel at x, which does not exist unless `there`, to where it begins in a stage, VEC pixels
 * at a time: x lies on a boundary of as many. */
void FN(load_pixels)(uint to, const global float *x, bool there, const int from[PIXEL_COPIES])
{
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; i++)
        if (EACH % 32 == 0 || i < EACH / 32 || LANE % 32 < EACH % 32) {
            const bool inside = there && from[i] >= 0;
            COPY(to + i * (128 * VEC), x + (inside ? from[i] : 0), inside ? VEC * 4 : 0);
        }
}

/* The same pixel by pixel. */
void FN(load_single_pixels)(uint to, const global float *x, bool there, const int from[PIXEL_COPIES])
{
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; i++)
        if (EACH % 32 == 0 || i < EACH / 32 || LANE % 32 < EACH % 32) {
            const bool inside = there && from[i] >= 0;
#pragma unroll
            for (int e = 0; e < VEC; e++)
                COPY4(to + i * (128 * VEC) + e * 4, x + (inside ? from[i] + e : 0), inside ? 4 : 0);
        }
}

/* Starts the copies of filters for eight channels: this work-item's share of the fragments begins at w. */
void FN(load_filters)(uint to, const global float *w)
{
#pragma unroll
    for (int i = 0; i < FRAGMENTS; i += WARPS)
        if (i + WARPS <= FRAGMENTS || LANE / 32 < FRAGMENTS % WARPS)
            COPY16(to + i * 512, w + i / MI * (CHUNKS * 128), 16);
}

/* sum += filters by pixels of eight channels; `filters`: this work-item's share of the first ones at the first tap;
 * `place`: where its pixels and channel lie. */
void FN(multiply)(float sum[MI][NJ][4], const local float *filters, const local float *pixels, const int place[NJ])
{
#pragma unroll
    for (int tap = 0; tap < KH * KW; tap++) {
        uint a[MI][4], b[NJ][2];
#pragma unroll
        for (int i = 0; i < MI; i++)
            vstore4(as_uint4(*(const local float4 *)(filters + (tap * MI + i) * 128)), 0, a[i]);
#pragma unroll
        for (int j = 0; j < NJ; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                b[j][e] = TF32_NEAR(pixels[place[j] + tap / KW * DH * ROW + tap % KW * DW + e * 4 * CHANNEL]);
#pragma unroll
        for (int i = 0; i < MI * NJ; i++)
            MMA(sum[i / NJ][i % NJ], a[i / NJ], b[i % NJ]);
    }
}

/* Pixel number `pixel` of a tile: image of it, row and column there. */
struct FN(pixel) {
    int image, row, column;
};

struct FN(pixel) FN(pixel_of)(uint pixel)
{
    struct FN(pixel) p;
    p.column = (int)(pixel % WIDE);
    p.row = (int)(pixel / WIDE % HIGH);
    p.image = (int)(pixel / (WIDE * HIGH));
    return p;
}

/* Where a pixel's window lies in a stage; of one beyond the tile, that of the tile's first pixel. */
int FN(place_of)(uint pixel, const struct FN(tile) *t, const struct conv_args *a)
{
    const struct FN(pixel) p = FN(pixel_of)(pixel);
    const int row = p.image * ROWS + p.row * a->stride[1];
    return p.image < IMAGES ? row * ROW + p.column * a->stride[2] + t->lead : t->lead;
}

/* What results of a work-item need: filters k0 + 8 * h, h < 2 * MI, of the conv group; biases of these; and where the
 * first one of the tile's first image begins in y and add. */
struct FN(results) {
    int k0;
    float biases[2 * MI];
    Y_DST y;
    ADD_SRC add;
};

/* Whether pixel number `pixel` of the tile is one of the map; how far behind `y` and `add` of FN(results) it lies. */
bool FN(find)(uint pixel, const struct FN(tile) *t, const struct conv_args *a, int *y, int *add)
{
    const struct FN(pixel) p = FN(pixel_of)(pixel);
    const int at = (t->row + p.row) * a->out[2] + t->column + p.column;
    *y = at + (IMAGES > 1 ? p.image * (int)a->dst_n : 0);
    *add = at + (IMAGES > 1 ? p.image * (int)a->add_n : 0);
    return p.image < IMAGES && t->n + p.image < a->n && t->row + p.row < a->out[1] && t->column + p.column < a->out[2];
}

/* Two neighbouring pixels of each fragment, of which `first` is the first one, where all lie on a boundary of two. */
void FN(store_pairs)(const float sum[MI][NJ][4], const struct FN(results) *r, uint first, const struct FN(tile) *t,
                     const struct conv_args *a)
{
    const int step = 8 * a->out[1] * a->out[2];
#pragma unroll
    for (int j = 0; j < NJ; j++) {
        int yi, ai;
        if (FN(find)(first + j * 8, t, a, &yi, &ai))
#pragma unroll
            for (int h = 0; h < 2 * MI; h++)
                if (r->k0 + 8 * h < KG) {
                    const float *v = sum[h / 2][j] + h % 2 * 2;
                    float2 other = 0.0f;
#if EPI_ADD
                    other = LOAD_ADD2(r->add + (ai + h * step));
#endif
                    STORE_Y2(EPILOGUE_OF(v[0], r->biases, h, other.x, a), EPILOGUE_OF(v[1], r->biases, h, other.y, a),
                             r->y + (yi + h * step));
                }
    }
}

/* The same pixel by pixel. */
void FN(store_singles)(const float sum[MI][NJ][4], const struct FN(results) *r, uint first, const struct FN(tile) *t,
                       const struct conv_args *a)
{
    const int step = 8 * a->out[1] * a->out[2];
#pragma unroll
    for (int i = 0; i < 2 * NJ; i++) {
        int yi, ai;
        if (FN(find)(first + i / 2 * 8 + i % 2, t, a, &yi, &ai))
#pragma unroll
            for (int h = 0; h < 2 * MI; h++)
                if (r->k0 + 8 * h < KG)
                    STORE_Y(EPILOGUE_OF(sum[h / 2][i / 2][h % 2 * 2 + i % 2], r->biases, h,
                                        LOAD_ADD(r->add, ai + h * step), a),
                            r->y, yi + h * step);
    }
}

/* Starts the copies of chunk `chunk`, whose pixels begin at x and filters at w for this work-item. */
void FN(load)(uint pixels_to, uint filters_to, const global float *x, const global float *w, int chunk,
              const int from[PIXEL_COPIES], bool aligned)
{
    const bool there = CG % CHUNK == 0 || chunk * CHUNK + LANE / 32 < CG;
    if (VEC == 1 || aligned)
        FN(load_pixels)(pixels_to, x, there, from);
    else
        FN(load_single_pixels)(pixels_to, x, there, from);
    FN(load_filters)(filters_to, w);
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_args *a,
              local float4 *scratch)
{
    const struct FN(tile) t = FN(tile_of)(group, a);
    const uint lane = (uint)LANE % 32, warp = (uint)LANE / 32, ahead = warp * (NJ * 8);
    const int blocks = (KG + 15) / 16, block = min(t.block * MI + (int)(warp % MI), blocks - 1);
    const long plane = (long)a->in[1] * a->in[2], map = (long)a->out[1] * a->out[2];
    const bool aligned = (ulong)x % (VEC * 4) == 0;
    const local float *stages = (const local float *)scratch;
    const uint pixels_to = LOCAL_ADDRESS(scratch) + (warp * CHANNEL + lane * VEC) * 4;
    const uint filters_to = LOCAL_ADDRESS(scratch) + (PIXELS + warp * 128 + lane * 4) * 4;
    const global float *xp = x + t.n * a->src_n + (t.g * CG + (int)warp) * plane;
    const global float *wp =
        w + (t.g * blocks + block) * (KH * KW * CHUNKS * 128l) + warp / MI * (CHUNKS * 128) + lane * 4;
    int from[PIXEL_COPIES], place[NJ];
    FN(plan)(from, &t, a);
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < CHUNKS) {
            FN(load)(pixels_to + i * (STAGE * 4), filters_to + i * (STAGE * 4), xp, wp + i * 128, i, from, aligned);
            xp += CHUNK * plane;
        }
        COPIES_CLOSE;
    }
#pragma unroll
    for (int j = 0; j < NJ; j++)
        place[j] = FN(place_of)(ahead + j * 8 + lane / 4, &t, a) + (int)(lane % 4) * CHANNEL;
    float sum[MI][NJ][4];
#pragma unroll
    for (int i = 0; i < MI * NJ * 4; i++)
        sum[i / 4 / NJ][i / 4 % NJ][i % 4] = 0.0f;
    int stage = 0, fill = STAGES - 1;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const int next = chunk + STAGES - 1;
        COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < CHUNKS) {
            FN(load)(pixels_to + fill * (STAGE * 4), filters_to + fill * (STAGE * 4), xp, wp + next * 128, next, from,
                     aligned);
            xp += CHUNK * plane;
        }
        COPIES_CLOSE;
        FN(multiply)(sum, stages + stage * STAGE + PIXELS + lane * 4, stages + stage * STAGE, place);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        fill = fill + 1 < STAGES ? fill + 1 : 0;
    }

    struct FN(results) r = {.k0 = t.block * BM + (int)(lane / 4)};
    const int filter = t.g * KG + r.k0;
    const ulong apart =
        (ulong)WIDE | a->out[2] | a->dst_n | (ulong)y / Y_BYTES | (EPI_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
    r.y = y + t.n * a->dst_n + filter * map;
    r.add = add + t.n * a->add_n + filter * map;
#pragma unroll
    for (int h = 0; h < 2 * MI; h++)
        r.biases[h] = EPI_BIAS && r.k0 + 8 * h < KG ? bias[filter + 8 * h] : 0.0f;
    if (apart % 2 == 0)
        FN(store_pairs)(sum, &r, ahead + 2 * (lane % 4), &t, a);
    else
        FN(store_singles)(sum, &r, ahead + 2 * (lane % 4), &t, a);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_args a)
{
    local float4 scratch[STAGES * STAGE / 4];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
#endif
