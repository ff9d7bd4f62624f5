/* py_device.c: _core.Device, and device information as Python objects. */
#include "py.h"

#include <string.h>

enum field_kind { FIELD_INT, FIELD_UINT32, FIELD_UINT64, FIELD_SIZE, FIELD_BOOL, FIELD_TEXT, FIELD_TYPE };

/* name, kind, member of clcnn_device_info, doc: attributes of Device and keys of devices(). */
#define DEVICE_FIELDS(X)                                                                                    \
    X(index, INT, index, "Position over all platforms, as listed by devices().")                            \
    X(name, TEXT, name, "Device name.")                                                                     \
    X(type, TYPE, type, "\"cpu\", \"gpu\", \"accelerator\" or \"other\".")                                  \
    X(vendor, TEXT, vendor, "Vendor.")                                                                      \
    X(version, TEXT, version, "OpenCL version of the device.")                                              \
    X(driver, TEXT, driver, "Driver version.")                                                              \
    X(platform, TEXT, platform, "Platform name.")                                                           \
    X(platform_version, TEXT, platform_version, "OpenCL version of the platform.")                          \
    X(compute_units, UINT32, compute_units, "Compute units: cores of a CPU, multiprocessors of a GPU.")     \
    X(max_clock, UINT32, max_clock_mhz, "Highest clock in MHz, as the driver says.")                        \
    X(global_mem, UINT64, global_mem_bytes, "Device memory in bytes.")                                      \
    X(max_alloc, UINT64, max_alloc_bytes, "Largest single buffer in bytes.")                                \
    X(local_mem, UINT64, local_mem_bytes, "Local memory of a work-group in bytes.")                         \
    X(max_group_size, SIZE, max_group_size, "Largest work-group.")                                          \
    X(float_width, UINT32, float_width, "Native vector width in floats.")                                   \
    X(compute_capability, UINT32, compute_capability, "Of an NVIDIA GPU: 90 for 9.0; 0 for other devices.") \
    X(host_unified, BOOL, host_unified, "Whether the device shares the host's memory.")                     \
    X(local_is_dedicated, BOOL, local_is_dedicated,                                                         \
      "Whether local memory is on chip, not part of global memory.")                                        \
    X(has_fp64, BOOL, has_fp64, "Whether kernels may use double precision.")                                \
    X(has_fp16, BOOL, has_fp16, "Whether kernels may compute in half precision.")                           \
    X(available, BOOL, available, "Whether the driver says that the device can be used.")

enum field_index {
#define ROW(name, kind, member, doc) AT_##name,
    DEVICE_FIELDS(ROW)
#undef ROW
};
static const struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
} fields[] = {
#define ROW(name, kind, member, doc) {#name, FIELD_##kind, offsetof(struct clcnn_device_info, member)},
    DEVICE_FIELDS(ROW)
#undef ROW
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static const char *const type_names[] = {"cpu", "gpu", "accelerator", "other"};

static PyObject *field_value(const struct clcnn_device_info *info, const struct field *field)
{
    const void *at = (const char *)info + field->offset;
    switch (field->kind) {
    case FIELD_INT:
        return PyLong_FromLong(*(const int *)at);
    case FIELD_UINT32:
        return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case FIELD_UINT64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case FIELD_SIZE:
        return PyLong_FromSize_t(*(const size_t *)at);
    case FIELD_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case FIELD_TYPE:
        return PyUnicode_FromString(type_names[*(const enum clcnn_device_type *)at]);
    case FIELD_TEXT:
        break;
    }
    return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strlen(at), "replace");
}

