/* py.h: what the files of the binding share. The binding turns Python objects into the structs of clcnn.h and
 * back; it never calls OpenCL and never looks inside a core object.
 *
 * Every entry that may block makes four moves: parse Python into C structs, drop the GIL, call the core
 * (which takes its own locks only then, so that no lock is ever waited for with the GIL held), take the GIL
 * back and map the error. */
#ifndef CLCNN_PY_H
#define CLCNN_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>

#include "clcnn.h"

/* Per-module state; objects keep a pointer to it, and their types keep the module alive. */
struct state {
    PyTypeObject *device_type, *tensor_type, *graph_type, *states_type, *plan_type;
    PyObject *error;                        /* clcnn.Error, base of all */
    PyObject *exception[CLCNN_PENDING + 1]; /* by status */
};
extern struct PyModuleDef py_module;
struct state *py_state_of_type(PyTypeObject *type); /* also for Python subclasses; NULL with an exception */

struct device_object {
    PyObject_HEAD struct state *state;
    struct clcnn_device *handle;
    atomic_bool closed;
};

struct tensor_object {
    PyObject_HEAD struct state *state;
    struct device_object *device; /* strong */
    struct clcnn_buffer *handle;
    struct clcnn_shape shape;
    atomic_bool closed;
};

struct graph_object {
    PyObject_HEAD struct state *state;
    struct clcnn_graph *handle;
    PyThread_type_lock lock; /* the core does not lock graphs; waited for with the GIL dropped */
    atomic_long pid;         /* the process that has used the lock last */
    atomic_ulong holder;     /* thread that has it, 0 for none */
    PyObject *kept;          /* list of the arrays that constants borrow */
};

/* _core.State; `state` is the module's in every object. */
struct states_object {
    PyObject_HEAD struct state *state;
    struct device_object *device; /* strong */
    struct clcnn_state *handle;
    atomic_ulong runner; /* thread whose run has its turn on it, 0 for none */
    atomic_bool closed;
};

struct plan_object {
    PyObject_HEAD struct state *state;
    struct device_object *device; /* strong */
    struct states_object *kept;   /* strong; NULL: it was compiled without a state */
    struct clcnn_plan *handle;
    PyObject *late;           /* inputs that the device may still read after a time-out */
    atomic_ulong runner;      /* thread inside run(), 0 for none */
    atomic_bool stopped;      /* stop() was called */
    atomic_bool closed, told; /* told: of chains that were left */
};

/* The second to fourth move around a core call. */
#define WITHOUT_GIL(call)                           \
    do {                                            \
        PyThreadState *save_ = PyEval_SaveThread(); \
        call;                                       \
        PyEval_RestoreThread(save_);                \
    } while (0)

/* ---- waiting ---- */
/* The `stop` of a clcnn_patience: takes the GIL, lets Python's signal handlers have their turn, and is true when one of them has
 * raised (the exception stays set), or the flag that `with` points to is set. with: an atomic_bool or NULL. */
bool py_stop(void *with);

/* ---- py_error.c ---- */
int py_error_init(PyObject *module, struct state *state);
/* Raises what `err` says, frees its strings, and returns NULL. An exception that stopped the call stays as it is. */
PyObject *py_error_raise(struct state *state, struct clcnn_err *err);
/* Raises an error that the binding found by itself; PyUnicode_FromFormat's language. Returns NULL. */
PyObject *py_error_format(struct state *state, enum clcnn_status status, const char *format, ...);

/* ---- py_array.c: the one file that sees NumPy's C API ---- */
struct host_array {
    void *data;
    size_t bytes;
    struct clcnn_shape shape;
};
enum array_use { ARRAY_READ, ARRAY_WRITE };
int py_array_init(PyObject *module);
/* of the shape's dtype, not initialised */
PyObject *py_array_new(const struct clcnn_shape *shape, struct host_array *out);
/* Looks at a C-contiguous, native array of type `dtype`, or of any type when that is ANY_DTYPE; `what` names it in
 * messages. Borrows. */
#define ANY_DTYPE CLCNN_DTYPE_COUNT
int py_array_view(struct state *state, PyObject *array, enum array_use use, enum clcnn_dtype dtype,
                  const char *what, struct host_array *out);
PyObject *py_array_dtype(enum clcnn_dtype dtype); /* numpy.dtype("float32") */
/* The type of that name; -1 with an exception for another one. `what` begins the message. */
int py_dtype_parse(struct state *state, PyObject *name, const char *what, enum clcnn_dtype *out);

int py_shape_parse(struct state *state, PyObject *object, const char *what, struct clcnn_shape *out);
PyObject *py_shape_tuple(const struct clcnn_shape *shape);
size_t py_shape_bytes(const struct clcnn_shape *shape); /* 0 when it does not fit in size_t */
bool py_shape_equal(const struct clcnn_shape *a, const struct clcnn_shape *b);
/* ShapeError "<what>: expected shape (1, 3), got (1, 4)"; returns -1. */
int py_shape_mismatch(struct state *state, const char *what, const struct clcnn_shape *expected,
                      const struct clcnn_shape *got);

