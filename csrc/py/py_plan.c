/* py_plan.c: _core.Plan, part one: compiling, cloning and running. What a plan tells about itself is in
 * py_report.c. */
#include "py.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICE_MS 50.0 /* between looks at signals */

/* ---- compile ---- */

static int parse_precision(struct state *state, const char *name, enum clcnn_precision *out)
{
    static const struct {
        const char *name;
        enum clcnn_precision value;
    } words[] = {{"strict", CLCNN_PRECISION_STRICT},
                 {"highest", CLCNN_PRECISION_HIGHEST},
                 {"high", CLCNN_PRECISION_HIGH},
                 {"medium", CLCNN_PRECISION_MEDIUM}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].name, name) == 0) {
            *out = words[i].value;
            return 0;
        }
    }
    py_error_format(state, CLCNN_E_VALUE,
                    "precision: must be 'strict', 'highest', 'high' or 'medium', got '%s'", name);
    return -1;
}

/* A private copy of a dict of strings and its pairs as C strings that point into it. */
struct pairs {
    PyObject *copy;
    struct pair {
        const char *key, *value;
    } * row;
    int count;
};

static int pairs_parse(struct pairs *out, struct state *state, PyObject *dict, const char *what)
{
    out->copy = dict ? PyDict_Copy(dict) : PyDict_New();
    out->row = out->copy ? PyMem_Calloc((size_t)PyDict_Size(out->copy) + 1, sizeof *out->row) : NULL;
    if (!out->row) {
        if (out->copy)
            PyErr_NoMemory();
        return -1;
    }
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(out->copy, &at, &key, &value)) {
        if (!PyUnicode_Check(key) || !PyUnicode_Check(value)) {
            py_error_format(state, CLCNN_E_DTYPE, "%s of strings, got %R: %R", what, key, value);
            return -1;
        }
        struct pair *row = &out->row[out->count];
        row->key = PyUnicode_AsUTF8AndSize(key, NULL);
        row->value = PyUnicode_AsUTF8AndSize(value, NULL);
        if (!row->key || !row->value)
            return -1;
        out->count++;
    }
    return 0;
}

static void pairs_free(struct pairs *p)
{
    PyMem_Free(p->row);
    Py_XDECREF(p->copy);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

/* Rows of the options that point into the pairs; to be released with PyMem_Free(). */
static int options_from_pairs(struct clcnn_plan_options *options, const struct pairs *overrides,
                              const struct pairs *wisdom)
{
    struct clcnn_override *o = PyMem_Calloc((size_t)overrides->count + 1, sizeof *o);
    struct clcnn_choice *w = PyMem_Calloc((size_t)wisdom->count + 1, sizeof *w);
    options->overrides = o;
    options->wisdom = w;
    if (!o || !w) {
        PyErr_NoMemory();
        return -1;
    }
    qsort(wisdom->row, (size_t)wisdom->count, sizeof *wisdom->row, by_key);
    for (int i = 0; i < overrides->count; i++)
        o[i] = (struct clcnn_override){overrides->row[i].key, overrides->row[i].value};
    for (int i = 0; i < wisdom->count; i++)
        w[i] = (struct clcnn_choice){wisdom->row[i].key, wisdom->row[i].value};
    options->override_count = overrides->count;
    options->wisdom_count = wisdom->count;
    return 0;
}

/* Takes ownership of the handle, also on failure. */
static PyObject *wrap(PyTypeObject *type, struct state *state, struct device_object *device,
                      struct clcnn_plan *handle)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct plan_object *self = (struct plan_object *)alloc(type, 0);
    if (!self) {
        clcnn_plan_free(handle);
        return NULL;
    }
    self->state = state;
    self->device = (struct device_object *)Py_NewRef((PyObject *)device);
    self->handle = handle;
    atomic_init(&self->runner, 0);
    atomic_init(&self->told, false);
    atomic_init(&self->closed, false);
    return (PyObject *)self;
}

static PyObject *compile(PyTypeObject *type, struct state *state, struct device_object *device,
                         struct graph_object *graph, const struct clcnn_plan_options *options)
{
    struct clcnn_plan *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITH_GRAPH(graph, status = clcnn_plan_compile(&handle, device->handle, graph->handle, options, &err));
    return status ? py_error_raise(state, &err) : wrap(type, state, device, handle);
}

