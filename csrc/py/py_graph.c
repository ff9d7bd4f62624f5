/* py_graph.c: _core.Graph. Values are the core's small integers; clcnn.Graph dresses them. */
#include "py.h"

#include <unistd.h>

#define SLICE_US 50000        /* of waiting for a graph, between looks at signals */
#define MAX_NODE_OUTPUTS 1024 /* of `split` */

static int refuse_lock(struct graph_object *graph, const char *why)
{
    py_error_format(graph->state, CLCNN_E_STATE, "%s", why);
    return -1;
}

/* One slice. In a forked child the lock is taken over by its first user there, if it was free at the fork. */
static bool try_lock(struct graph_object *graph, PY_TIMEOUT_T us)
{
    PyLockStatus got;
    if (us == 0)
        got = PyThread_acquire_lock_timed(graph->lock, 0, 0);
    else
        WITHOUT_GIL(got = PyThread_acquire_lock_timed(graph->lock, us, 0));
    if (got != PY_LOCK_ACQUIRED)
        return false;
    atomic_store(&graph->pid, (long)getpid());
    atomic_store(&graph->holder, PyThread_get_thread_ident());
    return true;
}

int py_graph_lock(struct graph_object *graph)
{
    PY_TIMEOUT_T us = 0;
    while (!try_lock(graph, us)) {
        if (atomic_load(&graph->holder) == PyThread_get_thread_ident())
            return refuse_lock(
                graph, "this graph is in use by this very thread (was it called from a signal handler?)");
        if (us > 0 && atomic_load(&graph->pid) != (long)getpid())
            return refuse_lock(
                graph, "another thread was using this graph when the process was forked: make it anew in the"
                       " child");
        if (PyErr_CheckSignals() < 0)
            return -1;
        us = SLICE_US;
    }
    return 0;
}

void py_graph_unlock(struct graph_object *graph)
{
    atomic_store(&graph->holder, 0);
    PyThread_release_lock(graph->lock);
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {NULL};
    struct state *state = py_state_of_type(type);
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, ":Graph", keys))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct graph_object *self = (struct graph_object *)alloc(type, 0);
    if (!self)
        return NULL;
    struct clcnn_err err = {0};
    self->state = state;
    self->kept = PyList_New(0);
    self->lock = PyThread_allocate_lock();
    atomic_init(&self->pid, (long)getpid());
    atomic_init(&self->holder, 0);
    if (!self->lock)
        PyErr_NoMemory();
    if (self->kept && self->lock && clcnn_graph_create(&self->handle, &err))
        py_error_raise(state, &err);
    if (!self->handle)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int graph_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((struct graph_object *)op)->kept);
    return 0;
}

/* The arrays must outlive the core's graph, so a cycle is broken by ending that first. */
static int graph_clear(PyObject *op)
{
    struct graph_object *self = (struct graph_object *)op;
    clcnn_graph_free(self->handle);
    self->handle = NULL;
    Py_CLEAR(self->kept);
    return 0;
}

static void graph_dealloc(PyObject *op)
{
    struct graph_object *self = (struct graph_object *)op;
    PyObject_GC_UnTrack(op);
    graph_clear(op);
    if (self->lock)
        PyThread_free_lock(self->lock);
    py_free(op);
}

/* ---- building ---- */

PyDoc_STRVAR(input_doc, "input($self, /, name, shape, dtype=\"float32\")\n--\n\n"
                        "Adds an input and returns its value. Names are unique among inputs and constants. "
                        "dtype: float32, int64, int32, bool or uint8.");

typedef enum clcnn_status add_leaf(struct clcnn_graph *graph, const char *name,
                                   const struct clcnn_shape *shape, int *value, struct clcnn_err *err);

