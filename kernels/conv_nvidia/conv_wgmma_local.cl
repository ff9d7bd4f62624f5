/* conv_wgmma_local.cl: convolutions of one pixel at stride 1, and rows of linear layers, on Hopper's tensor cores
 * (compute capability 9.0), operands rounded to tf32, both of which tensor cores read from local memory.
 *
 *   y[n][k][p] = act( sum_c w[k][c] x[n][g*C/g + c][p] + bias[k] + add )
 *
 * Few tiles at once are bound by how long each chunk of the depth takes. Here those who multiply do nothing else; some
 * warps of their own take turns at bringing 64 positions of a chunk to registers, rounding them, and laying them down
 * as tensor cores want them; filters come by bulk copies. The fence that tensor cores need waits for all that a warp
 * has under way, so each warp has one turn under way at a time.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_wgmma_pack.cl (PRODUCTS 1), BM filters together. With
 * DEEP 1 images are one pixel, as rows of linear layers are, and the channels of a position are neighbours.
 * Local memory has for each position of a chunk a line of 128 bytes, 32 channels, whose pieces of 16 bytes change
 * places by the position's number modulo 8 (wgmma's 128-byte swizzle), so that neither stores nor tensor cores meet in
 * banks.
 * Index map: a group computes tiles group, group + at_once, ...; tile = ((split * conv groups + conv group) * tiles of
 * BN positions + tile) * blocks of BM filters + block. Tiles of positions begin anew in each image; they hold rows with
 * DEEP 1. Each of the first BN / 64 warpgroups multiplies 64 positions; the warps behind load. With SPLIT 2 the groups
 * that share a depth leave their sums in `partial`, and the last of them adds all up (conv_join.clh).
 * Work-group: WG = 2 * BN + 32 * LOADERS. Local memory: barriers, biases and stages, LOCAL_PAIR_BYTES(LOADERS)
 * (LOCAL_BYTES of wgmma.clh).
 * Defines: WG, BM 64 or 128, BN 64 or 128, LOADERS 8 or (BN 64) 4, DEEP 0 or 1, SPLIT 0 or 2, EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh); all but the last three required. */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_wgmma_local_##x
#endif
#ifndef BM
#error "BM is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "conv_nvidia/mma.clh"
#define PRODUCTS 1
#define POOLED 0
#define WGMMA_HALVES 0
#include "conv_nvidia/wgmma.clh"
#include "conv_nvidia/wgmma_local.clh"
#include "conv_nvidia/wgmma_ring.clh"
#define CONSUMERS (BN * 2)
#define CONSUMERS_TOGETHER asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory")
#define RESULTS (BM / 2)
#define SECOND 8                               /* from a work-item's first position to its second */
#define FILTERS (BM * LOCAL_PAIR_CHANNELS * 4) /* bytes */
#define STAGE (FILTERS + BN * LOCAL_PAIR_CHANNELS * 4)
#define MOST_STAGES 12
/* Local memory: whether this group was the last one, barriers, biases of two tiles; stages on a boundary of 1024. */
#define FULL_AT 16
#define EMPTY_AT (FULL_AT + 8 * MOST_STAGES)
#define BIASES_AT (EMPTY_AT + 8 * MOST_STAGES)
#define STAGES_AT (BIASES_AT + 2 * BM * 4)
#define FITTING ((LOCAL_PAIR_BYTES(LOADERS) - STAGES_AT - 1023) / STAGE)
#define STAGES (FITTING > MOST_STAGES ? MOST_STAGES : FITTING)
#define PARTS (BN / 64) /* turns of a chunk */
#define PIECES 16       /* of four values, of a work-item's turn */

/* What a group computes: filters block*BM.. of conv group g, `count` positions of image n from `first` on (DEEP: rows),
 * chunks chunk.. end-1. */
struct FN(tile) {
    int g, block, split, chunk, end;
    int n, first, count;
};

struct FN(tile) FN(tile_of)(uint group, const struct conv_local_args *la)
{
    const struct conv_args *a = &la->mma.conv;
    const uint blocks = (uint)(a->k / a->groups + BM - 1) / BM, rest = group / blocks;
    const uint outer = rest / (uint)la->tiles_each, tile = rest - outer * (uint)la->tiles_each;
    struct FN(tile) t;
    t.block = (int)(group - rest * blocks);
    t.split = (int)(outer / (uint)a->groups);
    t.g = (int)(outer - (uint)t.split * (uint)a->groups);
    t.chunk = t.split * la->mma.share;
    t.end = min(t.chunk + la->mma.share, la->mma.padded / LOCAL_PAIR_CHANNELS);
    t.n = DEEP ? 0 : (int)(tile / (uint)la->tiles_image);
    t.first = ((int)tile - t.n * la->tiles_image) * BN;
    t.count = min(BN, (DEEP ? a->n : a->out[1] * a->out[2]) - t.first);
    return t;
}

