/* py_state.c: _core.State, arrays on a device that plans read and change. */
#include "py.h"

int py_states_enter(struct states_object *self)
{
    if (atomic_load(&self->runner) != PyThread_get_thread_ident())
        return 0;
    py_error_format(self->state, CLCNN_E_STATE,
                    "this state is in use by a run in this thread (was it called from a signal handler?)");
    return -1;
}

/* ---- its arrays ------------------------------------------------------------------------------------------------ */

/* Names, shapes and contents of a dict of arrays; *out is to be released with PyMem_Free(). */
struct arrays {
    PyObject *copy; /* of the dict: owns names and arrays */
    struct clcnn_state_array *row;
    const void **data;
    int count;
};

static int arrays_parse(struct arrays *out, struct state *state, PyObject *dict)
{
    PyObject *name, *array;
    Py_ssize_t at = 0;
    struct host_array host;
    out->copy = PyDict_Copy(dict);
    const size_t room = out->copy ? (size_t)PyDict_Size(out->copy) + 1 : 0;
    out->row = room ? PyMem_Calloc(room, sizeof *out->row) : NULL;
    out->data = room ? PyMem_Calloc(room, sizeof *out->data) : NULL;
    if (!out->row || !out->data) {
        if (out->copy)
            PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(out->copy, &at, &name, &array)) {
        struct clcnn_state_array *row = &out->row[out->count];
        if (py_text_parse(state, name, "State: name", &row->name) < 0)
            return -1;
        PyObject *what = PyUnicode_FromFormat("state %s", row->name);
        const char *text = what ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
        const int rc = text ? py_array_view(state, array, ARRAY_READ, ANY_DTYPE, text, &host) : -1;
        Py_XDECREF(what);
        if (rc < 0)
            return -1;
        row->shape = host.shape;
        out->data[out->count++] = host.data;
    }
    return 0;
}

static void arrays_free(struct arrays *a)
{
    PyMem_Free(a->row);
    PyMem_Free((void *)a->data);
    Py_XDECREF(a->copy);
}

static enum clcnn_status create(struct clcnn_state **out, struct device_object *device,
                                const struct arrays *arrays, struct clcnn_err *err)
{
    enum clcnn_status st = clcnn_state_create(out, device->handle, arrays->row, arrays->count, err);
    for (int i = 0; st == CLCNN_OK && i < arrays->count; i++)
        st = clcnn_state_write(*out, i, arrays->data[i], NULL, err);
    if (st != CLCNN_OK) {
        clcnn_state_free(*out);
        *out = NULL;
    }
    return st;
}

static PyObject *states_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"device", "arrays", NULL};
    struct state *state = py_state_of_type(type);
    PyObject *device, *dict;
    struct arrays arrays = {0};
    struct clcnn_state *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status = CLCNN_OK;
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!:State", keys, state->device_type, &device,
                                               &PyDict_Type, &dict))
        return NULL;
    const int rc = arrays_parse(&arrays, state, dict);
    if (rc == 0)
        WITHOUT_GIL(status = create(&handle, (struct device_object *)device, &arrays, &err));
    arrays_free(&arrays);
    if (rc < 0)
        return NULL;
    if (status)
        return py_error_raise(state, &err);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct states_object *self = (struct states_object *)alloc(type, 0);
    if (!self) {
        clcnn_state_free(handle);
        return NULL;
    }
    self->state = state;
    self->device = (struct device_object *)Py_NewRef(device);
    self->handle = handle;
    atomic_init(&self->runner, 0);
    atomic_init(&self->closed, false);
    return (PyObject *)self;
}

static void states_dealloc(PyObject *op)
{
    struct states_object *self = (struct states_object *)op;
    WITHOUT_GIL(clcnn_state_free(self->handle));
    Py_XDECREF((PyObject *)self->device);
    py_free(op);
}

/* ---- methods --------------------------------------------------------------------------------------------------- */

/* Index of an array; -1 with an exception that lists the names. */
static int find(struct states_object *self, PyObject *given)
{
    const char *name;
    if (py_text_parse(self->state, given, "State: name", &name) < 0 || py_states_enter(self) < 0)
        return -1;
    const int at = clcnn_state_find(self->handle, name);
    if (at >= 0)
        return at;
    PyObject *names = PyObject_CallMethod((PyObject *)self, "names", NULL);
    if (names)
        py_error_format(self->state, CLCNN_E_VALUE, "state %s: there is no such array, of %R", name, names);
    Py_XDECREF(names);
    return -1;
}