/* An input or a state, as `word` says. */
static PyObject *graph_leaf(struct graph_object *self, PyObject *args, PyObject *kwargs, const char *word,
                            add_leaf *add)
{
    static char *keys[] = {"name", "shape", "dtype", NULL};
    const char *name;
    PyObject *name_object, *shape_object, *dtype = NULL;
    struct clcnn_shape shape;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O", keys, &name_object, &shape_object, &dtype) ||
        py_text_parse(self->state, name_object, word, &name) < 0)
        return NULL;
    PyObject *what = PyUnicode_FromFormat("%s %s", word, name);
    const char *what_text = what ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
    int rc = what_text ? py_shape_parse(self->state, shape_object, what_text, &shape) : -1;
    if (rc == 0 && dtype)
        rc = py_dtype_parse(self->state, dtype, what_text, &shape.dtype);
    Py_XDECREF(what);
    if (rc < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    int value = -1;
    WITH_GRAPH(self, status = add(self->handle, name, &shape, &value, &err));
    return status ? py_error_raise(self->state, &err) : PyLong_FromLong(value);
}

static PyObject *graph_input(PyObject *op, PyObject *args, PyObject *kwargs)
{
    return graph_leaf((struct graph_object *)op, args, kwargs, "input", clcnn_graph_input);
}

static PyObject *graph_state(PyObject *op, PyObject *args, PyObject *kwargs)
{
    return graph_leaf((struct graph_object *)op, args, kwargs, "state", clcnn_graph_state);
}

PyDoc_STRVAR(
    constant_doc,
    "constant($self, /, name, array)\n--\n\n"
    "Adds a constant and returns its value. The array (C-contiguous float32, int64, int32, bool or uint8) "
    "is kept, not copied: it must\n"
    "not change as long as the graph lives. Raises DtypeError, ShapeError, ArgumentError.");

static PyObject *graph_constant(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"name", "array", NULL};
    struct graph_object *self = (struct graph_object *)op;
    const char *name;
    PyObject *name_object, *array;
    struct host_array host;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:constant", keys, &name_object, &array) ||
        py_text_parse(self->state, name_object, "constant: name", &name) < 0)
        return NULL;
    PyObject *what = PyUnicode_FromFormat("constant %s", name);
    const char *what_text = what ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
    int rc = what_text ? py_array_view(self->state, array, ARRAY_READ, ANY_DTYPE, what_text, &host) : -1;
    Py_XDECREF(what);
    if (rc < 0 || PyList_Append(self->kept, array) < 0) /* first: another thread may compile at once */
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    int value = -1;
    WITH_GRAPH(self, status = clcnn_graph_constant(self->handle, name, &host.shape, host.data, &value, &err));
    return status ? py_error_raise(self->state, &err) : PyLong_FromLong(value);
}

PyDoc_STRVAR(state_doc, "state($self, /, name, shape, dtype=\"float32\")\n--\n\n"
                        "Adds a state, which a plan finds under this name in the State that it is compiled "
                        "with, and returns its value.");
PyDoc_STRVAR(assign_doc, "assign($self, /, state, value)\n--\n\n"
                         "A run that commits leaves this value in the state.");
PyDoc_STRVAR(commit_when_doc, "commit_when($self, /, value)\n--\n\n"
                              "One bool: a run that finds it false commits nothing.");