/* Where a work-item's values of a tile begin, at channel 0 of the conv group, and what there is from there on.
 * `quick`: fours of values lie on boundaries of 16 bytes and are there whole or not at all. */
struct FN(source) {
    const global float *x;
    int positions, channels;
    bool quick;
};

/* Of a turn's four number i: positions and channels from the work-item's first ones on. DEEP: fours of channels, eight
 * work-items a position; else fours of positions, so dealt that neighbours store to different banks. */
#define FIRST_POSITION (DEEP ? LANE % 32 / 8 : LANE % 32 / 16 * 4)
#define FIRST_CHANNEL (DEEP ? LANE % 8 * 4 : LANE % 16)
#define POSITION(i) (DEEP ? (i)*4 : (i) % 8 * 8)
#define CHANNEL(i) (DEEP ? 0 : (i) / 8 * 16)

struct FN(source) FN(source_of)(SRC x, const struct FN(tile) *t, const struct conv_args *a)
{
    const int cg = a->c / a->groups, plane = DEEP ? 1 : a->in[1] * a->in[2];
    struct FN(source) p;
    p.positions = t->count - FIRST_POSITION;
    p.channels = cg - FIRST_CHANNEL;
    p.x = x + (DEEP ? (long)(t->first + FIRST_POSITION) : (long)t->n) * a->src_n +
          (long)(t->g * cg + FIRST_CHANNEL) * plane + (DEEP ? 0 : t->first + FIRST_POSITION);
    p.quick = ((ulong)x & 15) == 0 && a->src_n % 4 == 0 && (DEEP ? cg : plane) % 4 == 0;
    return p;
}

/* A turn: this work-item's values of 64 positions from `position` on. */
void FN(take)(float4 v[PIECES], const struct FN(source) *p, int chunk, int position, const struct conv_args *a)
{
    const int c0 = chunk * LOCAL_PAIR_CHANNELS, plane = DEEP ? 1 : a->in[1] * a->in[2];
    const global float *x = p->x + (DEEP ? position * a->src_n + c0 : (long)c0 * plane + position);
    const int channels = p->channels - c0, positions = p->positions - position;
    if (p->quick) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            v[i] = (float4)(0.0f);
            if (POSITION(i) < positions && CHANNEL(i) < channels)
                v[i] = *(const global float4 *)(x + (DEEP ? POSITION(i) * a->src_n : CHANNEL(i) * plane + POSITION(i)));
        }
    } else {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const global float *four = x + (DEEP ? POSITION(i) * a->src_n : CHANNEL(i) * plane + POSITION(i));
            const bool there = POSITION(i) < positions && CHANNEL(i) < channels;
            const int left = there ? (DEEP ? channels : positions - POSITION(i)) : 0;
            v[i] = (float4)(left > 0 ? four[0] : 0.0f, left > 1 ? four[1] : 0.0f, left > 2 ? four[2] : 0.0f,
                            left > 3 ? four[3] : 0.0f);
        }
    }
}

/* Lays it down, so that cutting it to tf32 rounds it (TF32_NEAR). to: of the turn's first position. */
void FN(keep)(local char *to, const float4 v[PIECES])
{
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const int position = POSITION(i) + FIRST_POSITION, piece = (CHANNEL(i) + FIRST_CHANNEL) / 4;
        const uint four[4] = {TF32_NEAR(v[i].x), TF32_NEAR(v[i].y), TF32_NEAR(v[i].z), TF32_NEAR(v[i].w)};
#if DEEP
        *(local uint4 *)(to + position * 128 + (piece ^ position % 8) * 16) =
            (uint4)(four[0], four[1], four[2], four[3]);
#else
#pragma unroll
        for (int e = 0; e < 4; e++)
            *(local uint *)(to + (position + e) * 128 + (piece ^ (FIRST_POSITION + e)) * 16 + LANE % 4 * 4) = four[e];
#endif
    }
}

/* A warp that loads: its turns of a tile, which is `before` chunks behind the group's first one. Turns go round all
 * warps, from one tile to the next, too: a warp that had none for long would take one phase of a stage for another
 * (wgmma_ring.clh). */
