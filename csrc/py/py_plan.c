/* py_plan.c: _core.Plan, part one: compiling, cloning and closing. Running is in py_run.c, what a plan tells about itself in
 * py_report.c. */
#include "py.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---- compile ---- */

static int parse_precision(struct state *state, PyObject *object, enum clcnn_precision *out)
{
    static const struct {
        const char *name;
        enum clcnn_precision value;
    } words[] = {{"strict", CLCNN_PRECISION_STRICT},
                 {"highest", CLCNN_PRECISION_HIGHEST},
                 {"high", CLCNN_PRECISION_HIGH},
                 {"medium", CLCNN_PRECISION_MEDIUM}};
    const char *name;
    if (py_text_parse(state, object, "precision", &name) < 0)
        return -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].name, name) == 0) {
            *out = words[i].value;
            return 0;
        }
    }
    py_error_format(state, CLCNN_E_VALUE,
                    "precision: must be 'strict', 'highest', 'high' or 'medium', got %.200R", object);
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
        if (py_text_parse(state, key, what, &row->key) < 0 ||
            py_text_parse(state, value, what, &row->value) < 0)
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
                      struct states_object *kept, struct clcnn_plan *handle)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct plan_object *self = (struct plan_object *)alloc(type, 0);
    if (!self) {
        clcnn_plan_free(handle);
        return NULL;
    }
    self->state = state;
    self->device = (struct device_object *)Py_NewRef((PyObject *)device);
    self->kept = (struct states_object *)Py_XNewRef((PyObject *)kept);
    self->handle = handle;
    atomic_init(&self->runner, 0);
    atomic_init(&self->stopped, false);
    atomic_init(&self->told, false);
    atomic_init(&self->closed, false);
    return (PyObject *)self;
}

struct watched { /* a compile: the object that watches it, or NULL, and its device */
    PyObject *watch, *device;
};

/* Calls the object `watch` of a compile: with nothing, to ask whether to go on; with what is done, to tell. What it raises ends the
 * compile. */
static bool watch_stop(void *with)
{
    const struct watched *w = with;
    PyObject *result = NULL;
    bool raised = py_stop(NULL);
    if (raised || w->watch == NULL)
        return raised;
    PyGILState_STATE gil = PyGILState_Ensure();
    raised = PyErr_Occurred() || !(result = PyObject_CallNoArgs(w->watch));
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return raised;
}

static void watch_tell(void *with, const char *what, int done, int wanted)
{
    const struct watched *w = with;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (!PyErr_Occurred())
        Py_XDECREF(PyObject_CallFunction(w->watch, "sii", what, done, wanted));
    PyGILState_Release(gil);
}

/* The method `build` of `watch`, with (file, text) of each program. */
static void watch_build(void *with, const char *cache_dir, int most, const struct clcnn_source *sources,
                        int count)
{
    const struct watched *w = with;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    for (int i = 0; i < count && list; i++) {
        PyObject *row = Py_BuildValue("ss", sources[i].file, sources[i].text);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (list)
        Py_XDECREF(PyObject_CallMethod(w->watch, "build", "OsiO", w->device, cache_dir, most, list));
    Py_XDECREF(list);
    PyGILState_Release(gil);
}

static PyObject *compile(PyTypeObject *type, struct state *state, struct device_object *device,
                         struct graph_object *graph, struct states_object *kept, PyObject *watch,
                         struct clcnn_plan_options *options)
{
    struct clcnn_plan *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    struct watched watched = {watch, (PyObject *)device};
    const bool builds = watch && PyObject_HasAttrString(watch, "build");
    const struct clcnn_patience patience = {.stop = watch_stop,
                                            .with = &watched,
                                            .tell = watch ? watch_tell : NULL,
                                            .build = builds ? watch_build : NULL,
                                            .loads_only =
                                                watch && PyObject_HasAttrString(watch, "loads_only")};
    if (kept && py_states_enter(kept) < 0)
        return NULL;
    options->state = kept ? kept->handle : NULL;
    WITH_GRAPH(graph,
               status = clcnn_plan_compile(&handle, device->handle, graph->handle, options, &patience, &err));
    if (!status && PyErr_Occurred()) { /* told too late to end it */
        clcnn_plan_free(handle);
        return NULL;
    }
    return status ? py_error_raise(state, &err) : wrap(type, state, device, kept, handle);
}

static int parse_chain(struct state *state, PyObject *given, enum clcnn_chain *out)
{
    bool on = false;
    if (given != Py_None && py_flag_parse(state, given, "chain", &on) < 0)
        return -1;
    *out = given == Py_None ? CLCNN_CHAIN_AUTO : on ? CLCNN_CHAIN_ON : CLCNN_CHAIN_OFF;
    return 0;
}

static double *factor_named(struct clcnn_profile *profile, PyObject *name)
{
    for (int i = 0; PyUnicode_Check(name) && i < clcnn_profile_count(); i++)
        if (PyUnicode_CompareWithASCIIString(name, clcnn_profile_get(i)->name) == 0)
            return &profile->factor[i];
    return NULL;
}

/* {name of a row of clcnn_profile_get(): factor} */
static int profile_parse(struct state *state, PyObject *dict, struct clcnn_profile *out)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (dict && PyDict_Next(dict, &at, &name, &value)) {
        double *factor = factor_named(out, name);
        if (!factor || !(PyFloat_Check(value) || PyLong_Check(value))) {
            py_error_format(state, factor ? CLCNN_E_DTYPE : CLCNN_E_VALUE,
                            factor ? "profile: %.200R must be a number, got %.200R"
                                   : "profile: there is no %.200R (of clcnn._core.profile_rows())",
                            name, value);
            return -1;
        }
        *factor = PyFloat_AsDouble(value);
        if (PyErr_Occurred())
            return -1;
        if (!(*factor > 0.0 && *factor <= DBL_MAX)) {
            py_error_format(state, CLCNN_E_VALUE, "profile: %.200R must be above 0, got %.200R", name, value);
            return -1;
        }
    }
    return 0;
}

