/* conv_sparse_mask: products of what is not zero over channel blocks, for CPU devices; see
 * kernels/conv_cpu/conv_sparse_mask.cl. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"

#include <float.h>
#include <limits.h>

enum {
    MOST_TAPS = 7,       /* of a row of the window: more leave no registers for filters */
    FEWEST_VECTORS = 12, /* of sums that a value adds to: fewer do not pay for finding it */
    VERDICTS = 2         /* words: whether this form computes the layer, whether the dense one does */
};

/* How a problem is cut. */
struct cut {
    int kv, k_blocks;  /* vectors of filters in registers; blocks of them of a group */
    int rows, columns; /* of a tile */
    size_t tiles;      /* of an image */
};

/* Vectors of filters whose sums, for each tap of a row, are in registers: as many as fit, with few that are empty. */
static int vectors_of(const struct problem *p, int taps, int filters)
{
    const int most = (p->block == 16 ? 24 : 15) / taps, least = (FEWEST_VECTORS + taps - 1) / taps;
    const size_t vectors = (size_t)blocked_count(p, filters);
    int best = most;
    for (int kv = most; kv >= least; kv--)
        if (round_up(vectors, (size_t)kv) < round_up(vectors, (size_t)best))
            best = kv;
    return best;
}

/* Tiles as large as their sums allow, since each reads all weights, or as small as busy cores need. */
static struct cut cut_of(const struct problem *p, const struct conv_args *a)
{
    const int filters = a->k / a->groups, extra = 2 * (a->ker[2] - 1);
    struct cut c = {.kv = vectors_of(p, a->ker[2], filters)};
    c.k_blocks = (int)ceil_div((size_t)filters, (size_t)(c.kv * p->block));
    const size_t wide = ceil_div((size_t)a->out[2], SPARSE_MASK_MOST_COLUMNS);
    c.columns = (int)ceil_div((size_t)a->out[2], wide);
    const size_t others = (size_t)a->n * (size_t)a->groups * (size_t)c.k_blocks * wide;
    const size_t wanted = ceil_div(SPARSE_MASK_LEAST_ITEMS * device_units(p->device), others);
    const size_t most = SPARSE_MASK_PIXELS / (size_t)(c.columns + extra);
    const size_t least = ceil_div(SPARSE_MASK_FEWEST_PIXELS, (size_t)c.columns);
    size_t rows = ceil_div((size_t)a->out[1], wanted);
    rows = rows < least ? least : rows;
    const size_t high = ceil_div((size_t)a->out[1], rows < most ? rows : most);
    c.rows = (int)ceil_div((size_t)a->out[1], high);
    c.tiles = high * wide;
    return c;
}

static struct conv_packing packing_of(const struct problem *p, const struct cut *c)
{
    return (struct conv_packing){.block = c->kv * p->block, .c_block = 1};
}

static size_t masks_bytes(const struct problem *p, const struct conv_args *a)
{
    return sizeof(uint16_t) * (size_t)a->n * (size_t)blocked_count(p, a->c) * (size_t)a->in[1] *
           (size_t)a->in[2];
}

/* Of the direct kernel's time: what is there in any case, and the share that is not zero. */
static double effort_at(const struct problem *p, double there)
{
    const struct conv_args a = conv_args_of(p);
    const double fixed = a.ker[2] == 1 ? SPARSE_MASK_POINTWISE_RATIO : SPARSE_MASK_FIXED_RATIO;
    return blocked_effort(&a, blocked_direct_cost(&a) * (fixed + SPARSE_MASK_VALUES_RATIO * there));
}

static double known_share(const struct problem *p)
{
    return p->zeros.known && p->skip ? 1.0 - (double)p->zeros.element : 1.0;
}

static double effort_of(const struct problem *p)
{
    return effort_at(p, known_share(p));
}

/* Values of a run that are not zero, beyond which a dense form computes the layer; -1: none ever does, as where memory_limit
 * asks for the smallest filters. By the rules, but well above what was calibrated, where measuring knew better than they. */