static int parse_chain(PyObject *given, enum clcnn_chain *out)
{
    const int on = given == Py_None ? 0 : PyObject_IsTrue(given);
    *out = given == Py_None ? CLCNN_CHAIN_AUTO : on > 0 ? CLCNN_CHAIN_ON : CLCNN_CHAIN_OFF;
    return on < 0 ? -1 : 0;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"device", "graph", "precision", "workspace_limit", "memory_limit", "overrides",
                           "wisdom", "fuse",  "chain",     "batch_part",      "guard",        NULL};
    struct state *state = py_state_of_type(type);
    PyObject *device, *graph, *workspace = NULL, *memory = NULL, *made = NULL;
    PyObject *given_overrides = NULL, *given_wisdom = NULL;
    struct pairs overrides = {0}, wisdom = {0};
    const char *precision = "highest";
    int fuse = 1, batch_part = 0, guard = 0;
    PyObject *chain = Py_None;
    if (!state || !PyArg_ParseTupleAndKeywords(
                      args, kwargs, "O!O!|$sOOO!O!pOip:Plan", keys, state->device_type, &device,
                      state->graph_type, &graph, &precision, &workspace, &memory, &PyDict_Type,
                      &given_overrides, &PyDict_Type, &given_wisdom, &fuse, &chain, &batch_part, &guard))
        return NULL;
    struct clcnn_plan_options options = {
        .workspace_limit = 64 << 20, .fuse = fuse, .batch_part = batch_part, .guard = guard};
    uint64_t limit = options.workspace_limit;
    if (parse_precision(state, precision, &options.precision) < 0 || parse_chain(chain, &options.chain) < 0 ||
        (workspace && py_bytes_parse(state, workspace, "workspace_limit", &limit) < 0) ||
        (memory && py_bytes_parse(state, memory, "memory_limit", &options.memory_limit) < 0))
        return NULL;
    options.workspace_limit = (size_t)limit;
    if (pairs_parse(&overrides, state, given_overrides, "overrides: expected {layer: algorithm}") == 0 &&
        pairs_parse(&wisdom, state, given_wisdom, "wisdom: expected {key: algorithm}") == 0 &&
        options_from_pairs(&options, &overrides, &wisdom) == 0)
        made = compile(type, state, (struct device_object *)device, (struct graph_object *)graph, &options);
    PyMem_Free((void *)options.overrides);
    PyMem_Free((void *)options.wisdom);
    pairs_free(&overrides);
    pairs_free(&wisdom);
    return made;
}

static void plan_dealloc(PyObject *op)
{
    struct plan_object *self = (struct plan_object *)op;
    WITHOUT_GIL(clcnn_plan_free(self->handle));
    Py_XDECREF(self->device);
    py_free(op);
}

/* A signal handler may call back into the plan that its own thread is running: that would wait for itself. */
static int enter(struct plan_object *self)
{
    if (atomic_load(&self->runner) != PyThread_get_thread_ident())
        return 0;
    py_error_format(self->state, CLCNN_E_STATE,
                    "this plan is in the middle of a run in this thread (was it called from a"
                    " signal handler?)");
    return -1;
}

PyDoc_STRVAR(clone_doc,
             "clone($self, /)\n--\n\n"
             "A plan for another thread: shares weights and programs, has its own activations and queue.");

static PyObject *plan_clone(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    struct clcnn_plan *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    if (enter(self) < 0)
        return NULL;
    WITHOUT_GIL(status = clcnn_plan_clone(&handle, self->handle, &err));
    return status ? py_error_raise(self->state, &err) : wrap(Py_TYPE(op), self->state, self->device, handle);
}

PyDoc_STRVAR(
    close_doc,
    "close($self, /)\n--\n\n"
    "Gives the plan's device memory back; waits for a run in another thread. Closing twice is fine.");

static PyObject *plan_close(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    if (enter(self) < 0)
        return NULL;
    WITHOUT_GIL(clcnn_plan_close(self->handle));
    atomic_store(&self->closed, true);
    Py_RETURN_NONE;
}

static PyObject *plan_exit(PyObject *op, PyObject *Py_UNUSED(args))
{
    return plan_close(op, NULL);
}

/* ---- run ---- */

