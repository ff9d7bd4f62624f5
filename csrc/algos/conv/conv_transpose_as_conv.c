/* conv_transpose_as_conv: at stride 1 a transposed convolution is a convolution by filters that are turned around and whose
 * channels are their filters: those are made in every run (kernels/conv/conv_transpose_as_conv.cl), and any algorithm of conv
 * does the rest. For data gradients, whose filters are no constants. */
#include "algos/conv/conv_transpose_common.h"

/* The convolution; false where it would cut its map. */
static bool turned_of(const struct problem *p, struct conv_attrs *to)
{
    return conv_of_transposed(to, p->attrs, &p->in[1].shape);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    struct conv_attrs turned;
    REQUIRE(why, turned_of(p, &turned),
            "a stride of 1 is needed, and a map that is padded by no more than the filters reach");
    PREFER(why, !conv_is_depthwise(&a) || a.c != a.k || a.in[2] % 4 == 0,
           "depthwise rows that are no multiple of four pixels take less time by columns");
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
    const struct operand in[] = {p->in[0], w, p->in[2]};
    struct problem conv = *p;
    conv.op = &op_conv;
    conv.attrs = &attrs;
    conv.in = in;
    emit_sub(e, &conv);
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
