/* attrs.c: attributes from a caller into an operator's attribute struct, by the operator's table. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

/* One attribute on its way in, with what messages need. */
struct setting {
    const struct op_def *op;
    const char *layer;
    const struct clcnn_attr_info *info;
    void *field;
    struct clcnn_err *err;
};

static const char *const kind_names[] = {
    [CLCNN_ATTR_INT] = "an integer",           [CLCNN_ATTR_BOOL] = "true or false",
    [CLCNN_ATTR_FLOAT] = "a number",           [CLCNN_ATTR_INTS] = "an integer or a list of integers",
    [CLCNN_ATTR_FLOATS] = "a list of numbers", [CLCNN_ATTR_ENUM] = "a string",
};

static enum clcnn_status wrong_kind(const struct setting *s, const struct clcnn_attr *given)
{
    const char *what =
        given->kind >= 0 && given->kind < COUNT_OF(kind_names) ? kind_names[given->kind] : "unknown";

    return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s must be %s, not %s", s->op->name, s->layer,
                      s->info->name, kind_names[s->info->kind], what);
}

static enum clcnn_status set_int(const struct setting *s, int64_t value, int32_t *out)
{
    if (value < INT32_MIN || value > INT32_MAX) {
        if (!s->info->clamps) {
            return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s=%lld does not fit in 32 bits", s->op->name,
                              s->layer, s->info->name, (long long)value);
        }
        value = value < 0 ? INT32_MIN : INT32_MAX;
    }
    *out = (int32_t)value;
    return CLCNN_OK;
}

static enum clcnn_status set_float(const struct setting *s, double value, float *out)
{
    if (isfinite(value) && !isfinite((float)value)) {
        return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s=%g is beyond the range of float32", s->op->name,
                          s->layer, s->info->name, value);
    }
    *out = (float)value;
    return CLCNN_OK;
}

static enum clcnn_status check_length(const struct setting *s, int n, int limit)
{
    if (n >= 0 && n <= limit)
        return CLCNN_OK;
    return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s has %d values, the limit is %d", s->op->name,
                      s->layer, s->info->name, n, limit);
}

static enum clcnn_status take_int(const struct setting *s, const struct clcnn_attr *given)
{
    if (given->kind != CLCNN_ATTR_INT)
        return wrong_kind(s, given);
    return set_int(s, given->i, s->field);
}

static enum clcnn_status take_bool(const struct setting *s, const struct clcnn_attr *given)
{
    if (given->kind != CLCNN_ATTR_BOOL && given->kind != CLCNN_ATTR_INT)
        return wrong_kind(s, given);
    if (given->i != 0 && given->i != 1) {
        return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s=%lld must be 0 or 1", s->op->name, s->layer,
                          s->info->name, (long long)given->i);
    }
    *(int32_t *)s->field = (int32_t)given->i;
    return CLCNN_OK;
}

static enum clcnn_status take_float(const struct setting *s, const struct clcnn_attr *given)
{
    if (given->kind != CLCNN_ATTR_FLOAT && given->kind != CLCNN_ATTR_INT)
        return wrong_kind(s, given);
    return set_float(s, given->kind == CLCNN_ATTR_INT ? (double)given->i : given->f, s->field);
}

static enum clcnn_status take_ints(const struct setting *s, const struct clcnn_attr *given)
{
    struct ints *out = s->field;
    bool one = given->kind == CLCNN_ATTR_INT;
    /* An empty list has no kind of its own. */
    bool empty = given->kind == CLCNN_ATTR_FLOATS && given->n == 0;
    int n = one ? 1 : given->n;

    if (!one && !empty && given->kind != CLCNN_ATTR_INTS)
        return wrong_kind(s, given);
    enum clcnn_status st = check_length(s, n, COUNT_OF(out->v));
    out->n = n;
    for (int i = 0; st == CLCNN_OK && i < n; i++)
        st = set_int(s, one ? given->i : given->ints[i], &out->v[i]);
    return st;
}

/* The i-th number of a scalar or a list, integers too. */
static double number_at(const struct clcnn_attr *given, int i)
{
    switch (given->kind) {
    case CLCNN_ATTR_INT:
        return (double)given->i;
    case CLCNN_ATTR_FLOAT:
        return given->f;
    case CLCNN_ATTR_INTS:
        return (double)given->ints[i];
    default:
        return given->floats[i];
    }
}

static enum clcnn_status take_floats(const struct setting *s, const struct clcnn_attr *given)
{
    struct floats *out = s->field;
    bool one = given->kind == CLCNN_ATTR_INT || given->kind == CLCNN_ATTR_FLOAT;
    int n = one ? 1 : given->n;