/* ---- py_attrs.c ---- */
struct attr_list {
    struct clcnn_attr *attr;
    int count;
    PyObject *owner; /* private copy of the dict: owns the strings */
};
/* A dict of attributes for operator `op` of node `name`, in the kinds that the operator's table asks for
 * where Python's type leaves a choice. None means absent. Free in any case. */
int py_attrs_parse(struct state *state, const char *op, const char *name, PyObject *dict,
                   struct attr_list *out);
void py_attrs_free(struct attr_list *list);

/* ---- one type a file ---- */
extern PyType_Spec py_device_spec, py_tensor_spec, py_graph_spec, py_states_spec, py_plan_spec;
PyObject *py_device_info_dict(const struct clcnn_device_info *info);
/* Waits in slices, in between for signal handlers; -1 with an exception: of a handler, or StateError in a forked child, where
 * the thread that has the lock may not exist, and in a handler that interrupted this thread's use of the graph. */
int py_graph_lock(struct graph_object *graph);
void py_graph_unlock(struct graph_object *graph);
/* Runs a core call with the graph's lock held and the GIL dropped, or returns NULL with an exception. */
#define WITH_GRAPH(graph, call)       \
    do {                              \
        if (py_graph_lock(graph) < 0) \
            return NULL;              \
        WITHOUT_GIL(call);            \
        py_graph_unlock(graph);       \
    } while (0)

/* ---- py_state.c ---- */
/* As py_plan_enter(): a run of this thread has its turn on the state. */
int py_states_enter(struct states_object *states);

/* ---- py_io.c ---- */
struct py_io {
    PyObject *inputs, *outputs; /* a tuple and a list, strong */
    struct clcnn_io *in, *out;  /* one block */
    PyObject *relays;           /* a list of tuples, strong */
    struct clcnn_buffer **to;   /* what is in them, for `out` */
    int n_in, n_out;
};
/* inputs: a sequence of arrays and tensors; outputs: None or a sequence that has None for arrays to be made.
 * Checks number, dtype, layout, shape, device, and that no output shares memory with another of them. Free in any
 * case. */
int py_io_parse(struct plan_object *plan, PyObject *inputs, PyObject *outputs, struct py_io *io);
/* After it: for each output a sequence of tensors that get its values too, on other devices; it must be a tensor then. */
int py_io_relays(struct plan_object *plan, PyObject *relays, struct py_io *io);
void py_io_free(struct py_io *io);

/* ---- py_plan.c, py_run.c: methods of Plan that run it ---- */
/* A signal handler may call back into the plan that its own thread is running, which would wait for itself: StateError, -1. */
int py_plan_enter(struct plan_object *self);
/* For a call that begins now: without a limit, but for signal handlers that raise, and stop(). */
struct clcnn_patience py_patience(struct plan_object *self);
PyObject *py_plan_run(PyObject *plan, PyObject *args, PyObject *kwargs);
PyObject *py_plan_profile(PyObject *plan, PyObject *args, PyObject *kwargs);
PyObject *py_plan_stop(PyObject *plan, PyObject *unused);
extern const char py_plan_run_doc[], py_plan_profile_doc[], py_plan_stop_doc[];

/* ---- py_report.c: methods of Plan ---- */
PyObject *py_plan_inputs(PyObject *plan, void *closure);
PyObject *py_plan_outputs(PyObject *plan, void *closure);
PyObject *py_plan_input_dtypes(PyObject *plan, void *closure);
PyObject *py_plan_output_dtypes(PyObject *plan, void *closure);
PyObject *py_plan_ready(PyObject *plan, void *closure);
PyObject *py_plan_steps(PyObject *plan, PyObject *unused);
PyObject *py_plan_layers(PyObject *plan, PyObject *unused);
PyObject *py_plan_rewrites(PyObject *plan, PyObject *unused);
PyObject *py_plan_stats(PyObject *plan, PyObject *unused);
extern const char py_plan_steps_doc[], py_plan_layers_doc[], py_plan_rewrites_doc[], py_plan_stats_doc[];

/* ---- small things that several types need ---- */
PyObject *py_enter(PyObject *self, PyObject *unused); /* __enter__ */
void py_free(PyObject *self);                         /* the end of every tp_dealloc */

/* ---- py_args.c: `what` names the argument; -1 with DtypeError or ArgumentError ---- */
/* A count of bytes from 0 to 2^63 - 1. */
int py_bytes_parse(struct state *state, PyObject *object, const char *what, uint64_t *out);
/* up to 2^31 - 1 */
int py_int_parse(struct state *state, PyObject *object, const char *what, int least, int *out);
int py_flag_parse(struct state *state, PyObject *object, const char *what, bool *out);
/* A string that has no NUL and no lone surrogate; *out points into it. */
int py_text_parse(struct state *state, PyObject *object, const char *what, const char **out);
/* None or a path; *bytes is a new reference or NULL, *out points into it. */
int py_path_parse(struct state *state, PyObject *object, const char *what, PyObject **bytes,
                  const char **out);

#endif
