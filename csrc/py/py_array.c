/* py_array.c: NumPy arrays and shapes. The one file that sees NumPy's C API. */
#include "py.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#include <numpy/arrayobject.h>

static const int numpy_types[CLCNN_DTYPE_COUNT] = {
    [CLCNN_FLOAT32] = NPY_FLOAT32, [CLCNN_INT64] = NPY_INT64, [CLCNN_INT32] = NPY_INT32,
    [CLCNN_BOOL] = NPY_BOOL,       [CLCNN_UINT8] = NPY_UINT8,
};

int py_array_init(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0)
        return -1;
    return PyModule_AddIntConstant(module, "MAX_RANK", CLCNN_MAX_RANK);
}

PyObject *py_array_new(const struct clcnn_shape *shape, struct host_array *out)
{
    npy_intp dims[CLCNN_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dim[i];
    PyObject *array = PyArray_SimpleNew(shape->rank, dims, numpy_types[shape->dtype]);
    if (array) {
        out->data = PyArray_DATA((PyArrayObject *)array);
        out->bytes = (size_t)PyArray_NBYTES((PyArrayObject *)array);
        out->shape = *shape;
    }
    return array;
}

PyObject *py_array_dtype(enum clcnn_dtype dtype)
{
    return (PyObject *)PyArray_DescrFromType(numpy_types[dtype]);
}

int py_dtype_parse(struct state *state, PyObject *object, const char *what, enum clcnn_dtype *out)
{
    const char *name;
    char argument[CLCNN_NAME_MAX + 32];
    PyOS_snprintf(argument, sizeof argument, "%s: dtype", what);
    if (py_text_parse(state, object, argument, &name) < 0)
        return -1;
    const int dtype = clcnn_dtype_find(name);
    if (dtype < 0) {
        py_error_format(state, CLCNN_E_DTYPE,
                        "%s: dtype must be float32, int64, int32, bool or uint8, got %.200R", what, object);
        return -1;
    }
    *out = (enum clcnn_dtype)dtype;
    return 0;
}

static int array_shape(struct state *state, PyArrayObject *array, const char *what, struct clcnn_shape *out)
{
    out->rank = PyArray_NDIM(array);
    if (out->rank > CLCNN_MAX_RANK) {
        py_error_format(state, CLCNN_E_SHAPE, "%s: rank %d is above the limit of %d", what, out->rank,
                        CLCNN_MAX_RANK);
        return -1;
    }
    for (int i = 0; i < out->rank; i++) {
        npy_intp dim = PyArray_DIM(array, i);
        if (dim < 1 || dim > INT32_MAX) {
            py_error_format(state, CLCNN_E_SHAPE,
                            "%s: dimension %d is %zd; every dimension must be from 1 to %d", what, i,
                            (Py_ssize_t)dim, INT32_MAX);
            return -1;
        }
        out->dim[i] = (int32_t)dim;
    }
    return 0;
}

/* Says dtype, shape, strides and the broken rule, with what to do about it. */
static int refuse_layout(struct state *state, PyArrayObject *array, const char *what, const char *rule,
                         const char *advice)
{
    PyObject *shape = PyObject_GetAttrString((PyObject *)array, "shape");
    PyObject *strides = PyObject_GetAttrString((PyObject *)array, "strides");
    if (shape && strides)
        py_error_format(state, CLCNN_E_VALUE, "%s: array of dtype %S, shape %R and strides %R is %s; %s",
                        what, PyArray_DESCR(array), shape, strides, rule, advice);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return -1;
}

/* The element type of an array, which must be `wanted` unless that is ANY_DTYPE; -1 with an exception. */
static int array_dtype(struct state *state, PyArrayObject *array, enum array_use use, enum clcnn_dtype wanted,
                       const char *what)
{
    for (int dtype = 0; dtype < CLCNN_DTYPE_COUNT && PyArray_ISNOTSWAPPED(array); dtype++)
        if (PyArray_EquivTypenums(PyArray_TYPE(array), numpy_types[dtype]) &&
            (wanted == ANY_DTYPE || wanted == (enum clcnn_dtype)dtype))
            return dtype;
    const char *name = clcnn_dtype_name(wanted == ANY_DTYPE ? CLCNN_FLOAT32 : wanted);
    py_error_format(state, CLCNN_E_DTYPE,
                    "%s: dtype must be %s in native byte order, got %S (%R); pass %snp.%s)", what,
                    wanted == ANY_DTYPE ? "float32, int64, int32, bool or uint8" : name, PyArray_DESCR(array),
                    PyArray_DESCR(array), use == ARRAY_READ ? "x.astype(" : "np.empty(shape, ", name);
    return -1;
}

/* What is masked would count as if it were not. numpy.ma is there if such an array is. */
static int refuse_masked(struct state *state, PyObject *array, const char *what)
{
    if (PyArray_CheckExact(array))
        return 0;
    PyObject *name = PyUnicode_FromString("numpy.ma");
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *type = module ? PyObject_GetAttrString(module, "MaskedArray") : NULL;
    int masked = type ? PyObject_IsInstance(array, type) : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(type);
    if (masked > 0)
        py_error_format(
            state, CLCNN_E_DTYPE,
            "%s: expected a plain NumPy array, got a masked one, whose mask would not count; pass "
            "x.filled(value)",
            what);
    return masked == 0 ? 0 : -1;
}

int py_array_view(struct state *state, PyObject *object, enum array_use use, enum clcnn_dtype dtype,
                  const char *what, struct host_array *out)
{
    if (!PyArray_Check(object)) {
        const char *name = clcnn_dtype_name(dtype == ANY_DTYPE ? CLCNN_FLOAT32 : dtype);
        PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
        if (type)
            py_error_format(state, CLCNN_E_DTYPE, "%s: expected a NumPy array of %s, got %U; pass %snp.%s)",
                            what, name, type, use == ARRAY_READ ? "np.asarray(x, " : "np.empty(shape, ",
                            name);
        Py_XDECREF(type);
        return -1;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    const int found =
        refuse_masked(state, object, what) < 0 ? -1 : array_dtype(state, array, use, dtype, what);
    if (found < 0)
        return -1;
    out->shape.dtype = (enum clcnn_dtype)found;
    if (array_shape(state, array, what, &out->shape) < 0)
        return -1;
    if (!PyArray_IS_C_CONTIGUOUS(array))
        return refuse_layout(state, array, what, "not C-contiguous", "pass np.ascontiguousarray(x)");
    if (!PyArray_ISALIGNED(array))
        return refuse_layout(state, array, what, "not aligned", "pass x.copy()");
    if (use == ARRAY_WRITE && !PyArray_ISWRITEABLE(array))
        return refuse_layout(state, array, what, "read-only", "pass a writable array");
    out->data = PyArray_DATA(array);
    out->bytes = (size_t)PyArray_NBYTES(array);
    return 0;
}

/* ---- shapes ---- */

int py_shape_parse(struct state *state, PyObject *object, const char *what, struct clcnn_shape *out)
{
    PyObject *dims = PySequence_Tuple(object);
    if (!dims) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            py_error_format(state, CLCNN_E_DTYPE, "%s: a shape must be a sequence of integers, got %R", what,
                            object);
        return -1;
    }
    Py_ssize_t rank = PyTuple_Size(dims);
    if (rank > CLCNN_MAX_RANK) {
        py_error_format(state, CLCNN_E_SHAPE, "%s: rank %zd of shape %R is above the limit of %d", what, rank,
                        dims, CLCNN_MAX_RANK);
        goto fail;
    }
    out->rank = (int32_t)rank;
    out->dtype = CLCNN_FLOAT32;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PyTuple_GetItem(dims, i);
        Py_ssize_t dim = PyNumber_AsSsize_t(item, NULL); /* clips what does not fit */
        if (dim == -1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError))
                goto fail;
            PyErr_Clear();
            py_error_format(state, CLCNN_E_DTYPE, "%s: dimension %zd of shape %R is not an integer", what, i,
                            dims);
            goto fail;
        }
        if (dim < 1 || dim > INT32_MAX) {
            py_error_format(state, CLCNN_E_SHAPE,
                            "%s: dimension %zd of shape %R is %S; every dimension must be from 1 to"
                            " %d",
                            what, i, dims, item, INT32_MAX);
            goto fail;
        }
        out->dim[i] = (int32_t)dim;
    }
    Py_DECREF(dims);
    return 0;
fail:
    Py_DECREF(dims);
    return -1;
}

PyObject *py_shape_tuple(const struct clcnn_shape *shape)
{
    PyObject *tuple = PyTuple_New(shape->rank);
    for (int i = 0; tuple && i < shape->rank; i++) {
        PyObject *dim = PyLong_FromLong(shape->dim[i]);
        if (!dim || PyTuple_SetItem(tuple, i, dim) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

size_t py_shape_bytes(const struct clcnn_shape *shape)
{
    size_t bytes = clcnn_dtype_bytes(shape->dtype);
    for (int i = 0; i < shape->rank; i++)
        if (__builtin_mul_overflow(bytes, (size_t)shape->dim[i], &bytes))
            return 0;
    return bytes <= PY_SSIZE_T_MAX ? bytes : 0;
}

bool py_shape_equal(const struct clcnn_shape *a, const struct clcnn_shape *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

int py_shape_mismatch(struct state *state, const char *what, const struct clcnn_shape *expected,
                      const struct clcnn_shape *got)
{
    PyObject *a = py_shape_tuple(expected), *b = py_shape_tuple(got);
    if (a && b)
        py_error_format(state, CLCNN_E_SHAPE, "%s: expected shape %R, got %R", what, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return -1;
}
