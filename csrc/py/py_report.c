/* py_report.c: _core.Plan, part two: what a plan tells about itself, as lists and dicts. */
#include "py.h"

/* A list of row(self, i) for i in 0..count-1. */
static PyObject *list_of(struct plan_object *self, int count, PyObject *(*row)(struct plan_object *, int))
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        PyObject *item = row(self, i);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *io_row(const struct clcnn_io_info *info)
{
    PyObject *shape = py_shape_tuple(&info->shape);
    return shape ? Py_BuildValue("(sN)", info->name, shape) : NULL;
}

static PyObject *input_row(struct plan_object *self, int i)
{
    return io_row(clcnn_plan_input(self->handle, i));
}

static PyObject *output_row(struct plan_object *self, int i)
{
    return io_row(clcnn_plan_output(self->handle, i));
}

PyObject *py_plan_inputs(PyObject *op, void *Py_UNUSED(closure))
{
    struct plan_object *self = (struct plan_object *)op;
    return list_of(self, clcnn_plan_input_count(self->handle), input_row);
}

PyObject *py_plan_outputs(PyObject *op, void *Py_UNUSED(closure))
{
    struct plan_object *self = (struct plan_object *)op;
    return list_of(self, clcnn_plan_output_count(self->handle), output_row);
}

/* A list of the types of inputs or outputs, by name. */
static PyObject *dtype_list(struct plan_object *self, int count,
                            const struct clcnn_io_info *(*end)(const struct clcnn_plan *, int))
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        const struct clcnn_io_info *info = end(self->handle, i);
        PyObject *row = Py_BuildValue("(ss)", info->name, clcnn_dtype_name(info->shape.dtype));
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyObject *py_plan_input_dtypes(PyObject *op, void *Py_UNUSED(closure))
{
    struct plan_object *self = (struct plan_object *)op;
    return dtype_list(self, clcnn_plan_input_count(self->handle), clcnn_plan_input);
}

PyObject *py_plan_output_dtypes(PyObject *op, void *Py_UNUSED(closure))
{
    struct plan_object *self = (struct plan_object *)op;
    return dtype_list(self, clcnn_plan_output_count(self->handle), clcnn_plan_output);
}