static double py_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Begins a run, which is this thread's then, and its first slice. Without the GIL. */
static enum clcnn_status first_slice(struct plan_object *self, const struct py_ends *ends, double deadline_ms,
                                     double *start_ms, struct clcnn_err *err)
{
    const enum clcnn_status st = clcnn_plan_begin(self->handle, ends->in, ends->out, deadline_ms <= 0, err);
    if (st)
        return st;
    atomic_store(&self->runner, PyThread_get_thread_ident());
    *start_ms = py_now_ms();
    return clcnn_plan_advance(self->handle, SLICE_MS, deadline_ms, err);
}

/* Runs in slices; between them Python's signal handlers get their turn. -1 with an exception set by one of
 * them. */
static int run_slices(struct plan_object *self, const struct py_ends *ends, double deadline_ms,
                      enum clcnn_status *status, struct clcnn_err *err)
{
    int rc = 0;
    double start = 0;
    WITHOUT_GIL(*status = first_slice(self, ends, deadline_ms, &start, err));
    while (*status == CLCNN_PENDING && (rc = PyErr_CheckSignals()) == 0) {
        const double passed = py_now_ms() - start;
        const double left = deadline_ms > passed ? deadline_ms - passed : 1e-3; /* 0 would mean no deadline */
        WITHOUT_GIL(*status = clcnn_plan_advance(self->handle, SLICE_MS, deadline_ms > 0 ? left : 0, err));
    }
    if (rc < 0)
        WITHOUT_GIL(clcnn_plan_cancel(self->handle));
    if (start > 0) /* it began */
        atomic_store(&self->runner, 0);
    return rc;
}

static int parse_timeout(struct plan_object *self, PyObject *timeout, double *deadline_ms)
{
    *deadline_ms = 0;
    if (timeout == Py_None)
        return 0;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred())
        return -1;
    if (!(seconds > 0)) {
        py_error_format(self->state, CLCNN_E_VALUE,
                        "timeout: must be a positive number of seconds or None, got %R", timeout);
        return -1;
    }
    *deadline_ms = seconds * 1e3;
    return 0;
}

/* Says once that the device did not run work-groups together that it has room for. */
static int tell_of_chains(struct plan_object *self)
{
    if (!clcnn_plan_left_chains(self->handle) || atomic_exchange(&self->told, true))
        return 0;
    return PyErr_WarnEx(
        PyExc_RuntimeWarning,
        "work-groups of one kernel waited for each other in vain: this plan launches every step "
        "by itself from now on, which is slower (chain=False does so from the beginning)",
        1);
}

PyDoc_STRVAR(run_doc, "run($self, /, inputs, outputs=None, timeout=None)\n--\n\n"
                      "One inference. inputs: a NumPy array or Tensor for each of `inputs`; outputs: for "
                      "each of `outputs` None (a new\n"
                      "array), an array or a Tensor. Returns the list of outputs. timeout: seconds.\n\n"
                      "Raises ShapeError, DtypeError, ArgumentError, DeviceError, StateError, "
                      "RunTimeoutError, and what a signal handler\n"
                      "raises (KeyboardInterrupt); after that the plan can be used again.");

static PyObject *plan_run(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"inputs", "outputs", "timeout", NULL};
    struct plan_object *self = (struct plan_object *)op;
    PyObject *inputs, *outputs = Py_None, *timeout = Py_None, *result = NULL;
    struct py_ends ends = {0};
    double deadline_ms;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:run", keys, &inputs, &outputs, &timeout))
        return NULL;
    if (parse_timeout(self, timeout, &deadline_ms) < 0 || enter(self) < 0)
        return NULL;
    if (py_ends_parse(self, inputs, outputs, &ends) == 0) {
        struct clcnn_err err = {0};
        enum clcnn_status status = CLCNN_OK;
        if (run_slices(self, &ends, deadline_ms, &status, &err) < 0)
            clcnn_err_clear(&err);
        else if (status != CLCNN_OK)
            py_error_raise(self->state, &err);
        else if (tell_of_chains(self) == 0)
            result = Py_NewRef(ends.outputs);
    }
    py_ends_free(&ends);
    return result;
}

PyDoc_STRVAR(
    profile_doc,
    "profile($self, /, inputs)\n--\n\n"
    "One run with device events: (outputs, [(start_ns, end_ns)] for each of steps(), from the first start).");

static PyObject *profile_times(const uint64_t *ns, int steps)
{
    PyObject *times = PyList_New(0);
    for (int i = 0; times && i < steps; i++) {
        PyObject *row = Py_BuildValue("(KK)", (unsigned long long)ns[i], (unsigned long long)ns[steps + i]);
        if (!row || PyList_Append(times, row) < 0)
            Py_CLEAR(times);
        Py_XDECREF(row);
    }
    return times;
}

