/* py_run.c: methods of _core.Plan that run it. */
#include "py.h"

#define SLICE_MS 50.0 /* between looks at signals */

/* For ever, but for signal handlers that raise, and stop(). */
struct clcnn_patience py_patience(struct plan_object *self)
{
    return (struct clcnn_patience){.start_ms = clcnn_clock_ms(), .stop = py_stop, .with = &self->stopped};
}

int py_plan_enter(struct plan_object *self)
{
    if (self->kept && py_states_enter(self->kept) < 0)
        return -1;
    if (atomic_load(&self->runner) != PyThread_get_thread_ident())
        return 0;
    py_error_format(self->state, CLCNN_E_STATE,
                    "this plan is in the middle of a run in this thread (was it called from a"
                    " signal handler?)");
    return -1;
}

const char py_plan_stop_doc[] =
    "stop($self, /)\n--\n\n"
    "Ends a run that another thread has begun or waits for, within about 100 ms, and refuses every\n"
    "later one: they raise StateError. close() is still needed.";

PyObject *py_plan_stop(PyObject *op, PyObject *Py_UNUSED(unused))
{
    atomic_store(&((struct plan_object *)op)->stopped, true);
    Py_RETURN_NONE;
}

/* ---- run ---- */

/* Another thread's run on the state may have begun. */
static void leave(struct plan_object *self)
{
    unsigned long own = PyThread_get_thread_ident();
    atomic_store(&self->runner, 0);
    if (self->kept)
        atomic_compare_exchange_strong(&self->kept->runner, &own, 0);
}

/* Begins a run, which is this thread's then, and its first slice. Without the GIL. */
static enum clcnn_status first_slice(struct plan_object *self, const struct py_io *io, bool commit,
                                     const struct clcnn_patience *patience, bool *begun,
                                     struct clcnn_err *err)
{
    const bool borrow = patience->timeout_ms <= 0;
    const enum clcnn_status st =
        clcnn_plan_begin(self->handle, io->in, io->out, borrow, commit, patience, err);
    if (st)
        return st;
    if (self->kept)
        atomic_store(&self->kept->runner, PyThread_get_thread_ident());
    atomic_store(&self->runner, PyThread_get_thread_ident());
    *begun = true;
    return clcnn_plan_advance(self->handle, SLICE_MS, patience, err);
}

/* Whether a run between two slices is to end; then an exception is set. */
static bool interrupted(struct plan_object *self)
{
    if (PyErr_CheckSignals() < 0)
        return true;
    if (!atomic_load(&self->stopped))
        return false;
    py_error_format(self->state, CLCNN_E_STATE, "the run was stopped: stop() was called");
    return true;
}

/* Runs in slices; between them Python's signal handlers get their turn. -1 with an exception set by one of
 * them. */
static int run_slices(struct plan_object *self, const struct py_io *io, bool commit,
                      const struct clcnn_patience *patience, enum clcnn_status *status, struct clcnn_err *err)
{
    int rc = 0;
    bool begun = false;
    WITHOUT_GIL(*status = first_slice(self, io, commit, patience, &begun, err));
    while (*status == CLCNN_PENDING && (rc = interrupted(self) ? -1 : 0) == 0)
        WITHOUT_GIL(*status = clcnn_plan_advance(self->handle, SLICE_MS, patience, err));
    if (rc < 0)
        WITHOUT_GIL(clcnn_plan_cancel(self->handle));
    if (begun) { /* only a run that began can find the inputs of an earlier one done with */
        PyObject *earlier = self->late;
        self->late = *status == CLCNN_E_TIMEOUT ? Py_NewRef(io->inputs) : NULL;
        leave(self);
        Py_XDECREF(earlier);
    }
    return rc;
}

/* more than thirty years: what is longer, infinity too, is no limit that anybody will see */
#define LONGEST_S 1e9