/* An array that fits the state's array `at`. */
static int view(struct states_object *self, int at, PyObject *array, enum array_use use,
                struct host_array *out)
{
    const struct clcnn_state_array *own = clcnn_state_get(self->handle, at);
    PyObject *what = PyUnicode_FromFormat("state %s", own->name);
    const char *text = what ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
    int rc = text ? py_array_view(self->state, array, use, own->shape.dtype, text, out) : -1;
    if (rc == 0 && !py_shape_equal(&own->shape, &out->shape))
        rc = py_shape_mismatch(self->state, text, &own->shape, &out->shape);
    Py_XDECREF(what);
    return rc;
}

PyDoc_STRVAR(write_doc, "write($self, /, name, array)\n--\n\n"
                        "Copies an array to the device; waits for a run in another thread.\n"
                        "\n"
                        "Parameters\n"
                        "----------\n"
                        "name : str\n"
                        "    One of `names()`.\n"
                        "array : numpy.ndarray\n"
                        "    C-contiguous, of the same shape and dtype as that array.\n"
                        "\n"
                        "Raises\n"
                        "------\n"
                        "ArgumentError\n"
                        "    There is no such name, or the array is not C-contiguous.\n"
                        "DtypeError, ShapeError\n"
                        "    The array has another dtype or shape.\n"
                        "DeviceError, StateError\n"
                        "    The driver reports an error; the state or its device is closed.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import numpy as np\n"
                        ">>> import clcnn\n"
                        ">>> with clcnn.State({\"w\": np.zeros(2, np.float32)}) as state:\n"
                        "...     state.write(\"w\", np.array([1, 2], np.float32))\n"
                        "...     state.read(\"w\").tolist()\n"
                        "[1.0, 2.0]");

static PyObject *states_write(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"name", "array", NULL};
    struct states_object *self = (struct states_object *)op;
    PyObject *name, *array;
    struct host_array host;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:write", keys, &name, &array))
        return NULL;
    const int at = find(self, name);
    if (at < 0 || view(self, at, array, ARRAY_READ, &host) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    const struct clcnn_patience patience = {.stop = py_stop};
    WITHOUT_GIL(status = clcnn_state_write(self->handle, at, host.data, &patience, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(read_doc,
             "read($self, /, name, out=None)\n--\n\n"
             "Copies an array to the host; waits for a run in another thread.\n"
             "\n"
             "Parameters\n"
             "----------\n"
             "name : str\n"
             "    One of `names()`.\n"
             "out : numpy.ndarray, optional\n"
             "    Where to: C-contiguous, writable, of the same shape and dtype. None for a new array.\n"
             "\n"
             "Returns\n"
             "-------\n"
             "numpy.ndarray\n"
             "    `out`, or the new array.\n"
             "\n"
             "Raises\n"
             "------\n"
             "ArgumentError\n"
             "    There is no such name, or `out` is read-only or not C-contiguous.\n"
             "DtypeError, ShapeError\n"
             "    `out` has another dtype or shape.\n"
             "DeviceError, StateError\n"
             "    The driver reports an error; the state or its device is closed.\n"
             "\n"
             "Examples\n"
             "--------\n"
             ">>> import numpy as np\n"
             ">>> import clcnn\n"
             ">>> with clcnn.State({\"w\": np.zeros(2, np.float32)}) as state:\n"
             "...     state.read(\"w\").tolist()\n"
             "[0.0, 0.0]");

static PyObject *states_read(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"name", "out", NULL};
    struct states_object *self = (struct states_object *)op;
    PyObject *name, *out = Py_None;
    struct host_array host;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:read", keys, &name, &out))
        return NULL;
    const int at = find(self, name);
    if (at < 0 || (out != Py_None && view(self, at, out, ARRAY_WRITE, &host) < 0))
        return NULL;
    PyObject *array =
        out != Py_None ? Py_NewRef(out) : py_array_new(&clcnn_state_get(self->handle, at)->shape, &host);
    if (!array)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    const struct clcnn_patience patience = {.stop = py_stop};
    WITHOUT_GIL(status = clcnn_state_read(self->handle, at, host.data, &patience, &err));
    if (status) {
        Py_DECREF(array);
        return py_error_raise(self->state, &err);
    }
    return array;
}

PyDoc_STRVAR(
    names_doc,
    "names($self, /)\n--\n\n"
    "Names of the arrays.\n"
    "\n"
    "Returns\n"
    "-------\n"
    "list of str\n"
    "    In the order in which they were given.\n"
    "\n"
    "Examples\n"
    "--------\n"
    ">>> import numpy as np\n"
    ">>> import clcnn\n"
    ">>> with clcnn.State({\"w\": np.zeros((3, 2), np.float32), \"b\": np.zeros(3, np.float32)}) as state:\n"
    "...     state.names()\n"
    "['w', 'b']");

static PyObject *states_names(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct states_object *self = (struct states_object *)op;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < clcnn_state_count(self->handle); i++) {
        PyObject *name = PyUnicode_FromString(clcnn_state_get(self->handle, i)->name);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

PyDoc_STRVAR(shape_doc, "shape($self, name, /)\n--\n\n"
                        "Shape of an array.\n"
                        "\n"
                        "Parameters\n"
                        "----------\n"
                        "name : str\n"
                        "    One of `names()`.\n"
                        "\n"
                        "Returns\n"
                        "-------\n"
                        "tuple of int\n"
                        "\n"
                        "Raises\n"
                        "------\n"
                        "ArgumentError\n"
                        "    There is no such name.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import numpy as np\n"
                        ">>> import clcnn\n"
                        ">>> with clcnn.State({\"w\": np.zeros((3, 2), np.float32)}) as state:\n"
                        "...     state.shape(\"w\")\n"
                        "(3, 2)");

static PyObject *states_shape(PyObject *op, PyObject *name)
{
    struct states_object *self = (struct states_object *)op;
    const int at = find(self, name);
    return at < 0 ? NULL : py_shape_tuple(&clcnn_state_get(self->handle, at)->shape);
}

PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\n"
                        "Gives the device memory back; waits for a run in another thread. Plans that were "
                        "compiled with it raise StateError\n"
                        "from then on. Closing twice is fine.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import numpy as np\n"
                        ">>> import clcnn\n"
                        ">>> state = clcnn.State({\"w\": np.zeros(2, np.float32)})\n"
                        ">>> state.close()\n"
                        ">>> state.closed\n"
                        "True");

static PyObject *states_close(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct states_object *self = (struct states_object *)op;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    const struct clcnn_patience patience = {.stop = py_stop};
    if (py_states_enter(self) < 0)
        return NULL;
    WITHOUT_GIL(status = clcnn_state_close(self->handle, &patience, &err));
    if (status)
        return py_error_raise(self->state, &err);
    atomic_store(&self->closed, true);
    Py_RETURN_NONE;
}

static PyObject *states_exit(PyObject *op, PyObject *Py_UNUSED(args))
{
    return states_close(op, NULL);
}

static PyObject *get_device(PyObject *op, void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)((struct states_object *)op)->device);
}