void FN(load)(int before, SRC x, SRC w, local char *stages, uint full, uint empty, const struct FN(tile) *t,
              const struct conv_local_args *la)
{
    const struct conv_args *a = &la->mma.conv;
    const uint blocks = (uint)(a->k / a->groups + BM - 1) / BM;
    const global float *filters = w + (long)((uint)t->g * blocks + (uint)t->block) * la->mma.padded * BM;
    const struct FN(source) p = FN(source_of)(x, t, a);
#pragma unroll 1
    for (int turn = ((LANE - CONSUMERS) / 32 - before * PARTS) & (LOADERS - 1); turn < (t->end - t->chunk) * PARTS;
         turn += LOADERS) {
        const int ahead = turn / PARTS, part = turn % PARTS, chunk = t->chunk + ahead;
        const uint serial = (uint)(before + ahead), slot = serial % STAGES;
        const uint bar = full + slot * 8;
        local char *stage = stages + slot * STAGE;
        float4 v[PIECES];
        FN(take)(v, &p, chunk, part * 64, a);
        FN(wait)(empty + slot * 8, serial / STAGES % 2 ^ 1);
        if (part == 0 && LANE % 32 == 0) {
            BARRIER_EXPECT(bar, FILTERS);
            BULK_COPY(LOCAL_ADDRESS(stage), filters + (long)chunk * (LOCAL_PAIR_CHANNELS * BM), FILTERS, bar);
        }
        FN(keep)(stage + FILTERS + part * (64 * 128), v);
        LOCAL_VISIBLE;
        WARP_TOGETHER;
        if (LANE % 32 == 0)
            BARRIER_ARRIVE(bar);
    }
}

/* Lines of 128 bytes whose pieces have changed places, 1024 bytes for 8 of them. */
#define SWIZZLED(at) ((ulong)(((at) & 0x3ffff) >> 4) | (ulong)1 << 16 | (ulong)(1024 >> 4) << 32 | (ulong)1 << 62)
#define MULTIPLY_UNIT(j) WGMMA_LOCAL(sum, SWIZZLED(pixels + (j) * 32), DESCRIPTOR(filters + (j) * (BM * 32)), 1)

/* Those who multiply: their share of the tile's sums, which tensor cores cut: rounding operands loses more. */
struct FN(pipeline) FN(multiply)(struct FN(pipeline) r, float sum[RESULTS], uint stages, uint full, uint empty,
                                 const struct FN(tile) *t)
{
    uint before = 0;
#pragma unroll
    for (int i = 0; i < RESULTS; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int chunk = t->chunk; chunk < t->end; chunk++) {
        const uint filters = stages + r.stage * STAGE, pixels = filters + FILTERS + LANE / 128 * (64 * 128);
        FN(wait)(full + r.stage * 8, r.parity);
        WGMMA_OPEN;
        MULTIPLY_UNIT(0);
        MULTIPLY_UNIT(1);
        MULTIPLY_UNIT(2);
        MULTIPLY_UNIT(3);
        WGMMA_CLOSE;
        WGMMA_WAIT(sum, 1);
        if (chunk > t->chunk)
            FN(release)(before);
        before = empty + r.stage * 8;
        r = FN(next)(r, STAGES);
    }
    WGMMA_WAIT(sum, 0);
    FN(release)(before);
    return r;
}

/* As conv_join.clh has it. */
bool FN(whose)(int i, int k0, int ahead, const struct FN(tile) *t, const struct conv_args *a, int *k, int *pixel)
{
    *k = k0 + i / 4 * 8 + i % 2;
    *pixel = ahead + i / 2 % 2 * SECOND;
    return *k < a->k / a->groups && *pixel < t->count;
}

#define FIXUP_ITEMS CONSUMERS
#define SUMS RESULTS
#define FIXUP_BARRIER CONSUMERS_TOGETHER
#include "conv_nvidia/conv_join.clh"

#define BATCH 8 /* results that are stored together: what is added to them arrives together */
#if DEEP
/* Sums of a work-item: filters k0 + 8 j + e, which are neighbours in memory, of rows `ahead` and SECOND further.
 * `biases`: of the block's filters from this work-item's first one on. */