PyObject *py_device_info_dict(const struct clcnn_device_info *info)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < FIELD_COUNT; i++) {
        PyObject *value = field_value(info, &fields[i]);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- construction ---- */

/* None, a string, or an index: the selector's text. A new reference that *text points into. */
static PyObject *selector_text(struct state *state, PyObject *selector, const char **text)
{
    *text = NULL;
    if (selector == Py_None)
        return Py_NewRef(Py_None);
    if (!PyUnicode_Check(selector) && !PyLong_Check(selector))
        return py_error_format(state, CLCNN_E_DTYPE,
                               "device: a selector is a string, an index or None, got %R", selector);
    PyObject *string = PyObject_Str(selector);
    if (string && py_text_parse(state, string, "device", text) < 0)
        Py_CLEAR(string);
    return string;
}

static PyObject *device_open(PyTypeObject *type, struct state *state, const char *selector,
                             const struct clcnn_device_options *options)
{
    struct clcnn_device *handle = NULL;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_device_open(&handle, selector, options, &err));
    if (status)
        return py_error_raise(state, &err);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct device_object *self = (struct device_object *)alloc(type, 0);
    if (!self) {
        clcnn_device_free(handle);
        return NULL;
    }
    self->state = state;
    self->handle = handle;
    atomic_init(&self->closed, false);
    return (PyObject *)self;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"selector",      "cache_dir", "kernel_dir", "memory_limit",
                           "build_threads", "threads",   NULL};
    struct state *state = py_state_of_type(type);
    PyObject *selector = Py_None, *cache_dir = Py_None, *kernel_dir = Py_None, *limit = NULL;
    PyObject *threads = NULL, *cores = Py_None;
    struct clcnn_device_options options = {0};
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OOOOO:Device", keys, &selector, &cache_dir,
                                               &kernel_dir, &limit, &threads, &cores))
        return NULL;
    if (limit && py_bytes_parse(state, limit, "memory_limit", &options.memory_limit) < 0)
        return NULL;
    if (threads && py_int_parse(state, threads, "build_threads", 0, &options.build_threads) < 0)
        return NULL;
    if (cores != Py_None && py_int_parse(state, cores, "threads", 1, &options.threads) < 0)
        return NULL;
    PyObject *cache_bytes = NULL, *kernel_bytes = NULL, *made = NULL;
    const char *text;
    PyObject *name = selector_text(state, selector, &text);
    if (name && py_path_parse(state, cache_dir, "cache_dir", &cache_bytes, &options.cache_dir) == 0 &&
        py_path_parse(state, kernel_dir, "kernel_dir", &kernel_bytes, &options.kernel_dir) == 0)
        made = device_open(type, state, text, &options);
    Py_XDECREF(name);
    Py_XDECREF(cache_bytes);
    Py_XDECREF(kernel_bytes);
    return made;
}

static void device_dealloc(PyObject *op)
{
    struct device_object *self = (struct device_object *)op;
    WITHOUT_GIL(clcnn_device_free(self->handle));
    py_free(op);
}

/* ---- methods ---- */

PyDoc_STRVAR(stats_doc, "stats($self, /)\n--\n\n"
                        "Counters of the device, as they are now.\n"
                        "\n"
                        "Returns\n"
                        "-------\n"
                        "dict of str to int\n"
                        "    bytes_now, bytes_peak, weights_bytes: device memory in bytes, of all buffers "
                        "now, at most so far, and of\n"
                        "    packed weights. programs_built, programs_loaded: from source, and from the disk "
                        "cache. live_objects: OpenCL\n"
                        "    objects that are not yet released.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import clcnn\n"
                        ">>> with clcnn.Device() as device, clcnn.Tensor(device, (256, 4)) as tensor:\n"
                        "...     device.stats()[\"bytes_now\"] >= tensor.nbytes\n"
                        "True");

static PyObject *device_stats(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct clcnn_device_stats stats;
    WITHOUT_GIL(clcnn_device_get_stats(((struct device_object *)op)->handle, &stats));
    return Py_BuildValue(
        "{s:K, s:K, s:K, s:K, s:K, s:K}", "bytes_now", (unsigned long long)stats.bytes_now, "bytes_peak",
        (unsigned long long)stats.bytes_peak, "weights_bytes", (unsigned long long)stats.weights_bytes,
        "programs_built", (unsigned long long)stats.programs_built, "programs_loaded",
        (unsigned long long)stats.programs_loaded, "live_objects", (unsigned long long)stats.live_objects);
}

PyDoc_STRVAR(info_doc,
             "info($self, /)\n--\n\n"
             "What the driver says of the device.\n"
             "\n"
             "Returns\n"
             "-------\n"
             "dict\n"
             "    The device's row of `clcnn.devices()`: clcnn.DeviceInfo tells what each key means.\n"
             "\n"
             "Examples\n"
             "--------\n"
             ">>> import clcnn\n"
             ">>> with clcnn.Device() as device:\n"
             "...     device.info()[\"name\"] == device.name\n"
             "True");

static PyObject *device_info(PyObject *op, PyObject *Py_UNUSED(unused))
{
    return py_device_info_dict(clcnn_device_get_info(((struct device_object *)op)->handle));
}

PyDoc_STRVAR(finish_doc, "finish($self, /)\n--\n\n"
                         "Waits until the device has done everything that it was given.\n"
                         "\n"
                         "Raises\n"
                         "------\n"
                         "DeviceError\n"
                         "    The driver reports an error.\n"
                         "StateError\n"
                         "    The device is closed, or was opened before the process was forked.\n"
                         "\n"
                         "Examples\n"
                         "--------\n"
                         ">>> import clcnn\n"
                         ">>> with clcnn.Device() as device:\n"
                         "...     device.finish()");

