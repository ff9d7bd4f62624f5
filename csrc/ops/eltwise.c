/* eltwise.c: the element-wise operators of ops/eltwise.def, and prelu. */
#include <stdio.h>
#include <string.h>

#include "ops/rules.h"

/* ---- attributes of the unary family: at most two numbers ----------------------------------------------- */

/* Like ATTR, where the public name is not the field's. */
#define NUMBER(name_, field, default_, doc_)                                   \
    {                                                                          \
        .name = name_, .doc = doc_, .kind = CLCNN_ATTR_FLOAT, .def = default_, \
        .offset = offsetof(struct eltwise_attrs, field)                        \
    }

static const struct clcnn_attr_info leaky_relu_attrs[] = {
    NUMBER("negative_slope", p0, 0.01, "factor for negative x"),
};
static const struct clcnn_attr_info elu_attrs[] = {
    NUMBER("alpha", p0, 1.0, "the limit for very negative x is -alpha"),
};
static const struct clcnn_attr_info hard_sigmoid_attrs[] = {
    NUMBER("alpha", p0, 1.0 / 6.0, "slope"),
    NUMBER("beta", p1, 0.5, "value at 0"),
};
static const struct clcnn_attr_info clip_attrs[] = {
    NUMBER("min", p0, -INFINITY, "lower limit"),
    NUMBER("max", p1, INFINITY, "upper limit"),
};
static const struct clcnn_attr_info swish_attrs[] = {
    NUMBER("alpha", p0, 1.0, "how steep the sigmoid is; 1: silu"),
};
static const struct clcnn_attr_info star_relu_attrs[] = {
    NUMBER("alpha", p0, 0.8944271909999159, "factor of the square"),
    NUMBER("beta", p1, -0.4472135954999579, "value where x is not positive"),
};
static const struct clcnn_attr_info fake_quantize_attrs[] = {
    NUMBER("scale", p0, 1.0, "from a step to the next; above 0"),
    NUMBER("zero_point", p1, 0.0, "number of steps below 0"),
};
static const struct clcnn_attr_info selu_attrs[] = {
    NUMBER("alpha", p0, 1.6732632423543772, "the limit for very negative x is -gamma * alpha"),
    NUMBER("gamma", p1, 1.0507009873554805, "slope for positive x"),
};
static const struct clcnn_attr_info celu_attrs[] = {
    NUMBER("alpha", p0, 1.0, "the limit for very negative x is -alpha; not 0"),
};
static const struct clcnn_attr_info thresholded_relu_attrs[] = {
    NUMBER("alpha", p0, 1.0, "the largest x that gives 0"),
};
static const struct clcnn_attr_info shrink_attrs[] = {
    NUMBER("lambd", p0, 0.5, "the largest x that gives 0"),
    NUMBER("bias", p1, 0.0, "what is taken off the size of larger ones"),
};

/* A choice of functions: the first one is called after the operator, the others after both. */
#define CHOICE(name_, choices_, doc_)                                                       \
    {                                                                                       \
        .name = name_, .doc = doc_, .kind = CLCNN_ATTR_ENUM, .def = 0, .choices = choices_, \
        .offset = offsetof(struct eltwise_attrs, choice)                                    \
    }
static const struct clcnn_attr_info gelu_attrs[] = {
    CHOICE("approximate", "none|tanh", "tanh: the approximation of Hendrycks and Gimpel"),
};
static const struct clcnn_attr_info cast_attrs[] = {
    CHOICE("to", "float32|int64|int32|bool", "type of the result's elements"),
};
static const struct clcnn_attr_info is_inf_attrs[] = {
    CHOICE("sign", "both|positive|negative", "which infinity counts"),
};
static const struct clcnn_attr_info mod_attrs[] = {
    CHOICE("sign", "divisor|dividend", "whose sign the result has: Python's % or C's fmod"),
};

/* ---- rules --------------------------------------------------------------------------------------------- */

static enum clcnn_status infer_unary(struct infer *in, struct clcnn_err *err)
{
    const struct eltwise_attrs *a = in->attrs;
    in->n_out = 1;
    in->out[0] = in->in[0];
    if (in->op == &op_cast)
        in->out[0].dtype = (enum clcnn_dtype)a->choice;
    if (in->op == &op_fake_quantize && !(a->p0 > 0.0f && a->p0 < INFINITY))
        return value_fail(in, err, "scale must be above 0 and finite, got %g", (double)a->p0);
    return CLCNN_OK;
}

static enum clcnn_status infer_binary(struct infer *in, struct clcnn_err *err)
{
    in->n_out = 1;
    if (broadcast_shapes(&in->in[0], &in->in[1], &in->out[0]))
        return CLCNN_OK;
    return shape_fail(in, err, "shapes %s and %s do not broadcast (from the right, sizes must be equal or 1)",
                      SHAPE(&in->in[0]), SHAPE(&in->in[1]));
}

/* ---- the family ---------------------------------------------------------------------------------------- */

enum unary {
#define UNARY(name, activation, attributes, count, types, doc) UNARY_##name,
#define BINARY(name, attributes, count, types, doc)
#include "ops/eltwise.def"
#undef UNARY
#undef BINARY
};

#define UNARY(name_, activation, attributes, count, types_, doc_) \
    const struct op_def op_##name_ = {                            \
        .name = #name_,                                           \
        .doc = doc_,                                              \
        .inputs = "x",                                            \
        .attrs = attributes,                                      \
        .attr_count = count,                                      \
        .attrs_size = sizeof(struct eltwise_attrs),               \
        .types = types_,                                          \
        .infer = infer_unary,                                     \
        .by_item = true,                                          \
        .code = UNARY_##name_,                                    \
    };
