/* conv_filter_grad_wgmma: the gradient of filters as an implicit matrix product on Hopper's tensor cores, by rows of x; in
 * the forms of conv_filter_grad_mma.c. See kernels/filter_grad_nvidia/conv_filter_grad_wgmma.cl. */
#include <float.h>

#include "algos/common/rows.h"
#include "algos/filter_grad_nvidia/conv_filter_grad_mma.h"
#include "algos/cost/cost.h"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"

enum {
    GROUP = 512,
    POSITIONS = 128,
    COPIERS = 128,
    CORES_GROUP = 256,
    LEAST_STAGES = 3,
    BANKS = 32,
    MOST_DOWN = 1 << 10, /* rows of a window, and floats of a segment, that a piece's place has room for */
    MOST_RIGHT = 512,
    PLACES = 1 << 12, /* of 16 bytes in a stage */
};

/* Times as those of wgmma's in conv_mma_common.c. */
static const struct mma_tile_shape tiles[] = {
    {128, POSITIONS, GROUP, 1, ROWS_DEPTH, 1, 690.0f, 690.0f, 3000.0f, 0.0f, 0.0f},
    {64, POSITIONS, GROUP, 1, ROWS_DEPTH, 1, 600.0f, 600.0f, 2600.0f, 0.0f, 0.0f},
};
/* Of the time of three products, moving operands takes the rest. */
static const float one_product[MMA_KERNELS] = {[MMA_AMPERE] = 0.9f, [MMA_HOPPER] = 0.8f};

/* How a convolution's maps are cut. */
struct rows {
    struct conv_args a; /* windows of one pixel at stride 1 see a map as one row */
    struct filter_grad_rows_args args;
    bool pack_x;   /* rows that do not begin on boundaries of 16 bytes are copied */
    size_t chunks; /* of the depth; 0: there is no way */
    int floats;    /* of x in a stage */
};

static int last_right(const struct conv_args *a)
{
    const int right = (a->ker[2] - 1) * a->dil[2] - a->pad[2];
    return right > 0 ? right : 0;
}

/* Floats of x of a stage with segments of 2^wide pixels, and what the kernel needs to know; 0 where pieces of 16 bytes are
 * too many. Rows begin in other banks than those beside them. */
static int cut(const struct conv_args *a, int wide, struct filter_grad_rows_args *r)
{
    const int pixels = 1 << wide, segments = ROWS_DEPTH >> wide, taps = (int)conv_taps(a);
    const int most = (POSITIONS + taps - 2) / taps + 1, each = a->c / a->groups;
    const int lines = (most < each ? most : each) * a->ker[1];
    r->wide = wide;
    r->across = (int)ceil_div((size_t)a->out[2], (size_t)pixels);
    r->left = (int)round_up((size_t)a->pad[2], 4);
    r->segment = (int)round_up((size_t)(r->left + (pixels - 1) * a->stride[2] + 1 + last_right(a)), 4);
    r->row = (int)round_up((size_t)(segments * r->segment), BANKS) + (a->ker[2] == 1 ? 4 : 8);
    if (lines * (r->segment / 4) * segments > ROWS_PIECES * COPIERS || lines * r->row / 4 >= PLACES ||
        r->segment > MOST_RIGHT || r->left > MOST_RIGHT / 2)
        return 0;
    return lines * r->row;
}

static int stage_bytes(const struct rows *r, int filters, enum mma_products products)
{
    const int parts = products == MMA_TF32 ? 1 : 2;
    return (int)sizeof(float) * (parts * filters * ROWS_DEPTH + r->floats);
}

