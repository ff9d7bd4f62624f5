/* py_attrs.c: a dict of attributes as the core's clcnn_attr rows. */
#include "py.h"

#include <string.h>

/* The operator's own row, or NULL: unknown operators and attributes are left to the core, which names the
 * node. */
static const struct clcnn_attr_info *declared(const char *op, const char *name)
{
    const struct clcnn_op_info *info = clcnn_op_get(clcnn_op_find(op));
    for (int i = 0; info && i < info->attr_count; i++)
        if (strcmp(info->attrs[i].name, name) == 0)
            return &info->attrs[i];
    return NULL;
}

static int parse_int(PyObject *value, int64_t *out)
{
    PyObject *number = PyNumber_Index(value);
    *out = number ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int parse_float(PyObject *value, double *out)
{
    *out = PyFloat_AsDouble(value);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

/* A sequence of numbers; `floats` says which array of the row receives them. */
static int parse_list(PyObject *value, bool floats, struct clcnn_attr *attr)
{
    PyObject *items = PySequence_Tuple(value);
    if (!items)
        return -1;
    Py_ssize_t n = PyTuple_Size(items);
    /* a double is as large */
    void *block = n <= INT32_MAX ? PyMem_Calloc((size_t)n + 1, sizeof(int64_t)) : NULL;
    int64_t *ints = floats ? NULL : block;
    double *doubles = floats ? block : NULL;
    int rc = block ? 0 : -1;
    if (!block)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; rc == 0 && i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        rc = floats ? parse_float(item, &doubles[i]) : parse_int(item, &ints[i]);
    }
    Py_DECREF(items);
    attr->kind = floats ? CLCNN_ATTR_FLOATS : CLCNN_ATTR_INTS;
    attr->n = (int)n;
    attr->ints = ints;
    attr->floats = doubles;
    return rc;
}

static int parse_value(struct state *state, const char *what, PyObject *value,
                       const struct clcnn_attr_info *info, struct clcnn_attr *attr)
{
    bool wants_float = info && (info->kind == CLCNN_ATTR_FLOAT || info->kind == CLCNN_ATTR_FLOATS);
    if (PyUnicode_Check(value)) {
        attr->kind = CLCNN_ATTR_ENUM;
        return py_text_parse(state, value, what, &attr->s);
    }
    if (PySequence_Check(value))
        return parse_list(value, wants_float, attr);
    if (PyIndex_Check(value) && !PyBool_Check(value) && !wants_float) {
        attr->kind = CLCNN_ATTR_INT;
        return parse_int(value, &attr->i);
    }
    if (PyBool_Check(value) || (info && info->kind == CLCNN_ATTR_BOOL && !PyFloat_Check(value))) {
        int truth = PyObject_IsTrue(value); /* numpy.bool is no int */
        attr->kind = CLCNN_ATTR_BOOL;
        attr->i = truth;
        return truth < 0 ? -1 : 0;
    }
    attr->kind = CLCNN_ATTR_FLOAT;
    return parse_float(value, &attr->f);
}

static int grow(struct attr_list *list, Py_ssize_t capacity)
{
    list->attr = PyMem_Calloc((size_t)capacity + 1, sizeof *list->attr);
    if (!list->attr)
        PyErr_NoMemory();
    return list->attr ? 0 : -1;
}

/* Python's own TypeError or OverflowError says little about where; this one names node, attribute and value.
 */
static void explain(struct state *state, const char *op, const char *name, const char *key, PyObject *value)
{
    bool range = PyErr_ExceptionMatches(PyExc_OverflowError);
    if (PyErr_ExceptionMatches(state->error) ||
        !(range || PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError)))
        return;
    PyErr_Clear();
    if (range)
        py_error_format(state, CLCNN_E_VALUE, "%s %s: attribute %s does not fit in 64 bits, got %R", op, name,
                        key, value);
    else
        py_error_format(state, CLCNN_E_DTYPE,
                        "%s %s: attribute %s must be a number, a string or a sequence of numbers,"
                        " got %R",
                        op, name, key, value);
}

int py_attrs_parse(struct state *state, const char *op, const char *name, PyObject *dict,
                   struct attr_list *out)
{
    *out = (struct attr_list){.owner = PyDict_Copy(dict)};
    if (!out->owner || grow(out, PyDict_Size(out->owner)) < 0)
        return -1;
    PyObject *key, *value;
    char what[384];
    Py_ssize_t at = 0;
    while (PyDict_Next(out->owner, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            py_error_format(state, CLCNN_E_DTYPE, "%s %s: attribute names are strings, got %R", op, name,
                            key);
            return -1;
        }
        struct clcnn_attr *attr = &out->attr[out->count];
        PyOS_snprintf(what, sizeof what, "%.64s %.256s: attribute", op, name);
        if (py_text_parse(state, key, what, &attr->name) < 0)
            return -1;
        if (value == Py_None)
            continue;
        out->count++;
        if (parse_value(state, what, value, declared(op, attr->name), attr) < 0) {
            explain(state, op, name, attr->name, value);
            return -1;
        }
    }
    return 0;
}

void py_attrs_free(struct attr_list *list)
{
    for (int i = 0; i < list->count; i++)
        PyMem_Free(list->attr[i].ints ? (void *)list->attr[i].ints : (void *)list->attr[i].floats);
    PyMem_Free(list->attr);
    Py_XDECREF(list->owner);
    *list = (struct attr_list){0};
}