#define BINARY(name_, attributes, count, types_, doc_) \
    const struct op_def op_##name_ = {                 \
        .name = #name_,                                \
        .doc = doc_,                                   \
        .inputs = "a b",                               \
        .attrs = attributes,                           \
        .attr_count = count,                           \
        .attrs_size = sizeof(struct eltwise_attrs),    \
        .types = types_,                               \
        .infer = infer_binary,                         \
        .by_item = true,                               \
    };
#include "ops/eltwise.def"
#undef UNARY
#undef BINARY

static const enum act unary_acts[] = {
#define UNARY(name, activation, attributes, count, types, doc) activation,
#define BINARY(name, attributes, count, types, doc)
#include "ops/eltwise.def"
#undef UNARY
#undef BINARY
};

static const char *const act_identifiers[ACT_COUNT] = {
#define ACT(name) "act_" #name,
#include "ops/act.def"
#undef ACT
};

const char *act_identifier(enum act act)
{
    return act_identifiers[act];
}

enum act act_as_clip(enum act act, float *p0, float *p1)
{
    static const struct {
        enum act act;
        float low, high;
    } clips[] = {{ACT_none, -INFINITY, INFINITY}, {ACT_relu, 0.0f, INFINITY}, {ACT_relu6, 0.0f, 6.0f}};

    for (int i = 0; i < COUNT_OF(clips); i++)
        if (clips[i].act == act) {
            *p0 = clips[i].low;
            *p1 = clips[i].high;
            return ACT_clip;
        }
    return act;
}

/* The one function that an attribute chooses. */
static bool is_gelu_tanh(const struct op_def *op, const struct eltwise_attrs *a)
{
    return op->code == UNARY_gelu && a->choice == 1;
}

void eltwise_identifier(char out[40], const struct op_def *op, const void *attrs, enum clcnn_dtype dtype)
{
    const struct eltwise_attrs *a = attrs;
    const char *prefix = dtype != CLCNN_FLOAT32 ? "int" : op->infer == infer_binary ? "bin" : "act";

    snprintf(out, 40, "%s_%s", prefix, op->name);
    if (a->choice == 0)
        return;
    const char *choice = op->attrs[0].choices;
    for (int i = 0; i < a->choice; i++)
        choice = strchr(choice, '|') + 1;
    const size_t used = strlen(out);
    snprintf(out + used, 40 - used, "_%.*s", (int)strcspn(choice, "|"), choice);
}

bool eltwise_is_unary(const struct op_def *op)
{
    return op->infer == infer_unary;
}

bool eltwise_is_binary(const struct op_def *op)
{
    return op->infer == infer_binary;
}

bool eltwise_broadcasts(const struct op_def *op)
{
    return op == &op_elementwise || eltwise_is_binary(op);
}

bool act_of_op(const struct op_def *op, const void *attrs, enum act *act, float *p0, float *p1)
{
    const struct eltwise_attrs *a = attrs;

    if (op->infer != infer_unary || unary_acts[op->code] == ACT_COUNT)
        return false;
    *act = is_gelu_tanh(op, a) ? ACT_gelu_tanh : unary_acts[op->code];
    *p0 = a->p0;
    *p1 = a->p1;
    return true;
}

/* ---- prelu --------------------------------------------------------------------------------------------- */

static enum clcnn_status infer_prelu(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *slope = &in->in[1];
    struct clcnn_shape both;

    in->n_out = 1;
    in->out[0] = *x;
    /* A list of slopes is one a channel, wherever the channels are from the right. */
    if (slope->rank == 1 && x->rank >= 2) {
        if (slope->dim[0] == 1 || slope->dim[0] == x->dim[1])
            return CLCNN_OK;
        return shape_fail(in, err, "slope has shape %s, expected [1] or [%d], the channels of input %s",
                          SHAPE(slope), (int)x->dim[1], SHAPE(x));
    }
    if (broadcast_shapes(x, slope, &both) && shape_equal(&both, x))
        return CLCNN_OK;
    return shape_fail(in, err, "slope of shape %s does not broadcast to input %s", SHAPE(slope), SHAPE(x));
}

const struct op_def op_prelu = {
    .name = "prelu",
    .doc = "x where it is positive, slope * x elsewhere; slope is [1], [C], or broadcast from the right when "
           "it has "
           "more dimensions",
    .inputs = "x slope",
    .infer = infer_prelu,
};

/* Sizes from the right, as those of a map of `rank` dimensions. */
static void sizes_in(int32_t size[CLCNN_MAX_RANK], const struct op_def *op, const struct clcnn_shape *s,
                     int rank)
{
    const int before = op == &op_prelu && s->rank == 1 && rank > 1 ? 1 : rank - s->rank;
    for (int d = 0; d < rank; d++)
        size[d] = d < before || d - before >= s->rank ? 1 : s->dim[d - before];
}

enum operand_part operand_part(const struct op_def *op, const struct clcnn_shape *operand,
                               const struct clcnn_shape *map)
{
    int32_t size[CLCNN_MAX_RANK];
    bool pixels = true, pixel = true;

    if (operand->rank > map->rank)
        return PART_NONE;
    sizes_in(size, op, operand, map->rank);
    for (int d = 2; d < map->rank; d++) {
        pixels = pixels && size[d] == map->dim[d];
        pixel = pixel && size[d] == 1;
    }
    if (pixels && size[1] == map->dim[1] && operand->rank == map->rank)
        return PART_MAP;
    if (pixel)
        return size[1] == 1 ? PART_VALUE : PART_CHANNELS;
    return pixels && size[1] == 1 && operand->rank == map->rank ? PART_PIXELS : PART_NONE;
}
