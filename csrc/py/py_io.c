/* py_io.c: the arrays and tensors at the inputs and outputs of a run, checked against the plan and turned into
 * clcnn_io. */
#include "py.h"

void py_io_free(struct py_io *io)
{
    Py_XDECREF(io->inputs);
    Py_XDECREF(io->outputs);
    Py_XDECREF(io->relays);
    PyMem_Free(io->to);
    PyMem_Free(io->in);
}

/* The same hardware opened twice makes two devices, which share no memory. */
static void wrong_device(struct plan_object *self, const struct tensor_object *tensor, const char *what)
{
    const struct clcnn_device_info *of_tensor = clcnn_device_get_info(tensor->device->handle),
                                   *of_plan = clcnn_device_get_info(self->device->handle);
    if (of_tensor->index == of_plan->index)
        py_error_format(
            self->state, CLCNN_E_VALUE,
            "%s: the tensor is on another device than the plan: both are device %d (%s), which was "
            "opened twice; make the tensor on plan.device",
            what, of_plan->index, of_plan->name);
    else
        py_error_format(
            self->state, CLCNN_E_VALUE,
            "%s: the tensor is on another device than the plan: on device %d (%s), the plan on device "
            "%d (%s); pass tensor.numpy(), or make the tensor on plan.device",
            what, of_tensor->index, of_tensor->name, of_plan->index, of_plan->name);
}

/* One array or tensor; its shape must be that of the plan's input or output. */
static int parse_io(struct plan_object *self, PyObject *item, enum array_use use,
                    const struct clcnn_io_info *info, struct clcnn_io *io)
{
    char what[CLCNN_NAME_MAX + 16];
    struct clcnn_shape shape;
    PyOS_snprintf(what, sizeof what, "%s %s", use == ARRAY_READ ? "input" : "output", info->name);
    if (PyObject_TypeCheck(item, self->state->tensor_type)) {
        struct tensor_object *tensor = (struct tensor_object *)item;
        if (tensor->device != self->device) {
            wrong_device(self, tensor, what);
            return -1;
        }
        io->buffer = tensor->handle;
        shape = tensor->shape;
        if (shape.dtype != info->shape.dtype) {
            py_error_format(self->state, CLCNN_E_DTYPE, "%s: expected a tensor of %s, got one of %s", what,
                            clcnn_dtype_name(info->shape.dtype), clcnn_dtype_name(shape.dtype));
            return -1;
        }
    } else {
        struct host_array host;
        if (py_array_view(self->state, item, use, info->shape.dtype, what, &host) < 0)
            return -1;
        io->host = host.data;
        shape = host.shape;
    }
    return py_shape_equal(&info->shape, &shape) ? 0
                                                : py_shape_mismatch(self->state, what, &info->shape, &shape);
}

/* An output is written while inputs, and other outputs, may still be needed. */
static bool overlaps(const struct clcnn_io *a, const struct clcnn_shape *a_shape, const struct clcnn_io *b,
                     const struct clcnn_shape *b_shape)
{
    if (a->buffer || b->buffer)
        return a->buffer == b->buffer;
    const char *x = a->host, *y = b->host;
    return x < y + py_shape_bytes(b_shape) && y < x + py_shape_bytes(a_shape);
}

static int check_overlap(struct plan_object *self, const struct py_io *io)
{
    for (int i = 0; i < io->n_out; i++) {
        const struct clcnn_io_info *info = clcnn_plan_output(self->handle, i), *other = NULL;
        for (int j = 0; j < io->n_in && !other; j++) {
            const struct clcnn_io_info *input = clcnn_plan_input(self->handle, j);
            if (overlaps(&io->out[i], &info->shape, &io->in[j], &input->shape))
                other = input;
        }
        for (int j = 0; j < i && !other; j++) {
            const struct clcnn_io_info *output = clcnn_plan_output(self->handle, j);
            if (overlaps(&io->out[i], &info->shape, &io->out[j], &output->shape))
                other = output;
        }
        if (other) {
            py_error_format(self->state, CLCNN_E_VALUE, "output %s: shares memory with %s", info->name,
                            other->name);
            return -1;
        }
    }
    return 0;
}

static int check_count(struct plan_object *self, const char *what, Py_ssize_t got, int expected)
{
    if (got == expected)
        return 0;
    py_error_format(self->state, CLCNN_E_VALUE, "this plan has %d %s%s, got %zd", expected, what,
                    expected == 1 ? "" : "s", got);
    return -1;
}