/* Segments leave as few pixels empty as can be, and are as long as can be. */
static struct rows rows_of(const struct problem *p)
{
    struct rows r = {.a = conv_filter_grad_args(p)};
    struct conv_args *a = &r.a;
    int best = 0;
    if (conv_is_pointwise(a) && !conv_is_volume(a)) {
        a->in[2] = a->out[2] = (int)conv_map(a);
        a->in[1] = a->out[1] = 1;
    }
    r.pack_x = a->in[2] % 4 != 0 || a->src_n % 4 != 0;
    if ((a->ker[1] - 1) * a->dil[1] >= MOST_DOWN)
        return r;
    for (int wide = 5; wide >= 2; wide--) {
        struct filter_grad_rows_args args;
        const int floats = cut(a, wide, &args), pixels = args.across << wide;
        if (floats == 0 || (best > 0 && pixels >= best))
            continue;
        best = pixels;
        r.args = args;
        r.floats = floats;
    }
    r.args.pitch_x = (int)round_up((size_t)a->in[2], 4);
    if (best == 0 || stage_bytes(&r, tiles[0].rows, MMA_FLOAT32) > ROWS_LOCAL / LEAST_STAGES - 3 * 8 ||
        (double)a->c * a->in[1] * r.args.pitch_x >= INT32_MAX)
        return r;
    r.chunks = ceil_div((size_t)a->n * (size_t)a->out[1] * (size_t)r.args.across,
                        (size_t)(ROWS_DEPTH >> r.args.wide));
    return r;
}

static size_t packed_x(const struct rows *r)
{
    return r->pack_x ? sizeof(float) * (size_t)r->a.n * (size_t)r->a.c * (size_t)r->a.in[1] *
                           (size_t)r->args.pitch_x
                     : 0;
}

/* dy chunk by chunk, for tiles of so many filters. */
static size_t packed_dy(const struct rows *r, int filters)
{
    return sizeof(float) * (size_t)conv_blocks(&r->a, filters) * r->chunks * (size_t)filters * ROWS_DEPTH;
}

static size_t packed(const struct rows *r, int filters)
{
    return packed_x(r) + packed_dy(r, filters);
}

/* What is packed is read and written. */
static float pack_time(const struct rows *r, int filters)
{
    return (float)(1 + r->pack_x) * MMA_SUM_LAUNCH_NS +
           2.0f * (float)packed(r, filters) / MMA_SUM_BYTES_PER_NS;
}

/* The best tile, of those whose operands there is memory for if there is one. */
static struct filter_grad_choice choose(const struct problem *p, const struct rows *r)
{
    struct filter_grad_choice best = {.tile = NULL};
    for (size_t i = 0; i < COUNT_OF(tiles); i++) {
        const size_t scratch = packed(r, tiles[i].rows);
        struct filter_grad_choice c = filter_grad_choose(p, &r->a, &tiles[i], 1, r->chunks, scratch);
        c.time = scratch > p->workspace_limit ? FLT_MAX : c.time + pack_time(r, tiles[i].rows);
        if (best.tile == NULL || c.time < best.time)
            best = c;
    }
    return best;
}

float filter_grad_time_tf32(const struct problem *p)
{
    const struct rows r = rows_of(p);
    const float mma = one_product[MMA_AMPERE] * filter_grad_choose_mma(p, &r.a).time;
    const float wgmma = r.chunks > 0 ? one_product[MMA_HOPPER] * choose(p, &r).time : mma;
    return wgmma < mma ? wgmma : mma;
}

static bool may(const struct problem *p, struct why *why, bool one)
{
    const struct rows r = rows_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, filter_grad_fits(&r.a), "windows with a depth, and very large maps, are left to others");
    REQUIRE(why, r.chunks > 0, "windows whose rows take too much local memory are left to mma");
    const struct filter_grad_choice c = choose(p, &r);
    DECIDE(p, c);
    const float mma = filter_grad_choose_mma(p, &r.a).time;
    PREFER(why,
           c.time * (one ? one_product[MMA_HOPPER] : 1.0f) < mma * (one ? one_product[MMA_AMPERE] : 1.0f),
           "the smaller tiles of mma are expected to be faster");
    return true;
}

static bool may_float32(const struct problem *p, struct why *why)
{
    return may(p, why, false);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return may(p, why, true);
}

static size_t workspace(const struct problem *p)
{
    const struct rows r = rows_of(p);
    struct filter_grad_choice c;
    DECIDED(p, c);
    return filter_grad_parts_bytes(&r.a, c.split_k) + packed(&r, c.tile->rows);
}

