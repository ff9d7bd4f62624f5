/* separable_common.c: a separable problem as the two convolutions that it stands for, and what the fused
 * kernels share. */
#include "algos/fused/separable_common.h"

#include "algos/common/blocked.h"
#include "algos/cost/cost.h"

static const struct separable_tile wide_tiles[] = {{14, 7, 2, 1.0}, {7, 7, 4, 1.04}, {8, 8, 2, 1.1}};
static const struct separable_tile narrow_tiles[] = {{6, 6, 2, 1.0}, {4, 4, 3, 1.0}};

const struct separable_tile *separable_tiles(const struct problem *p, int *count)
{
    const bool wide = p->block == 16;
    *count = wide ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    return wide ? wide_tiles : narrow_tiles;
}

void separable_parts(const struct problem *p, struct separable *out)
{
    const struct separable_attrs *at = p->attrs;
    *out = (struct separable){
        .dw_in = {p->in[0], p->in[1], p->in[2]},
        .mid = {.shape = p->out[0].shape, .view = VIEW_NONE, .present = true},
        .pw_attrs = conv_pointwise_attrs(p->in[0].shape.rank - 2),
        .dw = *p,
        .pw = *p,
    };
    out->mid.shape.dim[1] = p->in[1].shape.dim[0];
    out->mid.batch_stride = shape_count_from(&out->mid.shape, 1);
    out->pw_in[0] = out->mid;
    out->pw_in[1] = p->in[3];
    out->pw_in[2] = p->in[4];

    out->dw.op = out->pw.op = &op_conv;
    out->dw.n_in = out->pw.n_in = 3;
    out->dw.attrs = &at->dw;
    out->dw.in = out->dw_in;
    out->dw.out = &out->mid;
    out->dw.add.present = false;
    out->dw.act = (enum act)at->mid_act;
    out->dw.p0 = at->mid_p0;
    out->dw.p1 = at->mid_p1;
    out->pw.attrs = &out->pw_attrs;
    out->pw.in = out->pw_in;
    out->pw.zeros = (struct clcnn_zeros){0};
}

void inverted_parts(const struct problem *p, struct inverted *out)
{
    const struct inverted_residual_attrs *at = p->attrs;
    *out = (struct inverted){
        .expand_in = {p->in[0], p->in[1], p->in[2]},
        .wide = {.shape = p->in[0].shape, .view = VIEW_NONE, .present = true},
        .expand_attrs = conv_pointwise_attrs(p->in[0].shape.rank - 2),
        .expand = *p,
        .tail = *p,
    };
    out->wide.shape.dim[1] = p->in[1].shape.dim[0];
    operand_set_layout(&out->wide, p->in[0].block);
    out->tail_in[0] = out->wide;
    for (int i = 1; i < COUNT_OF(out->tail_in); i++)
        out->tail_in[i] = p->in[i + 2];

    out->expand.op = &op_conv;
    out->expand.n_in = COUNT_OF(out->expand_in);
    out->expand.attrs = &out->expand_attrs;
    out->expand.in = out->expand_in;
    out->expand.out = &out->wide;
    out->expand.add.present = false;
    out->expand.act = (enum act)at->expand_act;
    out->expand.p0 = at->expand_p0;
    out->expand.p1 = at->expand_p1;
    out->tail.op = &op_separable;
    out->tail.n_in = COUNT_OF(out->tail_in);
    out->tail.attrs = &at->tail;
    out->tail.in = out->tail_in;
    out->tail.zeros = (struct clcnn_zeros){0};
}

bool parts_applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

bool blocked_parts_applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    return true;
}

struct separable_args separable_args_of(const struct problem *p)
{
    struct separable s;
    separable_parts(p, &s);
    const struct conv_args dw = conv_args_of(&s.dw);
    struct separable_args a = {
        .src_n = dw.src_n,
        .dst_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .dw_k = dw.w_k,
        .n = dw.n,
        .c = dw.c,
        .mid = dw.k,
        .k = p->out[0].shape.dim[1],
        .mid_p0 = dw.p0,
        .mid_p1 = dw.p1,
        .p0 = p->p0,
        .p1 = p->p1,
    };
    for (int d = 0; d < 2; d++) {
        a.in[d] = dw.in[d + 1];
        a.out[d] = dw.out[d + 1];
        a.ker[d] = dw.ker[d + 1];
        a.stride[d] = dw.stride[d + 1];
        a.pad[d] = dw.pad[d + 1];
        a.dil[d] = dw.dil[d + 1];
    }
    return a;
}

void separable_cost(struct step *s, const struct problem *p, const struct separable_args *a)
{
    const double y = (double)a->n * a->out[0] * a->out[1];
    const double weights = (double)a->mid * a->ker[0] * a->ker[1] + (double)a->mid * a->k;
    const double x = (double)a->n * a->c * a->in[0] * a->in[1];
    const double stored =
        (double)operand_elem(&p->out[0]) + (p->add.present ? (double)operand_elem(&p->add) : 0.0);
    step_cost(s, y * weights, x * (double)operand_elem(&p->in[0]) + 4.0 * weights + y * a->k * stored);
}

struct step *emit_separable(struct emit *e, const struct problem *p, const char *file, size_t groups,
                            size_t group_size, struct conv_packing packing)
{
    struct separable parts;
    separable_parts(p, &parts);
    const struct conv_args pw = conv_args_of(&parts.pw);
    const struct separable_args a = separable_args_of(p);
    const int packed = emit_conv_packed(e, &parts.pw, &pw, packing);
    struct step *s = emit_step(e, file, "main", groups, group_size);
    step_define_id(s, "MID_ACT", act_identifier(parts.dw.act));
    step_define(s, "DW_BIAS", parts.dw_in[2].present);
    step_read_map(s, &p->in[0]);
    step_read(s, p->in[1].view);
    step_read(s, parts.dw_in[2].present ? parts.dw_in[2].view : VIEW_NONE);
    step_read(s, packed);
    step_epilogue(s, p, &parts.pw_in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &a, sizeof a);
    separable_cost(s, p, &a);
    return s;
}

void blocked_middle_of(struct step *s, const struct separable *parts, int packed, struct separable_args *a)
{
    const struct conv_args dw = conv_args_of(&parts->dw);
    const struct operand *bias = &parts->dw_in[2];
    define_depthwise(s, &parts->dw, &dw);
    step_define_id(s, "MID_ACT", act_identifier(act_as_clip(parts->dw.act, &a->mid_p0, &a->mid_p1)));
    step_define(s, "DW_BIAS", bias->present);
    step_read(s, packed);
    step_read(s, bias->present ? bias->view : VIEW_NONE);
}

void blocked_middle(struct step *s, const struct separable *parts, int packed, struct separable_args *a)
{
    step_read(s, parts->dw_in[0].view);
    blocked_middle_of(s, parts, packed, a);
}

double separable_effort(const struct conv_args *dw, const struct conv_args *pw, double cost)
{
    const double depthwise = blocked_direct_cost(dw);
    return BLOCKED_EFFORT_PERCENT * (depthwise + cost) / (depthwise + blocked_direct_cost(pw));
}

size_t separable_packing_workspace(const struct problem *p, struct conv_packing packing)
{
    struct separable parts;
    separable_parts(p, &parts);
    const struct conv_args pw = conv_args_of(&parts.pw);
    return conv_packing_workspace(&parts.pw, &pw, packing);
}