static int parse_timeout(struct plan_object *self, PyObject *timeout, double *timeout_ms)
{
    *timeout_ms = 0;
    if (timeout == Py_None)
        return 0;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        seconds = LONGEST_S; /* an int of any length; a negative one is refused below */
        int above = PyObject_RichCompareBool(timeout, Py_False, Py_GT);
        if (above < 0)
            return -1;
        seconds = above ? LONGEST_S : -LONGEST_S;
    }
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            py_error_format(self->state, CLCNN_E_DTYPE,
                            "timeout: must be a number of seconds or None, got %R", timeout);
        return -1;
    }
    if (!(seconds > 0)) {
        py_error_format(self->state, CLCNN_E_VALUE,
                        "timeout: must be a positive number of seconds or None, got %R", timeout);
        return -1;
    }
    *timeout_ms = (seconds < LONGEST_S ? seconds : LONGEST_S) * 1e3;
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

const char py_plan_run_doc[] =
    "run($self, /, inputs, outputs=None, timeout=None, commit=False, relays=None)\n--\n\n"
    "One inference. inputs: a NumPy array or Tensor for each of `inputs`; outputs: for "
    "each of `outputs` None (a new\n"
    "array), an array or a Tensor. Returns the list of outputs. timeout: seconds. commit: change the\n"
    "states that the graph assigns, once all outputs are there. relays: for each of `outputs` a sequence\n"
    "of tensors of other devices; they get the values of a tensor there, as soon as those are computed.\n\n"
    "Raises ShapeError, DtypeError, ArgumentError, DeviceError, StateError, "
    "RunTimeoutError, and what a signal handler\n"
    "raises (KeyboardInterrupt); after that the plan can be used again.";

PyObject *py_plan_run(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"inputs", "outputs", "timeout", "commit", "relays", NULL};
    struct plan_object *self = (struct plan_object *)op;
    PyObject *inputs, *outputs = Py_None, *timeout = Py_None, *given = NULL, *relays = Py_None,
                      *result = NULL;
    bool commit = false;
    struct py_io io = {0};
    struct clcnn_patience patience = py_patience(self);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOOO:run", keys, &inputs, &outputs, &timeout, &given,
                                     &relays))
        return NULL;
    if ((given && py_flag_parse(self->state, given, "commit", &commit) < 0) ||
        parse_timeout(self, timeout, &patience.timeout_ms) < 0 || py_plan_enter(self) < 0)
        return NULL;
    if (py_io_parse(self, inputs, outputs, &io) == 0 && py_io_relays(self, relays, &io) == 0) {
        struct clcnn_err err = {0};
        enum clcnn_status status = CLCNN_OK;
        if (run_slices(self, &io, commit, &patience, &status, &err) < 0)
            clcnn_err_clear(&err);
        else if (status != CLCNN_OK)
            py_error_raise(self->state, &err);
        else if (tell_of_chains(self) == 0)
            result = Py_NewRef(io.outputs);
    }
    py_io_free(&io);
    return result;
}

const char py_plan_profile_doc[] =
    "profile($self, /, inputs)\n--\n\n"
    "One run with device events: (outputs, [(start_ns, end_ns)] for each of steps(), from the first start).";

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

PyObject *py_plan_profile(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"inputs", NULL};
    struct plan_object *self = (struct plan_object *)op;
    PyObject *inputs, *result = NULL;
    struct py_io io = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:profile", keys, &inputs) || py_plan_enter(self) < 0)
        return NULL;
    struct clcnn_plan_stats stats;
    WITHOUT_GIL(clcnn_plan_get_stats(self->handle, &stats));
    uint64_t *ns = PyMem_Calloc(2 * (size_t)stats.step_count + 1, sizeof *ns);
    if (!ns)
        PyErr_NoMemory();
    if (ns && py_io_parse(self, inputs, Py_None, &io) == 0) {
        struct clcnn_err err = {0};
        enum clcnn_status status;
        const struct clcnn_patience patience = py_patience(self);
        WITHOUT_GIL(status = clcnn_plan_profile(self->handle, io.in, io.out, ns, ns + stats.step_count,
                                                &patience, &err));
        if (status) {
            py_error_raise(self->state, &err);
        } else {
            PyObject *times = profile_times(ns, stats.step_count);
            result = times ? Py_BuildValue("(OO)", io.outputs, times) : NULL;
            Py_XDECREF(times);
        }
    }
    PyMem_Free(ns);
    py_io_free(&io);
    return result;
}