PyObject *py_plan_ready(PyObject *op, void *Py_UNUSED(closure))
{
    struct plan_object *self = (struct plan_object *)op;
    const int count = clcnn_plan_output_count(self->handle);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        PyObject *number = PyLong_FromLong(clcnn_plan_output(self->handle, i)->ready);
        if (!number || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

/* ---- stats ---- */

static void read_stats(struct plan_object *self, struct clcnn_plan_stats *stats)
{
    WITHOUT_GIL(clcnn_plan_get_stats(self->handle, stats));
}

const char py_plan_stats_doc[] =
    "stats($self, /)\n--\n\n"
    "Memory and compile time as a dict: arena_bytes, weights_bytes, "
    "workspace_bytes, peak_bytes (arena + weights),\n"
    "live_bytes (largest set of activations alive at once), step_count, "
    "chained_steps (run inside one kernel with others), launch_count (kernels and library calls of a run),\n"
    "called (1: runs without a deadline call the kernels' code instead), program_count, shared_ends (inputs "
    "and outputs that steps use where the caller has them), select_ms, "
    "build_ms, weights_ms, warm_ms.";

PyObject *py_plan_stats(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct clcnn_plan_stats s;
    read_stats((struct plan_object *)op, &s);
    return Py_BuildValue(
        "{s:K, s:K, s:K, s:K, s:K, s:i, s:i, s:i, s:i, s:i, s:i, s:d, s:d, s:d, s:d}", "arena_bytes",
        (unsigned long long)s.arena_bytes, "weights_bytes", (unsigned long long)s.weights_bytes,
        "workspace_bytes", (unsigned long long)s.workspace_bytes, "peak_bytes",
        (unsigned long long)s.peak_bytes, "live_bytes", (unsigned long long)s.live_bytes, "step_count",
        s.step_count, "chained_steps", s.chained_steps, "launch_count", s.launch_count, "called", s.called,
        "program_count", s.program_count, "shared_ends", s.shared_ends, "select_ms", s.select_ms, "build_ms",
        s.build_ms, "weights_ms", s.weights_ms, "warm_ms", s.warm_ms);
}

/* ---- steps ---- */

static PyObject *step_row(struct plan_object *self, int i)
{
    struct clcnn_step_info s;
    struct clcnn_err err = {0};
    if (clcnn_plan_step_info(self->handle, i, &s, &err))
        return py_error_raise(self->state, &err);
    return Py_BuildValue("{s:s, s:s, s:s, s:s, s:s, s:s, s:n, s:n, s:d, s:d}", "layer", s.layer, "op", s.op,
                         "algo", s.algo, "kernel", s.kernel, "entry", s.entry, "defines", s.defines, "groups",
                         (Py_ssize_t)s.groups, "group_size", (Py_ssize_t)s.group_size, "macs", s.macs,
                         "bytes", s.bytes);
}

const char py_plan_steps_doc[] = "steps($self, /)\n--\n\n"
                                 "The launches of a run in order, as dicts: layer, op, algo, kernel, "
                                 "defines, groups, group_size, macs, bytes (that must\n"
                                 "be read and written).";

PyObject *py_plan_steps(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct clcnn_plan_stats stats;
    read_stats((struct plan_object *)op, &stats);
    return list_of((struct plan_object *)op, stats.step_count, step_row);
}

/* ---- layers ---- */

static PyObject *candidate_rows(struct plan_object *self, int layer, int count)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        struct clcnn_candidate_info c;
        struct clcnn_err err = {0};
        PyObject *row = clcnn_plan_candidate_info(self->handle, layer, i, &c, &err)
                            ? py_error_raise(self->state, &err)
                            : Py_BuildValue("{s:s, s:s, s:s, s:n, s:d}", "algo", c.algo, "verdict", c.verdict,
                                            "reason", c.reason, "workspace_bytes",
                                            (Py_ssize_t)c.workspace_bytes, "effort", c.effort);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* A tuple of shares, None where they are not known. */
static PyObject *zeros_tuple(const struct clcnn_zeros *z)
{
    return z->known ? Py_BuildValue("(fffff)", z->element, z->channel, z->block, z->window, z->tile)
                    : Py_NewRef(Py_None);
}

static PyObject *layer_row(struct plan_object *self, int i)
{
    struct clcnn_layer_info l;
    struct clcnn_err err = {0};
    if (clcnn_plan_layer_info(self->handle, i, &l, &err))
        return py_error_raise(self->state, &err);
    PyObject *candidates = candidate_rows(self, i, l.candidate_count);
    PyObject *input = py_shape_tuple(&l.input), *output = py_shape_tuple(&l.output),
             *zeros = zeros_tuple(&l.zeros);
    if (candidates && input && output && zeros)
        return Py_BuildValue(
            "{s:s, s:O, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:N, s:N, s:N, s:n, s:n, s:d, s:N}", "key", l.key,
            "part", l.part ? Py_True : Py_False, "layer", l.layer, "op", l.op, "algo", l.algo, "fused",
            l.fused, "error_class", l.error_class, "error_bound", l.error_bound, "error_rounding",
            l.error_rounding, "input", input, "output", output, "zeros", zeros, "workspace_bytes",
            (Py_ssize_t)l.workspace_bytes, "weight_bytes", (Py_ssize_t)l.weight_bytes, "macs", l.macs,
            "candidates", candidates);
    Py_XDECREF(candidates);
    Py_XDECREF(input);
    Py_XDECREF(output);
    Py_XDECREF(zeros);
    return NULL;
}

const char py_plan_layers_doc[] =
    "layers($self, /)\n--\n\n"
    "The layers of the rewritten graph, as dicts: key (what its time depends on), part (of the layer "
    "before), layer, op, "
    "algo, fused, error_class, error_bound, error_rounding, input, output "
    "(shapes), zeros (shares in its input, or None),\n"
    "workspace_bytes, weight_bytes, macs, and candidates: dicts with algo, verdict, reason, workspace_bytes, "
    "effort\n"
    "(what it is expected to take, beside the layer's others; 0: not known).";

PyObject *py_plan_layers(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    return list_of(self, clcnn_plan_layer_count(self->handle), layer_row);
}

/* ---- rewrites ---- */

const char py_plan_rewrites_doc[] =
    "rewrites($self, /)\n--\n\nThe rewrites that were applied, one line each.";

PyObject *py_plan_rewrites(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct plan_object *self = (struct plan_object *)op;
    PyObject *list = PyList_New(0);
    const char *note;
    for (int i = 0; list && (note = clcnn_plan_rewrite_note(self->handle, i)); i++) {
        PyObject *line = PyUnicode_FromString(note);
        if (!line || PyList_Append(list, line) < 0)
            Py_CLEAR(list);
        Py_XDECREF(line);
    }
    return list;
}
