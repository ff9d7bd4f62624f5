/* py_args.c: numbers, strings and truth values out of Python objects, refused in clcnn's own words. */
#include "py.h"

#include <string.h>

/* What Python itself raised becomes DtypeError or ArgumentError; other exceptions (KeyboardInterrupt) stay. Returns -1. */
static int explain(struct state *state, PyObject *object, const char *what, const char *expected)
{
    const bool kind = PyErr_ExceptionMatches(PyExc_TypeError);

    if (kind || PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        py_error_format(state, kind ? CLCNN_E_DTYPE : CLCNN_E_VALUE, "%s: expected %s, got %.200R", what,
                        expected, object);
    }
    return -1;
}

/* Clips what does not fit. */
static int whole_number(struct state *state, PyObject *object, const char *what, const char *expected,
                        Py_ssize_t *out)
{
    *out = PyNumber_AsSsize_t(object, NULL); /* TypeError where it is no whole number */
    return *out == -1 && PyErr_Occurred() ? explain(state, object, what, expected) : 0;
}

int py_bytes_parse(struct state *state, PyObject *object, const char *what, uint64_t *out)
{
    Py_ssize_t bytes;

    if (whole_number(state, object, what, "a number of bytes", &bytes) < 0)
        return -1;
    if (bytes < 0) {
        py_error_format(state, CLCNN_E_VALUE, "%s: a number of bytes must not be negative, got %S", what,
                        object);
        return -1;
    }
    *out = (uint64_t)bytes;
    return 0;
}

int py_int_parse(struct state *state, PyObject *object, const char *what, int least, int *out)
{
    Py_ssize_t value;

    if (whole_number(state, object, what, "a whole number", &value) < 0)
        return -1;
    if (value < least || value > INT32_MAX) {
        py_error_format(state, CLCNN_E_VALUE, "%s: must be from %d to %d, got %.200S", what, least, INT32_MAX,
                        object);
        return -1;
    }
    *out = (int)value;
    return 0;
}

int py_flag_parse(struct state *state, PyObject *object, const char *what, bool *out)
{
    const int truth = PyObject_IsTrue(object);

    *out = truth > 0;
    return truth < 0 ? explain(state, object, what, "True or False") : 0;
}

int py_text_parse(struct state *state, PyObject *object, const char *what, const char **out)
{
    Py_ssize_t bytes;

    if (!PyUnicode_Check(object)) {
        py_error_format(state, CLCNN_E_DTYPE, "%s: expected a string, got %.200R", what, object);
        return -1;
    }
    *out = PyUnicode_AsUTF8AndSize(object, &bytes);
    if (!*out) /* a lone surrogate */
        return explain(state, object, what, "text that UTF-8 can hold");
    if (strlen(*out) != (size_t)bytes) {
        py_error_format(state, CLCNN_E_VALUE, "%s: must not have a NUL character, got %.200R", what, object);
        return -1;
    }
    return 0;
}

int py_path_parse(struct state *state, PyObject *object, const char *what, PyObject **bytes, const char **out)
{
    *bytes = NULL;
    *out = NULL;
    if (object == Py_None)
        return 0;
    if (!PyUnicode_FSConverter(object, bytes)) /* of NUL and of surrogates it says ValueError, too */
        return explain(state, object, what, "a path");
    *out = PyBytes_AsString(*bytes);
    return 0;
}
