/* rules.c: what the shape rules of the operators share. */
#include <stdarg.h>
#include <stdio.h>

#include "ops/rules.h"

static enum clcnn_status fail_text(const struct infer *in, struct clcnn_err *err, enum clcnn_status status,
                                   const char *fmt, va_list args)
{
    char text[768];

    vsnprintf(text, sizeof text, fmt, args);
    return clcnn_fail(err, status, "%s %s: %s", in->op->name, in->layer, text);
}

enum clcnn_status shape_fail(const struct infer *in, struct clcnn_err *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum clcnn_status st = fail_text(in, err, CLCNN_E_SHAPE, fmt, args);
    va_end(args);
    return st;
}

enum clcnn_status value_fail(const struct infer *in, struct clcnn_err *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum clcnn_status st = fail_text(in, err, CLCNN_E_VALUE, fmt, args);
    va_end(args);
    return st;
}

const char *ints_text(const struct ints *v, char buf[INTS_TEXT_MAX])
{
    size_t used = (size_t)snprintf(buf, INTS_TEXT_MAX, "[");

    for (int i = 0; i < v->n && used < INTS_TEXT_MAX; i++)
        used += (size_t)snprintf(buf + used, INTS_TEXT_MAX - used, i ? ", %d" : "%d", (int)v->v[i]);
    if (used < INTS_TEXT_MAX)
        snprintf(buf + used, INTS_TEXT_MAX - used, "]");
    return buf;
}

enum clcnn_status rule_spatial(const struct infer *in, const struct clcnn_shape *x, struct clcnn_err *err)
{
    if (x->rank >= 3 && x->rank <= 5)
        return CLCNN_OK;
    return shape_fail(in, err, "input %s has %d dimensions, expected batch, channels and 1 to 3 spatial ones",
                      SHAPE(x), (int)x->rank);
}

enum clcnn_status rule_vector(const struct infer *in, int i, const char *name, int64_t size,
                              struct clcnn_err *err)
{
    if (!input_present(in, i) || (in->in[i].rank == 1 && in->in[i].dim[0] == size))
        return CLCNN_OK;
    return shape_fail(in, err, "%s has shape %s, expected [%lld]", name, SHAPE(&in->in[i]), (long long)size);
}

enum clcnn_status rule_spread(const struct infer *in, const char *name, struct ints *v, int n, int32_t least,
                              struct clcnn_err *err)
{
    if (v->n != n && v->n != 1)
        return value_fail(in, err, "%s=%s has %d values, expected 1 or %d", name, INTS(v), (int)v->n, n);
    for (int i = 0; i < v->n; i++) {
        if (v->v[i] < least)
            return value_fail(in, err, "%s=%d must be at least %d", name, (int)v->v[i], (int)least);
    }
    for (; v->n < n; v->n++)
        v->v[v->n] = v->v[0];
    return CLCNN_OK;
}

enum clcnn_status rule_padding(const struct infer *in, struct ints *padding, int n, struct clcnn_err *err)
{
    if (padding->n != 1 && padding->n != n && padding->n != 2 * n) {
        return value_fail(in, err,
                          "padding=%s has %d values, expected 1, %d (both ends) or %d (begins, then ends)",
                          INTS(padding), (int)padding->n, n, 2 * n);
    }
    for (int i = 0; i < padding->n; i++) {
        if (padding->v[i] < 0) {
            return value_fail(in, err, "padding=%d must not be negative (pad with negative amounts crops)",
                              (int)padding->v[i]);
        }
    }
    for (; padding->n < n; padding->n++)
        padding->v[padding->n] = padding->v[0];
    for (; padding->n < 2 * n; padding->n++)
        padding->v[padding->n] = padding->v[padding->n - n];
    return CLCNN_OK;
}

enum clcnn_status rule_axis(const struct infer *in, const char *name, int32_t *axis, int rank,
                            struct clcnn_err *err)
{
    if (rank == 0)
        return shape_fail(in, err, "%s=%d, but there are no dimensions", name, (int)*axis);
    if (*axis < -rank || *axis >= rank) {
        return shape_fail(in, err, "%s=%d is out of range for %d dimensions (%d to %d)", name, (int)*axis,
                          rank, -rank, rank - 1);
    }
    if (*axis < 0)
        *axis += rank;
    return CLCNN_OK;
}

enum clcnn_status rule_axes(const struct infer *in, const char *name, struct ints *axes, int rank,
                            struct clcnn_err *err)
{
    bool seen[CLCNN_MAX_RANK] = {false};
    int n = 0;

    for (int i = 0; i < axes->n; i++) {
        int32_t axis = axes->v[i];
        enum clcnn_status st = rule_axis(in, name, &axis, rank, err);
        if (st != CLCNN_OK)
            return st;
        if (seen[axis])
            return value_fail(in, err, "%s=%s names dimension %d twice", name, INTS(axes), (int)axis);
        seen[axis] = true;
    }
    for (int32_t axis = 0; axis < rank; axis++) {
        if (seen[axis])
            axes->v[n++] = axis;
    }
    return CLCNN_OK;
}

enum clcnn_status rule_push(const struct infer *in, struct clcnn_shape *out, int64_t size,
                            struct clcnn_err *err)
{
    if (out->rank >= CLCNN_MAX_RANK)
        return shape_fail(in, err, "the output would have more than %d dimensions", CLCNN_MAX_RANK);
    if (size < 1 || size > INT32_MAX) {
        return shape_fail(in, err, "dimension %d of the output would be %lld, it must be 1 to 2^31 - 1",
                          (int)out->rank, (long long)size);
    }
    out->dim[out->rank++] = (int32_t)size;
    return CLCNN_OK;
}

enum clcnn_status rule_push_range(const struct infer *in, struct clcnn_shape *out,
                                  const struct clcnn_shape *from, int first, int end, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    for (int i = first; st == CLCNN_OK && i < end; i++)
        st = rule_push(in, out, from->dim[i], err);
    return st;
}

bool broadcast_shapes(const struct clcnn_shape *a, const struct clcnn_shape *b, struct clcnn_shape *out)
{
    struct clcnn_shape both = {.rank = a->rank > b->rank ? a->rank : b->rank};

    for (int i = 0; i < both.rank; i++) {
        int at_a = i - (both.rank - a->rank), at_b = i - (both.rank - b->rank);
        int32_t da = at_a < 0 ? 1 : a->dim[at_a], db = at_b < 0 ? 1 : b->dim[at_b];
        if (da != db && da != 1 && db != 1)
            return false;
        both.dim[i] = da == 1 ? db : da;
    }
    *out = both;
    return true;
}