static PyObject *graph_assign(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"state", "value", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int to, from;
    PyObject *given_to, *given_from;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:assign", keys, &given_to, &given_from) ||
        py_int_parse(self->state, given_to, "assign: state", 0, &to) < 0 ||
        py_int_parse(self->state, given_from, "assign: value", 0, &from) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_assign(self->handle, to, from, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

static PyObject *graph_commit_when(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"value", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int value;
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:commit_when", keys, &given) ||
        py_int_parse(self->state, given, "commit_when: value", 0, &value) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_commit_when(self->handle, value, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(donate_doc, "donate($self, /, value)\n--\n\n"
                         "Of a constant: the next compile may overwrite its array, instead of copying it. "
                         "The array must be\n"
                         "in no other use. Raises ArgumentError.");

static PyObject *graph_donate(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"value", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int value;
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:donate", keys, &given) ||
        py_int_parse(self->state, given, "donate: value", 0, &value) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_donate(self->handle, value, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

/* A sequence of int or None as value ids, -1 for None; PyMem_Free it. NULL with an exception. */
static int *parse_values(struct state *state, const char *op, const char *name, PyObject *sequence,
                         int *count)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (!items)
        return NULL;
    Py_ssize_t n = PyTuple_Size(items);
    int *values = n < INT32_MAX ? PyMem_Calloc((size_t)n + 1, sizeof *values) : NULL;
    if (!values)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        long value = item == Py_None ? -1 : PyLong_Check(item) ? PyLong_AsLong(item) : -2;
        bool valid = item == Py_None || (value >= 0 && value <= INT32_MAX);
        values[i] = (int)value;
        if (valid)
            continue;
        PyErr_Clear();
        py_error_format(state, CLCNN_E_VALUE,
                        "%s %s: input %zd must be a value of this graph or None, got %R", op, name, i, item);
        PyMem_Free(values);
        values = NULL;
    }
    *count = (int)n;
    Py_DECREF(items);
    return values;
}

static PyObject *tuple_of_ints(const int *values, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *value = PyLong_FromLong(values[i]);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyDoc_STRVAR(node_doc, "node($self, /, op, name, inputs, attrs)\n--\n\n"
                       "Adds a node and returns the tuple of its outputs. inputs: values, None for an "
                       "optional one that is absent.\n"
                       "The operator's shape rule runs at once. Raises ArgumentError, ShapeError, DtypeError "
                       "with the node's name.");

static PyObject *graph_node(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"op", "name", "inputs", "attrs", NULL};
    struct graph_object *self = (struct graph_object *)op;
    const char *op_name, *name;
    PyObject *op_object, *name_object, *inputs, *dict, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!:node", keys, &op_object, &name_object, &inputs,
                                     &PyDict_Type, &dict) ||
        py_text_parse(self->state, op_object, "node: operator", &op_name) < 0 ||
        py_text_parse(self->state, name_object, "node: name", &name) < 0)
        return NULL;
    int input_count = 0, count = 0, outputs[MAX_NODE_OUTPUTS];
    int *values = parse_values(self->state, op_name, name, inputs, &input_count);
    struct attr_list attrs = {0};
    if (values && py_attrs_parse(self->state, op_name, name, dict, &attrs) == 0) {
        struct clcnn_err err = {0};
        enum clcnn_status status;
        WITH_GRAPH(self,
                   status = clcnn_graph_node(self->handle, op_name, name, values, input_count, attrs.attr,
                                             attrs.count, outputs, MAX_NODE_OUTPUTS, &count, &err));
        result = status ? py_error_raise(self->state, &err) : tuple_of_ints(outputs, count);
    }
    py_attrs_free(&attrs);
    PyMem_Free(values);
    return result;
}

/* Value ids of gradients, None where the core says -1. */
static PyObject *tuple_of_gradients(const int *values, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *value = values[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(values[i]);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyDoc_STRVAR(
    gradients_doc,
    "gradients($self, /, loss, wrt)\n--\n\n"
    "Appends nodes that compute the gradients of a value of one element with respect to others. "
    "Returns a tuple of\n"
    "values, None where the loss does not depend on one, and the number of values that there are now. "
    "Raises\n"
    "ArgumentError, ShapeError, DtypeError, UnsupportedError with the operator that has no gradient.");

static PyObject *graph_gradients(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"loss", "wrt", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int loss, count = 0, total = 0;
    PyObject *given, *sequence, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:gradients", keys, &given, &sequence) ||
        py_int_parse(self->state, given, "gradients: loss", 0, &loss) < 0)
        return NULL;
    int *wrt = parse_values(self->state, "gradients", "wrt", sequence, &count);
    int *grads = wrt ? PyMem_Calloc((size_t)count + 1, sizeof *grads) : NULL;
    if (wrt && !grads)
        PyErr_NoMemory();
    if (grads) {
        struct clcnn_err err = {0};
        enum clcnn_status status;
        WITH_GRAPH(self, status = clcnn_graph_gradients(self->handle, loss, wrt, count, grads, &err);
                   total = clcnn_graph_value_count(self->handle));
        PyObject *tuple = status ? py_error_raise(self->state, &err) : tuple_of_gradients(grads, count);
        result = tuple ? Py_BuildValue("(Ni)", tuple, total) : NULL;
    }
    PyMem_Free(wrt);
    PyMem_Free(grads);
    return result;
}

PyDoc_STRVAR(output_doc,
             "output($self, /, value, name)\n--\n\nMakes a value an output of the graph, under this name.");

static PyObject *graph_output(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"value", "name", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int value;
    const char *name;
    PyObject *given, *name_object;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:output", keys, &given, &name_object) ||
        py_int_parse(self->state, given, "output: value", 0, &value) < 0 ||
        py_text_parse(self->state, name_object, "output: name", &name) < 0)
        return NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_output(self->handle, value, name, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

/* ---- looking ---- */

PyDoc_STRVAR(shape_doc, "shape($self, /, value)\n--\n\nShape of a value, a tuple of int.");

static PyObject *graph_shape(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"value", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int value;
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:shape", keys, &given) ||
        py_int_parse(self->state, given, "shape: value", 0, &value) < 0)
        return NULL;
    struct clcnn_shape shape;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_value_shape(self->handle, value, &shape, &err));
    return status ? py_error_raise(self->state, &err) : py_shape_tuple(&shape);
}

PyDoc_STRVAR(dtype_doc, "dtype($self, /, value)\n--\n\nType of a value's elements, such as \"float32\".");

static PyObject *graph_dtype(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"value", NULL};
    struct graph_object *self = (struct graph_object *)op;
    int value;
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:dtype", keys, &given) ||
        py_int_parse(self->state, given, "dtype: value", 0, &value) < 0)
        return NULL;
    struct clcnn_shape shape;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_value_shape(self->handle, value, &shape, &err));
    return status ? py_error_raise(self->state, &err) : PyUnicode_FromString(clcnn_dtype_name(shape.dtype));
}