static PyObject *get_nbytes(PyObject *op, void *Py_UNUSED(closure))
{
    struct states_object *self = (struct states_object *)op;
    size_t bytes = 0;
    for (int i = 0; i < clcnn_state_count(self->handle); i++)
        bytes += py_shape_bytes(&clcnn_state_get(self->handle, i)->shape);
    return PyLong_FromSize_t(bytes);
}

static PyObject *get_closed(PyObject *op, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct states_object *)op)->closed));
}

PyDoc_STRVAR(
    states_doc,
    "State(device, arrays)\n--\n\n"
    "Named arrays in device memory that plans read and change. arrays: {name: C-contiguous array}.\n\n"
    "Raises DtypeError, ShapeError, ArgumentError, DeviceMemoryError, StateError.");

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef states_methods[] = {
    {"write", KEYWORDS(states_write), write_doc},
    {"read", KEYWORDS(states_read), read_doc},
    {"names", states_names, METH_NOARGS, names_doc},
    {"shape", states_shape, METH_O, shape_doc},
    {"close", states_close, METH_NOARGS, close_doc},
    {"__enter__", py_enter, METH_NOARGS, "__enter__($self, /)\n--\n\n"},
    {"__exit__", states_exit, METH_VARARGS, "__exit__($self, /, *args)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef states_getset[] = {
    {"device", get_device, NULL, "The device that holds the arrays.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of device memory.", NULL},
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot states_slots[] = {
    {Py_tp_doc, (void *)states_doc}, {Py_tp_new, states_new},       {Py_tp_dealloc, states_dealloc},
    {Py_tp_methods, states_methods}, {Py_tp_getset, states_getset}, {0, NULL},
};

PyType_Spec py_states_spec = {
    .name = "clcnn._core.State",
    .basicsize = sizeof(struct states_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = states_slots,
};
