/* byte_amx: tiles of bytes, as byte_conv.cl's sums; see kernels/bytes/byte_amx.cl. */
#include "algos/bytes/byte_common.h"
#include "algos/conv_cpu/conv_amx.h"
#include "algos/cost/cost.h"

enum { SIDE = 32, CHANNELS = 64 }; /* as the kernel has them */

static struct amx_cut cut_of(const struct problem *p, const struct byte_sizes *s)
{
    const struct conv_args a = {
        .src_n = p->in[0].batch_stride,
        .dst_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .n = s->n,
        .c = s->c,
        .k = s->k,
        .groups = s->c / s->c_group,
        .in = {1, s->in[0], s->in[1]},
        .out = {1, s->out[0], s->out[1]},
        .ker = {1, s->ker[0], s->ker[1]},
        .stride = {1, s->stride[0], s->stride[1]},
        .dil = {1, s->dil[0], s->dil[1]},
        .pad = {0, s->pad[0], s->pad[1]},
    };
    return amx_cut_of(p, AMX_BYTES, &a, byte_span(s, SIDE, CHANNELS), 0, 0);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct byte_sizes s = byte_sizes_of(p);
    REQUIRE(why, s.block == 16, "tiles have channels in blocks of 16");
    PREFER(why, !p->quick, TILES_BUILT_LATER);
    PREFER(why, s.n * s.out[0] * s.out[1] >= BYTE_AMX_FEWEST_POSITIONS,
           "few pixels: filters are waited for, by any products");
    PREFER(why, s.c >= BYTE_AMX_FEWEST_CHANNELS && s.k >= BYTE_AMX_FEWEST_FILTERS,
           "few channels or filters: laying pixels out takes what the products save");
    PREFER(why, device_traits(p->device).amx_tiles, NO_TILES);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct byte_sizes s = byte_sizes_of(p);
    const struct amx_cut c = cut_of(p, &s);
    return amx_position_bytes(&c.args);
}

static double effort_of(const struct problem *p)
{
    const struct byte_sizes s = byte_sizes_of(p);
    const struct amx_cut c = cut_of(p, &s);
    return amx_effort(p, &c);
}

static int emit_filters(struct emit *e, const struct problem *p, const struct byte_sizes *s,
                        const struct conv_amx_args *a)
{
    const struct byte_pack_args pack = {
        .w_k = p->in[1].batch_stride,
        .k = s->k,
        .c = s->c_group,
        .taps = s->ker[0] * s->ker[1],
        .q = CHANNELS / 4,
        .c_blocks = a->span,
        .k_blocks = a->k_blocks,
        .k_group = s->k_group,
        .last = a->chunks - a->span,
    };
    return emit_byte_packed(e, p, &pack, "main", SIDE / 16);
}

/* A step of one of both modes; filters, and y, as far as it needs them. */
static struct step *emit_mode(struct emit *e, const struct problem *p, const struct byte_amx_args *args,
                              size_t groups, int filters, int positions)
{
    const bool splits = args->shape.mode != AMX_SPLIT_BEFORE, multiplies = args->shape.mode != AMX_SPLIT;
    struct step *s = emit_step(e, "byte_amx", "main", groups, 1);
    step_define(s, "AMX", device_traits(p->device).amx_tiles);
    step_read(s, splits ? p->in[0].view : VIEW_NONE);
    byte_conv_reads(s, p, multiplies ? filters : VIEW_NONE);
    amx_step_results(s, &args->shape, positions, p->out[0].view);
    step_args(s, args, sizeof *args);
    return s;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct byte_sizes s = byte_sizes_of(p);
    const struct amx_cut c = cut_of(p, &s);
    const struct byte_amx_args args = {
        .shape = c.args,
        .steps = byte_steps_of(p, &s),
        .x_zero = ((const struct byte_conv_attrs *)p->attrs)->x_zero,
    };
    const int filters = emit_filters(e, p, &s, &c.args),
              positions = emit_workspace(e, amx_position_bytes(&c.args));
    if (c.splits > 0) {
        struct byte_amx_args split = args;
        split.shape.mode = AMX_SPLIT;
        step_cost(emit_mode(e, p, &split, c.splits, filters, positions), 0.0,
                  (double)shape_count(&p->in[0].shape) + (double)amx_position_bytes(&c.args));
    }
    byte_conv_cost(emit_mode(e, p, &args, c.groups, filters, positions), p, &s);
}

const struct algo_def algo_byte_conv_amx = {
    .name = "amx",
    .doc = "tiles of bytes",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .effort_of = effort_of,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