/* {layer: (element, channel, block, window, tile)} */
struct layer_zeros {
    PyObject *copy; /* of the dict: owns the names */
    struct clcnn_layer_zeros *row;
    int count;
};

static int zeros_parse(struct layer_zeros *out, struct state *state, PyObject *dict)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    out->copy = dict ? PyDict_Copy(dict) : PyDict_New();
    out->row = out->copy ? PyMem_Calloc((size_t)PyDict_Size(out->copy) + 1, sizeof *out->row) : NULL;
    if (!out->row) {
        if (out->copy)
            PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(out->copy, &at, &name, &value)) {
        struct clcnn_layer_zeros *l = &out->row[out->count];
        struct clcnn_zeros *z = &l->zeros;
        if (py_text_parse(state, name, "zeros: layer", &l->layer) < 0)
            return -1;
        if (!PyTuple_Check(value) ||
            !PyArg_ParseTuple(value, "fffff", &z->element, &z->channel, &z->block, &z->window, &z->tile)) {
            PyErr_Clear();
            py_error_format(state, CLCNN_E_DTYPE, "zeros: layer %.200R: expected five numbers, got %.200R",
                            name, value);
            return -1;
        }
        z->known = true;
        out->count++;
    }
    return 0;
}

static void zeros_free(struct layer_zeros *z)
{
    PyMem_Free(z->row);
    Py_XDECREF(z->copy);
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"device",    "graph",      "precision", "workspace_limit", "memory_limit",
                           "overrides", "wisdom",     "profile",   "zeros",           "fuse",
                           "chain",     "batch_part", "skip",      "guard",           "state",
                           "watch",     "like",       "quick",     "fresh_filters",   NULL};
    struct state *state = py_state_of_type(type);
    PyObject *device, *graph, *workspace = NULL, *memory = NULL, *made = NULL;
    PyObject *given_overrides = NULL, *given_wisdom = NULL, *given_profile = NULL, *given_zeros = NULL;
    struct pairs overrides = {0}, wisdom = {0};
    struct layer_zeros zeros = {0};
    PyObject *precision = NULL, *fuse = NULL, *chain = Py_None, *batch_part = NULL, *skip = NULL,
             *guard = NULL, *kept = Py_None, *watch = Py_None, *like = Py_None, *quick = NULL, *fresh = NULL;
    if (!state ||
        !PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!O!|$OOOO!O!O!O!OOOOOOOOOO:Plan", keys, state->device_type, &device,
            state->graph_type, &graph, &precision, &workspace, &memory, &PyDict_Type, &given_overrides,
            &PyDict_Type, &given_wisdom, &PyDict_Type, &given_profile, &PyDict_Type, &given_zeros, &fuse,
            &chain, &batch_part, &skip, &guard, &kept, &watch, &like, &quick, &fresh))
        return NULL;
    if (kept != Py_None && !PyObject_TypeCheck(kept, state->states_type))
        return py_error_format(state, CLCNN_E_DTYPE, "state: expected a clcnn.State or None, got %.200R",
                               kept);
    if (like != Py_None && !PyObject_TypeCheck(like, type))
        return py_error_format(state, CLCNN_E_DTYPE, "like: expected a plan or None, got %.200R", like);
    struct clcnn_plan_options options = {
        .precision = CLCNN_PRECISION_HIGHEST, .workspace_limit = 64 << 20, .skip = true, .fuse = true};
    uint64_t limit = options.workspace_limit;
    struct clcnn_profile profile = {0};
    options.profile = &profile;
    if (profile_parse(state, given_profile, &profile) < 0 ||
        (precision && parse_precision(state, precision, &options.precision) < 0) ||
        parse_chain(state, chain, &options.chain) < 0 ||
        (fuse && py_flag_parse(state, fuse, "fuse", &options.fuse) < 0) ||
        (skip && py_flag_parse(state, skip, "skip", &options.skip) < 0) ||
        (guard && py_flag_parse(state, guard, "guard", &options.guard) < 0) ||
        (quick && py_flag_parse(state, quick, "quick", &options.quick) < 0) ||
        (batch_part && py_int_parse(state, batch_part, "batch_part", 0, &options.batch_part) < 0) ||
        (fresh && py_flag_parse(state, fresh, "fresh_filters", &options.frugal.fresh_filters) < 0) ||
        (workspace && py_bytes_parse(state, workspace, "workspace_limit", &limit) < 0) ||
        (memory && py_bytes_parse(state, memory, "memory_limit", &options.memory_limit) < 0))
        return NULL;
    options.workspace_limit = (size_t)limit;
    if (pairs_parse(&overrides, state, given_overrides, "overrides: expected {layer: algorithm}") == 0 &&
        pairs_parse(&wisdom, state, given_wisdom, "wisdom: expected {key: algorithm}") == 0 &&
        options_from_pairs(&options, &overrides, &wisdom) == 0 &&
        zeros_parse(&zeros, state, given_zeros) == 0) {
        options.zeros = zeros.row;
        options.zeros_count = zeros.count;
        options.like = like == Py_None ? NULL : ((struct plan_object *)like)->handle;
        made = compile(type, state, (struct device_object *)device, (struct graph_object *)graph,
                       kept == Py_None ? NULL : (struct states_object *)kept, watch == Py_None ? NULL : watch,
                       &options);
    }
    PyMem_Free((void *)options.overrides);
    PyMem_Free((void *)options.wisdom);
    pairs_free(&overrides);
    pairs_free(&wisdom);
    zeros_free(&zeros);
    return made;
}

