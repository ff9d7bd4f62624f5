/* py_tensor.c: _core.Tensor, values in a device buffer. */
#include "py.h"

static int shape_checked(struct state *state, PyObject *object, PyObject *dtype, struct clcnn_shape *shape,
                         size_t *bytes)
{
    if (py_shape_parse(state, object, "Tensor", shape) < 0 ||
        (dtype && py_dtype_parse(state, dtype, "Tensor", &shape->dtype) < 0))
        return -1;
    *bytes = py_shape_bytes(shape);
    if (*bytes == 0)
        py_error_format(state, CLCNN_E_SHAPE, "Tensor: shape %R takes more bytes than an address has",
                        object);
    return *bytes ? 0 : -1;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"device", "shape", "dtype", NULL};
    struct state *state = py_state_of_type(type);
    PyObject *device, *shape_object, *dtype = NULL;
    struct clcnn_shape shape;
    size_t bytes;
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O:Tensor", keys, state->device_type,
                                               &device, &shape_object, &dtype))
        return NULL;
    if (shape_checked(state, shape_object, dtype, &shape, &bytes) < 0)
        return NULL;
    struct clcnn_buffer *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_buffer_create(&handle, ((struct device_object *)device)->handle, bytes, &err));
    if (status)
        return py_error_raise(state, &err);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct tensor_object *self = (struct tensor_object *)alloc(type, 0);
    if (!self) {
        clcnn_buffer_free(handle);
        return NULL;
    }
    self->state = state;
    self->device = (struct device_object *)Py_NewRef(device);
    self->handle = handle;
    self->shape = shape;
    atomic_init(&self->closed, false);
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *op)
{
    struct tensor_object *self = (struct tensor_object *)op;
    WITHOUT_GIL(clcnn_buffer_free(self->handle));
    Py_XDECREF((PyObject *)self->device);
    py_free(op);
}

/* ---- methods ---- */

/* An array that fits the tensor. */
static int view(struct tensor_object *self, PyObject *array, enum array_use use, struct host_array *out)
{
    if (py_array_view(self->state, array, use, self->shape.dtype, "Tensor", out) < 0)
        return -1;
    return py_shape_equal(&self->shape, &out->shape)
               ? 0
               : py_shape_mismatch(self->state, "Tensor", &self->shape, &out->shape);
}

PyDoc_STRVAR(write_doc, "write($self, /, array)\n--\n\n"
                        "Copies an array to the device.\n"
                        "\n"
                        "Parameters\n"
                        "----------\n"
                        "array : numpy.ndarray\n"
                        "    C-contiguous, of the tensor's shape and dtype.\n"
                        "\n"
                        "Raises\n"
                        "------\n"
                        "DtypeError, ShapeError\n"
                        "    The array has another dtype or shape.\n"
                        "ArgumentError\n"
                        "    It is not C-contiguous.\n"
                        "DeviceError, StateError\n"
                        "    The driver reports an error; the tensor or its device is closed.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import numpy as np\n"
                        ">>> import clcnn\n"
                        ">>> with clcnn.Device() as device, clcnn.Tensor(device, (2,)) as tensor:\n"
                        "...     tensor.write(np.array([1, 2], np.float32))\n"
                        "...     tensor.read().tolist()\n"
                        "[1.0, 2.0]");

static PyObject *tensor_write(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"array", NULL};
    struct tensor_object *self = (struct tensor_object *)op;
    PyObject *array;
    struct host_array host;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:write", keys, &array) ||
        view(self, array, ARRAY_READ, &host) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_buffer_write(self->handle, 0, host.data, host.bytes, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(read_doc,
             "read($self, /, out=None)\n--\n\n"
             "Copies the values to the host.\n"
             "\n"
             "Parameters\n"
             "----------\n"
             "out : numpy.ndarray, optional\n"
             "    Where to: C-contiguous, writable, of the tensor's shape and dtype. None for a new array.\n"
             "\n"
             "Returns\n"
             "-------\n"
             "numpy.ndarray\n"
             "    `out`, or the new array.\n"
             "\n"
             "Raises\n"
             "------\n"
             "DtypeError, ShapeError\n"
             "    `out` has another dtype or shape.\n"
             "ArgumentError\n"
             "    It is not C-contiguous, or read-only.\n"
             "DeviceError, StateError\n"
             "    The driver reports an error; the tensor or its device is closed.\n"
             "\n"
             "Examples\n"
             "--------\n"
             ">>> import numpy as np\n"
             ">>> import clcnn\n"
             ">>> with clcnn.Tensor.from_numpy(np.ones((1, 3), np.float32)) as tensor:\n"
             "...     out = np.empty((1, 3), np.float32)\n"
             "...     tensor.read(out) is out\n"
             "True");

static PyObject *tensor_read(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"out", NULL};
    struct tensor_object *self = (struct tensor_object *)op;
    PyObject *out = Py_None;
    struct host_array host;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:read", keys, &out))
        return NULL;
    if (out != Py_None && view(self, out, ARRAY_WRITE, &host) < 0)
        return NULL;
    PyObject *array = out != Py_None ? Py_NewRef(out) : py_array_new(&self->shape, &host);
    if (!array)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_buffer_read(self->handle, 0, host.data, host.bytes, &err));
    if (status) {
        Py_DECREF(array);
        return py_error_raise(self->state, &err);
    }
    return array;
}

PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\n"
                        "Gives the device memory back. Closing twice is fine.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import numpy as np\n"
                        ">>> import clcnn\n"
                        ">>> tensor = clcnn.Tensor.from_numpy(np.ones(3, np.float32))\n"
                        ">>> tensor.close()\n"
                        ">>> tensor.closed\n"
                        "True");

static PyObject *tensor_close(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct tensor_object *self = (struct tensor_object *)op;
    WITHOUT_GIL(clcnn_buffer_close(self->handle));
    atomic_store(&self->closed, true);
    Py_RETURN_NONE;
}

static PyObject *tensor_exit(PyObject *op, PyObject *Py_UNUSED(args))
{
    return tensor_close(op, NULL);
}

static PyObject *tensor_repr(PyObject *op)
{
    struct tensor_object *self = (struct tensor_object *)op;
    PyObject *shape = py_shape_tuple(&self->shape);
    PyObject *text = shape ? PyUnicode_FromFormat("<clcnn.Tensor %R %s on %s%s>", shape,
                                                  clcnn_dtype_name(self->shape.dtype),
                                                  clcnn_device_get_info(self->device->handle)->name,
                                                  atomic_load(&self->closed) ? ", closed" : "")
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

/* ---- attributes ---- */

static PyObject *get_shape(PyObject *op, void *Py_UNUSED(closure))
{
    return py_shape_tuple(&((struct tensor_object *)op)->shape);
}

static PyObject *get_ndim(PyObject *op, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((struct tensor_object *)op)->shape.rank);
}

static PyObject *get_size(PyObject *op, void *Py_UNUSED(closure))
{
    const struct clcnn_shape *shape = &((struct tensor_object *)op)->shape;
    return PyLong_FromSize_t(py_shape_bytes(shape) / clcnn_dtype_bytes(shape->dtype));
}

static PyObject *get_nbytes(PyObject *op, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(py_shape_bytes(&((struct tensor_object *)op)->shape));
}

static PyObject *get_dtype(PyObject *op, void *Py_UNUSED(closure))
{
    return py_array_dtype(((struct tensor_object *)op)->shape.dtype);
}

static PyObject *get_device(PyObject *op, void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)((struct tensor_object *)op)->device);
}

static PyObject *get_closed(PyObject *op, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct tensor_object *)op)->closed));
}

PyDoc_STRVAR(
    tensor_doc,
    "Tensor(device, shape, dtype=\"float32\")\n--\n\n"
    "Values in device memory, in C order, not initialised. dtype: float32, int64, int32, bool or uint8.\n\n"
    "Raises ShapeError, DtypeError, DeviceMemoryError (the device's memory_limit counts), StateError.");

static PyMethodDef tensor_methods[] = {
    {"write", (PyCFunction)(void (*)(void))tensor_write, METH_VARARGS | METH_KEYWORDS, write_doc},
    {"read", (PyCFunction)(void (*)(void))tensor_read, METH_VARARGS | METH_KEYWORDS, read_doc},
    {"close", tensor_close, METH_NOARGS, close_doc},
    {"__enter__", py_enter, METH_NOARGS, "__enter__($self, /)\n--\n\n"},
    {"__exit__", tensor_exit, METH_VARARGS, "__exit__($self, /, *args)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "Shape, a tuple of int.", NULL},
    {"ndim", get_ndim, NULL, "Number of dimensions.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of device memory.", NULL},
    {"dtype", get_dtype, NULL, "Type of the elements, a numpy.dtype.", NULL},
    {"device", get_device, NULL, "The device that holds the values.", NULL},
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_doc, (void *)tensor_doc},
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {0, NULL},
};

PyType_Spec py_tensor_spec = {
    .name = "clcnn._core.Tensor",
    .basicsize = sizeof(struct tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tensor_slots,
};