void FN(store)(const float sum[RESULTS], const local float *biases, int k0, int ahead, const struct FN(tile) *t,
               ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const int kg = a->k / a->groups;
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (ahead + h * SECOND < t->count) {
            const long row = t->first + ahead + h * SECOND;
            Y_DST to = y + row * a->dst_n + (t->g * kg + k0);
            const global float *other = add + (EPI_ADD ? row * a->add_n + (t->g * kg + k0) : 0);
            const bool pairs = ((ulong)to | (EPI_ADD ? (ulong)other : 0)) % 8 == 0;
#pragma unroll
            for (int j = 0; j < BM / 8; j += BATCH / 2) {
                float2 more[BATCH / 2];
#if EPI_ADD
#pragma unroll
                for (int i = 0; i < BATCH / 2; i++) {
                    const int k = (j + i) * 8;
                    if (pairs && k0 + k + 1 < kg)
                        more[i] = *(const global float2 *)(other + k);
                    else
                        more[i] = (float2)(k0 + k < kg ? other[k] : 0.0f, k0 + k + 1 < kg ? other[k + 1] : 0.0f);
                }
#endif
#pragma unroll
                for (int i = 0; i < BATCH / 2; i++) {
                    const int k = (j + i) * 8;
                    const float *two = sum + 4 * (j + i) + 2 * h;
                    const float low = EPILOGUE_OF(two[0], biases, k, more[i].x, a);
                    const float high = EPILOGUE_OF(two[1], biases, k + 1, more[i].y, a);
                    if (pairs && k0 + k + 1 < kg)
                        *(global float2 *)(to + k) = (float2)(low, high);
                    else {
                        if (k0 + k < kg)
                            to[k] = low;
                        if (k0 + k + 1 < kg)
                            to[k + 1] = high;
                    }
                }
            }
        }
}
#else
/* The same of positions of a map. */
void FN(store)(const float sum[RESULTS], const local float *biases, int k0, int ahead, const struct FN(tile) *t,
               ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const int kg = a->k / a->groups, map = a->out[1] * a->out[2];
    const long from = (long)(t->g * kg + k0) * map + t->first + ahead;
    Y_DST to = y + t->n * a->dst_n + from;
    const global float *other = add + (EPI_ADD ? t->n * a->add_n + from : 0);
#pragma unroll
    for (int j = 0; j < RESULTS; j += BATCH) {
        float more[BATCH];
#if EPI_ADD
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int k = (j + i) / 4 * 8 + i % 2, h = i / 2 % 2 * SECOND;
            more[i] = k0 + k < kg && ahead + h < t->count ? other[(long)k * map + h] : 0.0f;
        }
#endif
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int k = (j + i) / 4 * 8 + i % 2, h = i / 2 % 2 * SECOND;
            if (k0 + k < kg && ahead + h < t->count)
                to[(long)k * map + h] = EPILOGUE_OF(sum[j + i], biases, k, more[i], a);
        }
    }
}
#endif

void FN(body)(ulong group, X_SRC x, SRC w, DST partial, DST arrived, SRC bias, ADD_SRC add, Y_DST y,
              const struct conv_local_args *la, local float4 *scratch)
{
    const struct conv_args *a = &la->mma.conv;
    const uint to = LOCAL_ADDRESS(scratch), full = to + FULL_AT, empty = to + EMPTY_AT;
    const uint stages = (to + STAGES_AT + 1023) / 1024 * 1024;
    GROUPS_RESIDENT(LOCAL_PAIR_RESIDENT(LOADERS));
    LOCAL_BYTES(LOCAL_PAIR_BYTES(LOADERS));
    if (LANE == 0) {
        for (int i = 0; i < STAGES; i++) {
            BARRIER_INIT(full + i * 8, PARTS + 1);
            BARRIER_INIT(empty + i * 8, CONSUMERS / 32);
        }
        LOCAL_VISIBLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE >= CONSUMERS) {
        int before = 0;
        for (uint tile = (uint)group; tile < (uint)la->mma.tiles; tile += (uint)la->mma.at_once) {
            const struct FN(tile) t = FN(tile_of)(tile, la);
            FN(load)(before, x, w, (local char *)scratch + (stages - to), full, empty, &t, la);
            before += t.end - t.chunk;
        }
    } else {
        const int lane = LANE % 32, ahead = LANE / 32 * 16 + lane / 4;
        local float *biases = (local float *)scratch + BIASES_AT / 4;
        struct FN(pipeline) r = {0, 0};
        int turn = 0;
        for (uint tile = (uint)group; tile < (uint)la->mma.tiles; tile += (uint)la->mma.at_once, turn = BM - turn) {
            const struct FN(tile) t = FN(tile_of)(tile, la);
            const int kg = a->k / a->groups, k0 = t.block * BM;
            float sum[RESULTS];
#if EPI_BIAS
            if (LANE < BM)
                biases[turn + LANE] = k0 + LANE < kg ? bias[t.g * kg + k0 + LANE] : 0.0f;
#endif
            r = FN(multiply)(r, sum, stages, full, empty, &t);
            CONSUMERS_TOGETHER;
#if SPLIT == 2
            const uint of = tile % (uint)la->mma.each;
            if (FN(fixup)(sum, k0, ahead, &t, x, w, x, x,
                          (global float4 *)partial + (long)of * la->mma.split_k * PARTIALS, (global uint *)arrived + of,
                          (uint)la->mma.split_k - 1, &la->mma, (local uint *)scratch))
#endif
                FN(store)(sum, biases + turn + lane % 4 * 2, k0 + lane % 4 * 2, ahead, &t, add, y, a);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, DST partial, ulong partial_off, DST arrived,
                ulong arrived_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y, ulong y_off,
                const struct conv_local_args a)
{
    local float4 scratch[2900]; /* LOCAL_BYTES makes it longer than the driver's compiler allows */
    FN(body)(GROUP, x + x_off, w + w_off, partial + partial_off, arrived + arrived_off, bias + bias_off, add + add_off,
             y + y_off, &a, scratch);
}
#endif