/* x with rows on boundaries of 16 bytes, in workspace. */
static int emit_rows(const struct problem *p, struct emit *e, const struct rows *r)
{
    const struct conv_args *a = &r->a;
    const size_t wg = any_group_size(p);
    const struct filter_grad_pitch_args args = {
        .image = a->src_n,
        .total = (int64_t)a->n * a->c * a->in[1],
        .rows = a->c * a->in[1],
        .width = a->in[2],
        .quads = r->args.pitch_x / 4,
    };
    const int view = emit_workspace(e, packed_x(r));
    struct step *s = emit_step(e, "conv_filter_grad_rows", "main",
                               ceil_div((size_t)args.total * (size_t)args.quads, wg), wg);
    step_read(s, p->in[0].view);
    step_write(s, view);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, 2.0 * (double)packed_x(r));
    return view;
}

/* dy in the order of chunks, in workspace. */
static int emit_cores(const struct problem *p, struct emit *e, const struct rows *r, int filters)
{
    const struct conv_args *a = &r->a;
    const size_t bytes = packed_dy(r, filters), groups = (size_t)conv_blocks(a, filters) * r->chunks;
    const struct filter_grad_cores_args args = {
        .image = a->dst_n,
        .n = a->n,
        .kg = a->k / a->groups,
        .high = a->out[1],
        .width = a->out[2],
        .wide = r->args.wide,
        .across = r->args.across,
        .chunks = (int32_t)r->chunks,
    };
    const int view = emit_workspace(e, bytes);
    struct step *s = emit_step(e, "conv_filter_grad_cores", "main", groups, CORES_GROUP);
    step_define(s, "BM", filters);
    step_read(s, p->in[1].view);
    step_write(s, view);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, 2.0 * (double)bytes);
    return view;
}

static void emit(const struct problem *p, struct emit *e, enum mma_products products)
{
    struct rows r = rows_of(p);
    struct filter_grad_choice c;
    DECIDED(p, c);
    const struct conv_args *a = &r.a;
    const struct mma_tile_shape *t = c.tile;
    const int x = r.pack_x ? emit_rows(p, e, &r) : p->in[0].view, dy = emit_cores(p, e, &r, t->rows);
    const int parts = c.split_k > 1 ? emit_workspace(e, filter_grad_parts_bytes(a, c.split_k)) : VIEW_NONE;
    const int segments = ROWS_DEPTH >> r.args.wide, image = a->out[1] * r.args.across;
    struct filter_grad_rows_args *args = &r.args;
    args->grad = filter_grad_mma_args(a, &c);
    args->grad.depth = (int64_t)r.chunks * ROWS_DEPTH;
    args->grad.plane = a->in[1] * args->pitch_x;
    if (r.pack_x)
        args->grad.conv.src_n = (int64_t)a->c * args->grad.plane;
    args->stage = stage_bytes(&r, t->rows, products);
    args->stages = ROWS_LOCAL / (args->stage + 3 * 8);
    args->step_n = segments / image;
    args->step_h = segments % image / args->across;
    args->step_u = segments % args->across;
    struct step *s =
        emit_step(e, "conv_filter_grad_wgmma", "main", filter_grad_groups(a, &c), (size_t)t->size);
    step_define(s, "BM", t->rows);
    step_define(s, "BN", t->columns);
    step_define(s, "BK", t->chunk);
    step_define(s, "PRODUCTS", (int)products);
    step_read(s, x);
    step_read(s, dy);
    step_write(s, c.split_k > 1 ? parts : p->out[0].view);
    step_args(s, args, sizeof *args);
    rows_cost(s, p, conv_macs(a));
    if (c.split_k > 1)
        emit_filter_grad_sum(e, p, a, c.split_k, parts);
}

static void emit_wgmma(const struct problem *p, struct emit *e)
{
    emit(p, e, MMA_FLOAT32);
}

static void emit_wgmma_tf32(const struct problem *p, struct emit *e)
{
    emit(p, e, MMA_TF32);
}

const struct algo_def algo_conv_filter_grad_wgmma = {
    .name = "wgmma",
    .doc = "implicit GEMM by rows on Hopper's tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = may_float32,
    .workspace = workspace,
    .emit = emit_wgmma,
};

const struct algo_def algo_conv_filter_grad_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "implicit GEMM by rows on Hopper's tensor cores, operands rounded to tf32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit_wgmma_tf32,
};
