/* shape.c: arithmetic on shapes. */
#include <stdio.h>

#include "base/base.h"

#define MAX_ELEMENTS ((int64_t)1 << 40)

int64_t shape_count(const struct clcnn_shape *s)
{
    return shape_count_from(s, 0);
}

size_t shape_bytes(const struct clcnn_shape *s)
{
    return (size_t)shape_count(s) * clcnn_dtype_bytes(s->dtype);
}

int64_t shape_count_from(const struct clcnn_shape *s, int first)
{
    int64_t count = 1;

    for (int i = first; i < s->rank; i++)
        count *= s->dim[i];
    return count;
}

bool shape_equal(const struct clcnn_shape *a, const struct clcnn_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i])
            return false;
    }
    return true;
}

const char *shape_text(const struct clcnn_shape *s, char buf[96])
{
    const size_t size = 96;
    size_t used = (size_t)snprintf(buf, size, "[");

    for (int i = 0; i < s->rank && i < CLCNN_MAX_RANK && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, i ? ", %d" : "%d", (int)s->dim[i]);
    if (used < size)
        snprintf(buf + used, size - used, "]");
    return buf;
}

enum clcnn_status shape_check(const struct clcnn_shape *s, const char *what, struct clcnn_err *err)
{
    char text[96];
    int64_t count = 1;

    if (s->rank < 0 || s->rank > CLCNN_MAX_RANK)
        return clcnn_fail(err, CLCNN_E_SHAPE, "%s has rank %d, the limit is %d", what, (int)s->rank,
                          CLCNN_MAX_RANK);
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 1) {
            return clcnn_fail(
                err, CLCNN_E_SHAPE,
                "%s has shape %s: dimension %d must be at least 1 (there is nothing to compute on empty "
                "arrays)",
                what, shape_text(s, text), i);
        }
        if (s->dim[i] > (MAX_ELEMENTS - 1) / count) {
            return clcnn_fail(err, CLCNN_E_SHAPE, "%s has shape %s, which is 2^40 elements or more", what,
                              shape_text(s, text));
        }
        count *= s->dim[i];
    }
    return CLCNN_OK;
}