static PyObject *plan_profile(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"inputs", NULL};
    struct plan_object *self = (struct plan_object *)op;
    PyObject *inputs, *result = NULL;
    struct py_ends ends = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:profile", keys, &inputs) || enter(self) < 0)
        return NULL;
    struct clcnn_plan_stats stats;
    WITHOUT_GIL(clcnn_plan_get_stats(self->handle, &stats));
    uint64_t *ns = PyMem_Calloc(2 * (size_t)stats.step_count + 1, sizeof *ns);
    if (!ns)
        PyErr_NoMemory();
    if (ns && py_ends_parse(self, inputs, Py_None, &ends) == 0) {
        struct clcnn_err err = {0};
        enum clcnn_status status;
        WITHOUT_GIL(status =
                        clcnn_plan_profile(self->handle, ends.in, ends.out, ns, ns + stats.step_count, &err));
        if (status) {
            py_error_raise(self->state, &err);
        } else {
            PyObject *times = profile_times(ns, stats.step_count);
            result = times ? Py_BuildValue("(OO)", ends.outputs, times) : NULL;
            Py_XDECREF(times);
        }
    }
    PyMem_Free(ns);
    py_ends_free(&ends);
    return result;
}

PyDoc_STRVAR(
    check_guards_doc,
    "check_guards($self, /)\n--\n\n"
    "For plans compiled with guard=True: raises SystemError naming the buffer that a kernel overran.");

static PyObject *plan_check_guards(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    if (enter(self) < 0)
        return NULL;
    WITHOUT_GIL(status = clcnn_plan_check_guards(self->handle, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

static PyObject *get_device(PyObject *op, void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)((struct plan_object *)op)->device);
}

static PyObject *get_closed(PyObject *op, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct plan_object *)op)->closed));
}

PyDoc_STRVAR(
    plan_doc,
    "Plan(device, graph, *, precision=\"highest\", workspace_limit=67108864, memory_limit=0, overrides={}, "
    "wisdom={}, "
    "fuse=True, chain=None, batch_part=0,"
    " guard=False)\n--\n\n"
    "A graph compiled for a device, independent of the graph from then on. overrides: {layer: algorithm}.\n\n"
    "Raises ArgumentError, ShapeError, UnsupportedError, BuildError, DeviceMemoryError, DeviceError, "
    "StateError.");

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef plan_methods[] = {
    {"run", KEYWORDS(plan_run), run_doc},
    {"profile", KEYWORDS(plan_profile), profile_doc},
    {"clone", plan_clone, METH_NOARGS, clone_doc},
    {"close", plan_close, METH_NOARGS, close_doc},
    {"check_guards", plan_check_guards, METH_NOARGS, check_guards_doc},
    {"steps", py_plan_steps, METH_NOARGS, py_plan_steps_doc},
    {"layers", py_plan_layers, METH_NOARGS, py_plan_layers_doc},
    {"rewrites", py_plan_rewrites, METH_NOARGS, py_plan_rewrites_doc},
    {"stats", py_plan_stats, METH_NOARGS, py_plan_stats_doc},
    {"__enter__", py_enter, METH_NOARGS, "__enter__($self, /)\n--\n\n"},
    {"__exit__", plan_exit, METH_VARARGS, "__exit__($self, /, *args)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef plan_getset[] = {
    {"inputs", py_plan_inputs, NULL, "Inputs, a list of (name, shape).", NULL},
    {"outputs", py_plan_outputs, NULL, "Outputs, a list of (name, shape).", NULL},
    {"input_dtypes", py_plan_input_dtypes, NULL, "Types of the inputs, a list of (name, dtype).", NULL},
    {"output_dtypes", py_plan_output_dtypes, NULL, "Types of the outputs, a list of (name, dtype).", NULL},
    {"device", get_device, NULL, "The device that the plan was compiled for.", NULL},
    {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, (void *)plan_doc}, {Py_tp_new, plan_new},       {Py_tp_dealloc, plan_dealloc},
    {Py_tp_methods, plan_methods}, {Py_tp_getset, plan_getset}, {0, NULL},
};

PyType_Spec py_plan_spec = {
    .name = "clcnn._core.Plan",
    .basicsize = sizeof(struct plan_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = plan_slots,
};
