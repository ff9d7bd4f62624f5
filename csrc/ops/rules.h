/* rules.h: what shape rules of operators share. Every message starts with the operator and the layer. */
#ifndef CLCNN_OPS_RULES_H
#define CLCNN_OPS_RULES_H

#include <math.h>

#include "ops/op.h"

/* ---- attribute tables ---------------------------------------------------------------------------------- */

#define ATTR(kind_, type, field, default_, doc_)                                  \
    {                                                                             \
        .name = #field, .doc = doc_, .kind = CLCNN_ATTR_##kind_, .def = default_, \
        .offset = offsetof(struct type, field)                                    \
    }
#define ATTR_REQUIRED(kind_, type, field, doc_)                                                \
    {                                                                                          \
        .name = #field, .doc = doc_, .kind = CLCNN_ATTR_##kind_, .required = true, .def = NAN, \
        .offset = offsetof(struct type, field)                                                 \
    }
#define ATTR_ENUM(type, field, default_, choices_, doc_)                                            \
    {                                                                                               \
        .name = #field, .doc = doc_, .kind = CLCNN_ATTR_ENUM, .def = default_, .choices = choices_, \
        .offset = offsetof(struct type, field)                                                      \
    }
#define EMPTY NAN /* default of a list without elements */
/* The part of an op_def that speaks of attributes. */
#define ATTRS(table, type) .attrs = table, .attr_count = COUNT_OF(table), .attrs_size = sizeof(struct type)

/* ---- messages ------------------------------------------------------------------------------------------ */

enum clcnn_status shape_fail(const struct infer *in, struct clcnn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum clcnn_status value_fail(const struct infer *in, struct clcnn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define INTS_TEXT_MAX 224
const char *ints_text(const struct ints *v, char buf[INTS_TEXT_MAX]); /* "[1, 2]" */
/* Text of a shape or a list as an argument of a message. */
#define SHAPE(s) shape_text(s, (char[96]){0})
#define INTS(v) ints_text(v, (char[INTS_TEXT_MAX]){0})

/* ---- checks -------------------------------------------------------------------------------------------- */

static inline bool input_present(const struct infer *in, int i)
{
    return i < in->n_in && in->in[i].rank >= 0;
}

/* An input [N, C, spatial...] with 1 to 3 spatial dimensions. */
enum clcnn_status rule_spatial(const struct infer *in, const struct clcnn_shape *x, struct clcnn_err *err);
/* Input `i`, called `name`, must be one dimension of `size` when it is present. */
enum clcnn_status rule_vector(const struct infer *in, int i, const char *name, int64_t size,
                              struct clcnn_err *err);
/* One value becomes n of them; every value must be at least `least`. */
enum clcnn_status rule_spread(const struct infer *in, const char *name, struct ints *v, int n, int32_t least,
                              struct clcnn_err *err);
/* 1 or n values (symmetric) or 2n (begins, then ends) become 2n, none of them negative. */
enum clcnn_status rule_padding(const struct infer *in, struct ints *padding, int n, struct clcnn_err *err);
/* Negative axes count from the end. rule_axes also sorts, and refuses duplicates. */
enum clcnn_status rule_axis(const struct infer *in, const char *name, int32_t *axis, int rank,
                            struct clcnn_err *err);
enum clcnn_status rule_axes(const struct infer *in, const char *name, struct ints *axes, int rank,
                            struct clcnn_err *err);
/* Appends a dimension to a result. */
enum clcnn_status rule_push(const struct infer *in, struct clcnn_shape *out, int64_t size,
                            struct clcnn_err *err);
/* Appends the dimensions from `first` up to `end` of another shape. */
enum clcnn_status rule_push_range(const struct infer *in, struct clcnn_shape *out,
                                  const struct clcnn_shape *from, int first, int end, struct clcnn_err *err);
/* NumPy broadcasting, aligned at the right; false when the shapes do not fit. */
bool broadcast_shapes(const struct clcnn_shape *a, const struct clcnn_shape *b, struct clcnn_shape *out);

/* Size of a window on an input: dilation * (kernel - 1) + 1. */
static inline int64_t window_extent(int32_t kernel, int32_t dilation)
{
    return (int64_t)dilation * (kernel - 1) + 1;
}

/* Appends how many windows there are along each spatial dimension of x, the first of which is dimension `spatial`. */
enum clcnn_status rule_windows(const struct infer *in, const struct conv_attrs *a,
                               const struct clcnn_shape *x, int spatial, const struct clcnn_shape *w,
                               struct clcnn_shape *out, struct clcnn_err *err);
/* The rule of conv without its bias, for operators that contain one: fills out and makes `a` canonical. */
enum clcnn_status rule_conv(const struct infer *in, struct conv_attrs *a, const struct clcnn_shape *x,
                            const struct clcnn_shape *w, struct clcnn_shape *out, struct clcnn_err *err);
/* The rule of max_pool and avg_pool, likewise. */
enum clcnn_status rule_pool(const struct infer *in, struct pool_attrs *a, const struct clcnn_shape *x,
                            struct clcnn_shape *out, struct clcnn_err *err);
double conv_macs_of(const struct clcnn_shape *w, const struct clcnn_shape *out);

#endif