    if (!one && given->kind != CLCNN_ATTR_INTS && given->kind != CLCNN_ATTR_FLOATS)
        return wrong_kind(s, given);
    enum clcnn_status st = check_length(s, n, COUNT_OF(out->v));
    out->n = n;
    for (int i = 0; st == CLCNN_OK && i < n; i++)
        st = set_float(s, number_at(given, i), &out->v[i]);
    return st;
}

static enum clcnn_status take_enum(const struct setting *s, const struct clcnn_attr *given)
{
    const char *choice = s->info->choices;

    if (given->kind != CLCNN_ATTR_ENUM || !given->s)
        return wrong_kind(s, given);
    for (int32_t index = 0; choice; index++) {
        size_t length = strcspn(choice, "|");
        if (strlen(given->s) == length && memcmp(given->s, choice, length) == 0) {
            *(int32_t *)s->field = index;
            return CLCNN_OK;
        }
        choice = choice[length] ? choice + length + 1 : NULL;
    }
    return clcnn_fail(s->err, CLCNN_E_VALUE, "%s %s: %s=\"%.64s\" must be one of %s", s->op->name, s->layer,
                      s->info->name, given->s, s->info->choices);
}

typedef enum clcnn_status take_fn(const struct setting *, const struct clcnn_attr *);
static take_fn *const take[] = {
    [CLCNN_ATTR_INT] = take_int,   [CLCNN_ATTR_BOOL] = take_bool,     [CLCNN_ATTR_FLOAT] = take_float,
    [CLCNN_ATTR_INTS] = take_ints, [CLCNN_ATTR_FLOATS] = take_floats, [CLCNN_ATTR_ENUM] = take_enum,
};

static void set_default(const struct clcnn_attr_info *info, void *field)
{
    bool listed = !isnan(info->def);

    switch (info->kind) {
    case CLCNN_ATTR_FLOAT:
        *(float *)field = (float)info->def;
        break;
    case CLCNN_ATTR_INTS:
        *(struct ints *)field = (struct ints){.n = listed, .v = {listed ? (int32_t)info->def : 0}};
        break;
    case CLCNN_ATTR_FLOATS:
        *(struct floats *)field = (struct floats){.n = listed, .v = {listed ? (float)info->def : 0.0f}};
        break;
    default:
        *(int32_t *)field = listed ? (int32_t)info->def : 0; /* a required one has no default */
        break;
    }
}

/* "stride, padding, groups" of an operator; "no attributes" when it has none. */
static const char *attr_names(const struct op_def *op, char *buf, size_t size)
{
    size_t used = 0;

    if (op->attr_count == 0)
        return "no attributes";
    for (int i = 0; i < op->attr_count && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, i ? ", %s" : "%s", op->attrs[i].name);
    return buf;
}

static const struct clcnn_attr_info *find_attr(const struct op_def *op, const char *name)
{
    for (int i = 0; i < op->attr_count; i++) {
        if (strcmp(op->attrs[i].name, name) == 0)
            return &op->attrs[i];
    }
    return NULL;
}

static bool is_given(const struct clcnn_attr *given, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(given[i].name, name) == 0)
            return true;
    }
    return false;
}

enum clcnn_status attrs_set(const struct op_def *op, const char *layer, void *attrs,
                            const struct clcnn_attr *given, int count, struct clcnn_err *err)
{
    char names[256];

    for (int i = 0; i < op->attr_count; i++)
        set_default(&op->attrs[i], (char *)attrs + op->attrs[i].offset);
    for (int i = 0; i < count; i++) {
        const struct clcnn_attr_info *info = find_attr(op, given[i].name);
        if (!info) {
            return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: unknown attribute \"%.64s\"; %s takes %s", op->name,
                              layer, given[i].name, op->name, attr_names(op, names, sizeof names));
        }
        if (is_given(given, i, given[i].name)) {
            return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: attribute %s is given twice", op->name, layer,
                              info->name);
        }
        struct setting s = {op, layer, info, (char *)attrs + info->offset, err};
        enum clcnn_status st = take[info->kind](&s, &given[i]);
        if (st != CLCNN_OK)
            return st;
    }
    for (int i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].required && !is_given(given, count, op->attrs[i].name)) {
            return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: attribute %s is required (%s)", op->name, layer,
                              op->attrs[i].name, op->attrs[i].doc);
        }
    }
    return CLCNN_OK;
}