/* New arrays share memory with nothing. */
static int fill_outputs(struct plan_object *self, struct py_io *io)
{
    bool any_given = false;

    for (int i = 0; i < io->n_out; i++) {
        const struct clcnn_io_info *info = clcnn_plan_output(self->handle, i);
        PyObject *item = PyList_GetItem(io->outputs, i);
        struct host_array host;
        if (item != Py_None) {
            if (parse_io(self, item, ARRAY_WRITE, info, &io->out[i]) < 0)
                return -1;
            any_given = true;
            continue;
        }
        PyObject *made = py_array_new(&info->shape, &host);
        if (!made || PyList_SetItem(io->outputs, i, made) < 0)
            return -1;
        io->out[i].host = host.data;
    }
    return any_given ? check_overlap(self, io) : 0;
}

int py_io_parse(struct plan_object *self, PyObject *inputs, PyObject *outputs, struct py_io *io)
{
    io->n_in = clcnn_plan_input_count(self->handle);
    io->n_out = clcnn_plan_output_count(self->handle);
    io->inputs = PySequence_Tuple(inputs);
    io->outputs = outputs == Py_None ? PyList_New(0) : PySequence_List(outputs);
    io->in = PyMem_Calloc((size_t)(io->n_in + io->n_out) + 1, sizeof *io->in);
    if (!io->in)
        PyErr_NoMemory();
    if (!io->inputs || !io->outputs || !io->in)
        return -1;
    io->out = io->in + io->n_in;
    for (int i = 0; outputs == Py_None && i < io->n_out; i++)
        if (PyList_Append(io->outputs, Py_None) < 0)
            return -1;
    if (check_count(self, "input", PyTuple_Size(io->inputs), io->n_in) < 0 ||
        check_count(self, "output", PyList_Size(io->outputs), io->n_out) < 0)
        return -1;
    for (int i = 0; i < io->n_in; i++) {
        const struct clcnn_io_info *info = clcnn_plan_input(self->handle, i);
        if (parse_io(self, PyTuple_GetItem(io->inputs, i), ARRAY_READ, info, &io->in[i]) < 0)
            return -1;
    }
    return fill_outputs(self, io);
}

/* ---- tensors of other devices ---- */

static int check_relay(struct plan_object *self, PyObject *item, const struct clcnn_io_info *info)
{
    char what[CLCNN_NAME_MAX + 16];
    PyOS_snprintf(what, sizeof what, "relay %s", info->name);
    const struct tensor_object *tensor = (struct tensor_object *)item;
    if (!PyObject_TypeCheck(item, self->state->tensor_type) || tensor->shape.dtype != info->shape.dtype) {
        py_error_format(self->state, CLCNN_E_DTYPE, "%s: expected a tensor of %s, got %R", what,
                        clcnn_dtype_name(info->shape.dtype), item);
        return -1;
    }
    if (tensor->device == self->device) {
        py_error_format(self->state, CLCNN_E_VALUE, "%s: the tensor is on the plan's own device", what);
        return -1;
    }
    return py_shape_equal(&info->shape, &tensor->shape)
               ? 0
               : py_shape_mismatch(self->state, what, &info->shape, &tensor->shape);
}

/* Makes tuples of what is given, and counts what is in them; -1 with an exception. */
static Py_ssize_t keep_relays(PyObject *given, struct py_io *io)
{
    Py_ssize_t count = 0;
    io->relays = PySequence_List(given);
    for (Py_ssize_t i = 0; io->relays && i < PyList_Size(io->relays); i++) {
        PyObject *tuple = PySequence_Tuple(PyList_GetItem(io->relays, i));
        if (!tuple)
            return -1;
        count += PyTuple_Size(tuple);
        if (PyList_SetItem(io->relays, i, tuple) < 0)
            return -1;
    }
    return io->relays ? count : -1;
}

int py_io_relays(struct plan_object *self, PyObject *relays, struct py_io *io)
{
    if (relays == Py_None)
        return 0;
    const Py_ssize_t count = keep_relays(relays, io);
    if (count < 0 || check_count(self, "output", PyList_Size(io->relays), io->n_out) < 0)
        return -1;
    struct clcnn_buffer **to = io->to = PyMem_Calloc((size_t)count + 1, sizeof *to);
    if (!to) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < io->n_out; i++) {
        PyObject *tensors = PyList_GetItem(io->relays, i);
        io->out[i].relay = to;
        io->out[i].relay_count = (int)PyTuple_Size(tensors);
        for (int k = 0; k < io->out[i].relay_count; k++) {
            PyObject *item = PyTuple_GetItem(tensors, k);
            if (check_relay(self, item, clcnn_plan_output(self->handle, i)) < 0)
                return -1;
            *to++ = ((struct tensor_object *)item)->handle;
        }
    }
    return 0;
}