static PyObject *device_finish(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct device_object *self = (struct device_object *)op;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_device_finish(self->handle, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(build_ahead_doc,
             "_build_ahead($self, /)\n--\n\n"
             "Makes the programs that the last process's first compile used, until a compile knows what it "
             "needs.");

static PyObject *device_build_ahead(PyObject *op, PyObject *Py_UNUSED(unused))
{
    WITHOUT_GIL(clcnn_device_build_ahead(((struct device_object *)op)->handle));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(build_doc, "_build($self, file, text, /)\n--\n\n"
                        "Builds a program and keeps it in the disk cache, for another process.");

static PyObject *device_build(PyObject *op, PyObject *args)
{
    struct device_object *self = (struct device_object *)op;
    struct clcnn_source source;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    if (!PyArg_ParseTuple(args, "ss:_build", &source.file, &source.text))
        return NULL;
    WITHOUT_GIL(status = clcnn_device_build(self->handle, &source, &err));
    return status ? py_error_raise(self->state, &err) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(close_doc, "close($self, /)\n--\n\n"
                        "Gives everything on the device back; its tensors and plans raise StateError from "
                        "then on. Closing twice is fine.\n"
                        "\n"
                        "Examples\n"
                        "--------\n"
                        ">>> import clcnn\n"
                        ">>> device = clcnn.Device()\n"
                        ">>> device.close()\n"
                        ">>> device.closed\n"
                        "True");

static PyObject *device_close(PyObject *op, PyObject *Py_UNUSED(unused))
{
    struct device_object *self = (struct device_object *)op;
    atomic_store(&self->closed, true); /* before what others run fails for it */
    WITHOUT_GIL(clcnn_device_close(self->handle));
    Py_RETURN_NONE;
}

static PyObject *device_exit(PyObject *op, PyObject *Py_UNUSED(args))
{
    return device_close(op, NULL);
}

static PyObject *device_repr(PyObject *op)
{
    struct device_object *self = (struct device_object *)op;
    const struct clcnn_device_info *info = clcnn_device_get_info(self->handle);
    return PyUnicode_FromFormat("<clcnn.Device %d: %s, %s, %u compute units%s>", info->index, info->name,
                                type_names[info->type], (unsigned)info->compute_units,
                                atomic_load(&self->closed) ? ", closed" : "");
}

static PyObject *get_field(PyObject *op, void *field)
{
    return field_value(clcnn_device_get_info(((struct device_object *)op)->handle), field);
}

static PyObject *get_closed(PyObject *op, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct device_object *)op)->closed));
}

PyDoc_STRVAR(
    device_doc,
    "Device(selector=None, *, cache_dir=None, kernel_dir=None, memory_limit=0, build_threads=0, "
    "threads=None)\n--\n\n"
    "An opened OpenCL device: one context, one store of weights and programs.\n\n"
    "selector: None (first GPU, else first CPU, else first), \"cpu\", \"gpu\", \"accelerator\", an index, "
    "part of\n"
    "a device or platform name, or \"platform:part\". cache_dir: kernel cache folder, None for none.\n"
    "kernel_dir: read kernels here instead of the embedded ones. memory_limit: bytes that all buffers\n"
    "together may take, 0 for no limit. build_threads: programs built at once, 0 for one a host core.\n"
    "threads: cores of a CPU device that kernels may use, None for all.\n\n"
    "Raises NoDeviceError, DeviceError, ArgumentError.");

static PyMethodDef device_methods[] = {
    {"stats", device_stats, METH_NOARGS, stats_doc},
    {"info", device_info, METH_NOARGS, info_doc},
    {"finish", device_finish, METH_NOARGS, finish_doc},
    {"_build", device_build, METH_VARARGS, build_doc},
    {"_build_ahead", device_build_ahead, METH_NOARGS, build_ahead_doc},
    {"close", device_close, METH_NOARGS, close_doc},
    {"__enter__", py_enter, METH_NOARGS, "__enter__($self, /)\n--\n\n"},
    {"__exit__", device_exit, METH_VARARGS, "__exit__($self, /, *args)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef device_getset[] = {
#define ROW(name, kind, member, doc) {#name, get_field, NULL, doc, (void *)&fields[AT_##name]},
    DEVICE_FIELDS(ROW)
#undef ROW
        {"closed", get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_doc, (void *)device_doc},
    {Py_tp_new, device_new},
    {Py_tp_dealloc, device_dealloc},
    {Py_tp_repr, device_repr},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {0, NULL},
};

PyType_Spec py_device_spec = {
    .name = "clcnn._core.Device",
    .basicsize = sizeof(struct device_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = device_slots,
};