/* The core only appends nodes, so what a node_info points to stays as long as the graph; no lock is held
 * while Python objects are made, which may run finalizers. */
static PyObject *node_row(struct graph_object *self, int i)
{
    struct clcnn_node_info info = {0};
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(self, status = clcnn_graph_node_info(self->handle, i, &info, &err));
    if (status)
        return py_error_raise(self->state, &err);
    PyObject *inputs = tuple_of_ints(info.inputs, info.input_count);
    PyObject *outputs = tuple_of_ints(info.outputs, info.output_count);
    PyObject *row = inputs && outputs
                        ? Py_BuildValue("{s:s, s:s, s:O, s:O, s:d}", "name", info.name, "op", info.op,
                                        "inputs", inputs, "outputs", outputs, "macs", info.macs)
                        : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    return row;
}

PyDoc_STRVAR(
    nodes_doc,
    "nodes($self, /)\n--\n\n"
    "Nodes in order, as dicts with name, op, inputs (-1 where absent), outputs, macs (multiply-adds).");

static PyObject *graph_nodes(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct graph_object *self = (struct graph_object *)op;
    int count;
    WITH_GRAPH(self, count = clcnn_graph_node_count(self->handle));
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        PyObject *row = node_row(self, i);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyDoc_STRVAR(graph_doc,
             "Graph()\n--\n\n"
             "A network as values and nodes, with shapes inferred as it is built. Needs no device.");

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef graph_methods[] = {
    {"input", KEYWORDS(graph_input), input_doc},
    {"constant", KEYWORDS(graph_constant), constant_doc},
    {"state", KEYWORDS(graph_state), state_doc},
    {"assign", KEYWORDS(graph_assign), assign_doc},
    {"commit_when", KEYWORDS(graph_commit_when), commit_when_doc},
    {"donate", KEYWORDS(graph_donate), donate_doc},
    {"node", KEYWORDS(graph_node), node_doc},
    {"gradients", KEYWORDS(graph_gradients), gradients_doc},
    {"output", KEYWORDS(graph_output), output_doc},
    {"shape", KEYWORDS(graph_shape), shape_doc},
    {"dtype", KEYWORDS(graph_dtype), dtype_doc},
    {"nodes", graph_nodes, METH_NOARGS, nodes_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_doc, (void *)graph_doc},
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_traverse, graph_traverse},
    {Py_tp_clear, graph_clear},
    {Py_tp_methods, graph_methods},
    {0, NULL},
};

PyType_Spec py_graph_spec = {
    .name = "clcnn._core.Graph",
    .basicsize = sizeof(struct graph_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = graph_slots,
};
