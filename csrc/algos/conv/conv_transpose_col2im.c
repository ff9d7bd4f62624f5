/* conv_transpose_col2im: each tap's filters times the pixels, as a convolution of single pixels whose filters are the taps', and a
 * step that puts the products where they belong and adds them up; see kernels/conv/conv_transpose_col2im.cl. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/cost/cost.h"

#include <stdio.h>

enum { MOST_TAPS = 128 };

static bool is_strided(const struct conv_args *a)
{
    return a->stride[0] * a->stride[1] * a->stride[2] > 1;
}

/* Whether products of whole tiles on tensor cores, which are stored and read again, take less time than phases, whose tiles have
 * taps and results that lie apart. */
static bool beats_phases(const struct problem *p, const struct conv_args *a)
{
    const int taps = conv_taps(a), phases = a->stride[1] * a->stride[2];
    if (taps == 1)
        return !p->in[1].constant;
    if (!device_traits(p->device).warpgroups || conv_is_volume(a))
        return false;
    const bool high = p->precision >= CLCNN_PRECISION_HIGH;
    const float weights = (float)shape_count(&p->in[1].shape), results = (float)shape_count(&p->out[0].shape);
    const float pixels = (float)a->n * (float)(a->in[1] * a->in[2]);
    const float padded = weights / (float)taps * (float)(conv_phase_taps(a) * phases) * (float)a->n *
                         (float)conv_phase_pixels(a);
    const float start =
        p->in[1].constant ? COL2IM_CONSTANT_START_NS : COL2IM_START_NS + COL2IM_WEIGHT_NS * weights;
    const float mine = start + COL2IM_VALUE_NS * pixels * (float)(a->k * taps) +
                       (high ? COL2IM_HIGH_MAC_NS : COL2IM_MAC_NS) * pixels * weights;
    return mine < PHASES_RESULT_NS * results + (high ? PHASES_HIGH_MAC_NS : PHASES_MAC_NS) * padded;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_taps(&a) <= MOST_TAPS && a.stride[1] <= MOST_COLUMN_STRIDE,
            "windows of more than 128 taps, and strides of more than 32 rows, are left to others");
    PREFER(why, is_strided(&a), "at stride 1 each pixel meets all taps");
    PREFER(why, beats_phases(p, &a), "phases are expected to be faster than all taps' products");
    return true;
}

/* The taps' filters, as far as their view. */
static struct operand filters_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct operand filters = {
        .shape = p->in[1].shape, .present = true, .constant = p->in[1].constant, .view = VIEW_NONE};
    filters.shape.dim[0] = (int64_t)a.k * conv_taps(&a);
    filters.shape.dim[1] = a.c / a.groups;
    for (int d = 2; d < filters.shape.rank; d++)
        filters.shape.dim[d] = 1;
    filters.batch_stride = filters.shape.dim[1];
    return filters;
}

static size_t workspace(const struct problem *p)
{
    return p->in[1].constant ? 0 : shape_bytes(&p->in[1].shape);
}

static struct ints all_of(const struct ints *like, int value)
{
    struct ints same = *like;
    for (int i = 0; i < same.n; i++)
        same.v[i] = value;
    return same;
}

/* The products of all taps: z, which has a view after it. */
static struct operand emit_products(const struct problem *p, struct emit *e, const struct operand *filters)
{
    const struct conv_attrs *from = p->attrs;
    const struct conv_attrs single = {
        .stride = all_of(&from->stride, 1),
        .padding = all_of(&from->padding, 0),
        .dilation = all_of(&from->dilation, 1),
        .output_padding = all_of(&from->output_padding, 0),
        .groups = from->groups,
    };
    const struct operand none = {.shape.rank = -1, .view = VIEW_NONE}, in[] = {p->in[0], *filters, none};
    struct operand z = {.shape = p->in[0].shape, .present = true, .view = VIEW_NONE};
    z.shape.dim[1] = filters->shape.dim[0];
    emit_middle(e, &z);
    struct problem conv = *p;
    conv.op = &op_conv;
    conv.attrs = &single;
    conv.in = in;
    conv.out = &z;
    conv.add = none;
    conv.act = ACT_none;
    emit_sub(e, &conv);
    return z;
}

static void emit_sums(const struct problem *p, struct emit *e, const struct operand *z)
{
    struct conv_args a = conv_args_of(p);
    a.src_n = z->batch_stride;
    struct step *s = conv_transpose_columns(e, p, "conv_transpose_col2im", &a);
    step_define(s, "DW", a.dil[2]);
    step_define(s, "EVERY", conv_phase_of(&a, 2, 0).every);
    step_read(s, z->view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, (double)shape_bytes(&z->shape) + (double)shape_bytes(&p->out[0].shape));
}

/* The taps' filters, made once of constants. */
static struct operand emit_filters(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct operand filters = filters_of(p);
    const size_t count = (size_t)shape_count(&filters.shape), wg = any_group_size(p);
    char name[64];
    struct step *s;
    snprintf(name, sizeof name, "conv_transpose_col2im g%d", a.groups);
    filters.view = emit_packed(e, &p->in[1], name, shape_bytes(&filters.shape), "conv_transpose_col2im",
                               "filters", ceil_div(count, wg), wg, &s);
    if (s) {
        step_read(s, p->in[1].view);
        step_write(s, filters.view);
        step_args(s, &a, sizeof a);
        step_cost(s, 0.0, 8.0 * (double)count);
    }
    return filters;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand filters = emit_filters(p, e);
    const struct operand z = emit_products(p, e, &filters);
    emit_sums(p, e, &z);
}

const struct algo_def algo_conv_transpose_col2im = {
    .name = "col2im",
    .doc = "products of all taps, a convolution of single pixels by whatever algorithm that gets, and their "
           "sums",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .bound = BOUND_NORMWISE,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
