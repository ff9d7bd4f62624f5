/* op.h: what an operator means: attributes, shape rule, element types, multiply-adds. One op_def each, listed in ops.def. */
#ifndef CLCNN_OPS_OP_H
#define CLCNN_OPS_OP_H

#include "base/base.h"
#include "ops/attrs.h"

#define MAX_OUTPUTS 64

/* What a shape rule sees and fills (element types of the outputs follow from op_def.types). Rules also bring attributes into canonical form (kernel_size for every spatial
 * dimension, padding as begins then ends, axes non-negative and sorted), so that algorithms never guess; doing so twice
 * changes nothing. */
struct infer {
    const struct op_def *op;
    const char *layer;
    void *attrs;
    int n_in;
    const struct clcnn_shape *in; /* rank -1: an optional input that is absent */
    int n_out;
    struct clcnn_shape out[MAX_OUTPUTS];
};

/* What the planner does by itself for an operator: the memory of what is joined or split is shared where it can be. */
enum op_role { ROLE_NONE, ROLE_CONCAT, ROLE_SPLIT };

struct op_def {
    union {
        struct {
            const char *name, *doc, *inputs;
            /* offsets into the attribute struct: int32_t, float, ints, floats */
            const struct clcnn_attr_info *attrs;
            int attr_count;
        };
        struct clcnn_op_info info; /* the same members, as the public interface hands them out */
    };
    size_t attrs_size;
    /* Element types, "b Tfli T > T": a word an input (the last one also for all that follow), then a word an output.
     * f float32, l int64, i int32, b bool: one of these. T: the same type wherever it stands, one of those named with
     * it. An output "?" is left to `infer`. NULL: float32 everywhere. */
    const char *types;
    enum clcnn_status (*infer)(struct infer *in, struct clcnn_err *err);
    double (*macs)(const struct infer *in); /* multiply-adds; NULL: none to speak of */
    int code;   /* rows of a family (element-wise) share functions and differ here */
    bool fuses; /* its algorithms apply an epilogue (bias is the op's own input) */
    bool acts;  /* of an epilogue, they apply the activation alone */
    bool alias; /* same bytes under another shape (reshape, identity ...): no step when the input is dense */
    /* an item (index of dimension 0) of the output comes of that item of the inputs that are no weights */
    bool by_item;
    /* its results are new values, element by element, of these inputs, counted from 1; 0: of none */
    unsigned char renews[4];
    enum op_role role;
    bool internal; /* made by rewrites only: clcnn_graph_node() refuses it */
};

extern const struct op_def *const clcnn_ops[]; /* in the order of ops.def, NULL at the end */
int op_algo_find(const struct op_def *op,
                 const char *name); /* its place among the operator's algorithms; -1: it has none */

/* Every operator by itself: op_conv, op_relu ... */
#define OP(name) extern const struct op_def op_##name;
#define ALGO(op, name)
#define UNARY(name, activation, attributes, count, types, doc) OP(name)
#define BINARY(name, attributes, count, types, doc) OP(name)
#include "ops.def"
#include "ops/eltwise.def"
#undef OP
#undef ALGO
#undef UNARY
#undef BINARY

/* defaults, then given; checks names and kinds */
enum clcnn_status attrs_set(const struct op_def *op, const char *layer, void *attrs,
                            const struct clcnn_attr *given, int count, struct clcnn_err *err);

/* Whether the pooling's windows lie side by side inside x, the first one at its corner; y is the result. */
bool pool_side_by_side(const struct pool_attrs *a, const struct clcnn_shape *x, const struct clcnn_shape *y);
/* The convolution by turned filters that a transposed one is at stride 1: what that crops comes off the padding that lets
 * every tap meet every pixel. w: the weights, with the kernel's size behind two dimensions. False where there are strides,
 * or where it would cut its map instead. `to` may be `from`. */
bool conv_of_transposed(struct conv_attrs *to, const struct conv_attrs *from, const struct clcnn_shape *w);

/* Activations that an epilogue can apply; kernels/common/activation.clh has the same names (act_relu ...). */
enum act {
#define ACT(name) ACT_##name,
#include "ops/act.def"
#undef ACT
    ACT_COUNT
};
const char *act_identifier(enum act act); /* "act_relu" */
/* The same function as a clip where it is one (none, relu, relu6), so that layers share kernels: sets its limits. */
enum act act_as_clip(enum act act, float *p0, float *p1);
/* Function of an element-wise operator in activation.clh or unary.clh ("act_relu", "act_gelu_tanh"), binary.clh
 * ("bin_add"), or integer.clh ("int_add") for elements that are no floats. */
void eltwise_identifier(char out[40], const struct op_def *op, const void *attrs, enum clcnn_dtype dtype);
/* Whether it computes each element of one input by itself. */
bool eltwise_is_unary(const struct op_def *op);
bool eltwise_is_binary(const struct op_def *op);
bool eltwise_broadcasts(const struct op_def *op); /* that, or several functions in one */
/* What an operand that is broadcast is to the map that results: the map's own shape; a value a channel, in either layout (one
 * pixel, whose last block may be cut short); a value a pixel, row-major; one value, or one an item, in either layout; none of these. */
enum operand_part { PART_MAP, PART_CHANNELS, PART_PIXELS, PART_VALUE, PART_NONE };
enum operand_part operand_part(const struct op_def *op, const struct clcnn_shape *operand,
                               const struct clcnn_shape *map);
/* Whether a node of this operator can become another one's epilogue, and then as what. */
bool act_of_op(const struct op_def *op, const void *attrs, enum act *act, float *p0, float *p1);

#endif