static void plan_dealloc(PyObject *op)
{
    struct plan_object *self = (struct plan_object *)op;
    bool busy;
    WITHOUT_GIL({
        clcnn_plan_close(self->handle, NULL, NULL);
        busy = clcnn_plan_left_busy(self->handle);
        clcnn_plan_free(self->handle);
    });
    if (!busy)
        Py_XDECREF(self->late);
    Py_XDECREF((PyObject *)self->kept);
    Py_XDECREF((PyObject *)self->device);
    py_free(op);
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
    if (py_plan_enter(self) < 0)
        return NULL;
    WITHOUT_GIL(status = clcnn_plan_clone(&handle, self->handle, &err));
    return status ? py_error_raise(self->state, &err)
                  : wrap(Py_TYPE(op), self->state, self->device, self->kept, handle);
}

PyDoc_STRVAR(
    close_doc,
    "close($self, /)\n--\n\n"
    "Gives the plan's device memory back; waits for a run in another thread. Closing twice is fine.");

static PyObject *plan_close(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    if (py_plan_enter(self) < 0)
        return NULL;
    const struct clcnn_patience patience = {.stop = py_stop};
    WITHOUT_GIL(status = clcnn_plan_close(self->handle, &patience, &err));
    if (status)
        return py_error_raise(self->state, &err);
    atomic_store(&self->closed, true);
    Py_RETURN_NONE;
}

static PyObject *plan_exit(PyObject *op, PyObject *Py_UNUSED(args))
{
    return plan_close(op, NULL);
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
    if (py_plan_enter(self) < 0)
        return NULL;
    const struct clcnn_patience patience = py_patience(self);
    WITHOUT_GIL(status = clcnn_plan_check_guards(self->handle, &patience, &err));
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
    "wisdom={}, profile={}, zeros={}, "
    "fuse=True, chain=None, batch_part=0, skip=True,"
    " guard=False, state=None, watch=None, like=None, quick=False, fresh_filters=False)\n--\n\n"
    "A graph compiled for a device, independent of the graph from then on. overrides: {layer: algorithm}.\n"
    "profile: {row of profile_rows(): measured time over what the rules expect}.\n"
    "zeros: {layer: shares of zeros (element, channel, block, window, tile) in its input}.\n"
    "watch: called as watch(what, done, wanted) when a program is there or something else begins, and as\n"
    "watch() in between; what it raises ends the compile. One with an attribute `loads_only` waits for no\n"
    "compiler: BuildError where a program has to be built. like: a plan whose kernels serve this one too,\n"
    "where they can. quick: few and small kernels rather than the fastest. fresh_filters: they are "
    "transformed in "
    "every run.\n\n"
    "Raises ArgumentError, ShapeError, UnsupportedError, BuildError, DeviceMemoryError, DeviceError, "
    "StateError.");

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef plan_methods[] = {
    {"run", KEYWORDS(py_plan_run), py_plan_run_doc},
    {"profile", KEYWORDS(py_plan_profile), py_plan_profile_doc},
    {"clone", plan_clone, METH_NOARGS, clone_doc},
    {"close", plan_close, METH_NOARGS, close_doc},
    {"stop", py_plan_stop, METH_NOARGS, py_plan_stop_doc},
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
    {"ready", py_plan_ready, NULL, "For each output, how many of steps() are done when it is whole.", NULL},
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