static int64_t most_values(const struct problem *p)
{
    const double none = effort_at(p, 0.0), all = effort_at(p, 1.0),
                 least = SPARSE_MASK_SLACK_RATIO * known_share(p);
    if (!p->zeros.known || !p->skip || least >= 1.0 || p->fresh_filters)
        return -1;
    const double even = (algo_effort_if_unknown(p) - none) / (all - none),
                 share = even > least ? even : least;
    return share < 1.0 ? (int64_t)(share * (double)shape_count(&p->in[0].shape)) : -1;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    REQUIRE(why, a.ker[2] <= MOST_TAPS, "zeros are left out for windows of at most 7 columns");
    REQUIRE(why, a.ker[2] == 1 || (a.stride[2] == 1 && a.dil[2] == 1),
            "sums move on pixel by pixel: windows of several columns need stride 1 and dilation 1");
    const struct cut c = cut_of(p, &a);
    DECIDE(p, c);
    PREFER(why, p->zeros.known && p->skip, ZEROS_UNKNOWN);
    PREFER(why, effort_of(p) < algo_effort_if_unknown(p), "too few zeros, as far as they are known");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    return masks_bytes(p, &a) + VERDICTS * sizeof(uint32_t) +
           conv_packing_workspace(p, &a, packing_of(p, &c));
}

/* The step that makes the masks, of its output. `verdict`: what it writes to say which form is to compute; VIEW_NONE: none. */
static int emit_masks(const struct problem *p, struct emit *e, const struct conv_args *a,
                      const struct conv_sparse_args *args, int verdict)
{
    const size_t maps = (size_t)a->n * (size_t)blocked_count(p, a->c);
    const size_t pixels = (size_t)a->in[1] * (size_t)a->in[2];
    const int view = emit_workspace(e, masks_bytes(p, a));
    struct step *s = emit_step(e, "conv_sparse_mask", "masks", maps * ceil_div(pixels, (size_t)args->run), 1);
    step_define(s, "V", p->block);
    step_read(s, p->in[0].view);
    step_write(s, view);
    step_update(s, verdict == VIEW_NONE ? VIEW_NONE : emit_counters(e, 2));
    step_write(s, verdict);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, 4.0 * (double)shape_count(&p->in[0].shape) + (double)masks_bytes(p, a));
    return view;
}

/* What the rules choose where nothing is known of zeros; of the algorithms that take and give channel blocks, as this one. */
static void emit_dense(const struct problem *p, struct emit *e, int64_t most)
{
    struct problem dense = *p;
    dense.zeros = (struct clcnn_zeros){0};
    emit_sub(e, &dense);
    emit_note(e, "%s has a second form, where more than %.2f of its input is not zero", p->layer,
              (double)most / (double)shape_count(&p->in[0].shape));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &c));
    const size_t pixels = (size_t)a.in[1] * (size_t)a.in[2];
    const struct conv_sparse_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .most = most_values(p),
        .n = a.n,
        .k = a.k,
        .cg = a.c / a.groups,
        .kg = a.k / a.groups,
        .groups = a.groups,
        .c_blocks = blocked_count(p, a.c / a.groups),
        .k_blocks = c.k_blocks,
        .in = {a.in[1], a.in[2]},
        .out = {a.out[1], a.out[2]},
        .ker = a.ker[1],
        .stride = a.stride[1],
        .pad = {a.pad[1], a.pad[2]},
        .dil = a.dil[1],
        .rows = c.rows,
        .columns = c.columns,
        .run = blocked_run(p, (size_t)a.n * (size_t)blocked_count(p, a.c), pixels, 64),
        .skip = conv_skips_zeros(p, e, FLT_MAX),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    const int verdict = args.most < 0 ? VIEW_NONE : emit_workspace(e, VERDICTS * sizeof(uint32_t));
    const int masks = emit_masks(p, e, &a, &args, verdict);
    emit_only_if(e, verdict, 0);
    const size_t groups = (size_t)a.groups * (size_t)c.k_blocks * (size_t)a.n * c.tiles;
    struct step *s = emit_step(e, "conv_sparse_mask", "main", groups, 1);
    step_define(s, "V", p->block);
    step_define(s, "S", a.ker[2]);
    step_define(s, "KV", c.kv);
    step_define(s, "SW", a.stride[2]);
    step_read(s, p->in[0].view);
    step_read(s, masks);
    step_read(s, packed);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    conv_cost(s, p);
    emit_only_if(e, verdict, 1);
    if (verdict != VIEW_NONE)
        emit_dense(p, e, args.most);
    emit_only_if(e, VIEW_NONE, 0);
}

const struct algo_def algo_conv_sparse_mask = {
    .name = "sparse_mask",
    .doc = "products of what is not zero, found by masks of a pixel's channels, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
