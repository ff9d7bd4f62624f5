/* conv_transpose_as_conv: at stride 1 a transposed convolution is a convolution by filters that are turned around and whose
 * channels are their filters: those are made in every run (kernels/conv/conv_transpose_as_conv.cl), and any algorithm of conv
 * does the rest. Where windows have one element and there are strides, a last step puts its pixels where they belong, with zeros
 * between them (kernels/conv/conv_transpose_spread.cl). For data gradients, whose filters are no constants. */
#include "algos/conv/conv_transpose_common.h"

static bool is_strided(const struct problem *p)
{
    const struct ints *stride = &((const struct conv_attrs *)p->attrs)->stride;
    for (int i = 0; i < stride->n; i++)
        if (stride->v[i] != 1)
            return true;
    return false;
}

/* The convolution at stride 1; false where it would cut its map. With strides what lies behind the last pixel is not its own. */
static bool turned_of(const struct problem *p, struct conv_attrs *to)
{
    struct conv_attrs from = *(const struct conv_attrs *)p->attrs;
    if (is_strided(p))
        for (int i = 0; i < from.stride.n; i++) {
            from.stride.v[i] = 1;
            from.output_padding.v[i] = 0;
        }
    return conv_of_transposed(to, &from, &p->in[1].shape);
}

static bool applicable(const struct problem *p, struct why *why)
{
    struct conv_attrs turned;
    REQUIRE(why, !is_strided(p) || shape_count_from(&p->in[1].shape, 2) == 1,
            "strided maps have phases, each with filters of its own");
    REQUIRE(why, turned_of(p, &turned), "a map that is padded by more than the filters reach would be cut");
    PREFER(why, !cpu_device(p->device), "phases have kernels of their own for CPUs");
    PREFER(why, !p->in[1].constant, "constant filters are packed once, for phases");
    return true;
}

/* The filters of the convolution, as far as their view. */
static struct operand filters_of(const struct problem *p)
{
    const struct clcnn_shape *w = &p->in[1].shape;
    const int groups = ((const struct conv_attrs *)p->attrs)->groups;
    struct operand turned = {.shape = *w, .present = true, .view = VIEW_NONE};
    turned.shape.dim[0] = w->dim[1] * groups;
    turned.shape.dim[1] = w->dim[0] / groups;
    turned.batch_stride = shape_count_from(&turned.shape, 1);
    return turned;
}

static size_t workspace(const struct problem *p)
{
    return shape_bytes(&p->in[1].shape);
}

/* What the convolution at stride 1 gives, as a part that is then spread. */
static struct operand pixels_of(const struct problem *p)
{
    struct operand z = {.shape = p->in[0].shape, .present = true, .view = VIEW_NONE};
    z.shape.dim[1] = p->out[0].shape.dim[1];
    return z;
}

static void spread(const struct problem *p, struct emit *e, const struct operand *z)
{
    struct conv_spread_args a = {.conv = conv_args_of(p)};
    const size_t wg = any_group_size(p);
    a.conv.src_n = z->batch_stride;
    a.count = (int64_t)a.conv.n * a.conv.k;
    for (int d = 0; d < 3; d++) {
        a.cells[d] = (int)ceil_div((size_t)a.conv.out[d], (size_t)a.conv.stride[d]);
        a.count *= a.cells[d];
    }
    struct step *s = emit_step(e, "conv_transpose_spread", "main", ceil_div((size_t)a.count, wg), wg);
    step_define_id(s, "INDEX", a.count <= UINT32_MAX - (int64_t)wg ? "uint" : "ulong");
    step_read(s, z->view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, (double)shape_bytes(&z->shape) + (double)shape_bytes(&p->out[0].shape));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_attrs attrs;
    struct operand w = filters_of(p);
    const struct conv_args a = conv_args_of(p);
    const size_t count = (size_t)shape_count(&w.shape), wg = any_group_size(p);
    turned_of(p, &attrs);
    w.view = emit_workspace(e, workspace(p));
    struct step *s = emit_step(e, "conv_transpose_as_conv", "main", ceil_div(count, wg), wg);
    step_read(s, p->in[1].view);
    step_write(s, w.view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, 8.0 * (double)count);
    const bool strided = is_strided(p); /* then the last step has the epilogue */
    const struct operand none = {.shape.rank = -1, .view = VIEW_NONE};
    const struct operand in[] = {p->in[0], w, strided ? none : p->in[2]};
    struct problem conv = *p;
    conv.op = &op_conv;
    conv.attrs = &attrs;
    conv.in = in;
    if (!strided) {
        emit_sub(e, &conv);
        return;
    }
    struct operand z = pixels_of(p);
    emit_middle(e, &z);
    conv.out = &z;
    conv.add = none;
    conv.act = ACT_none;
    emit_sub(e, &conv);
    spread(p, e, &z);
}

const struct algo_def algo_conv_transpose_as_conv = {
    .name = "as_conv",
    .doc = "filters turned around, and a convolution by whatever algorithm that gets",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .bound = BOUND_NORMWISE,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
