/* module.c: the module clcnn._core itself: state, types, and the functions that need no object. */
#include "py.h"

#include <math.h>
#include <stdlib.h>

/* ---- devices() ---- */

PyDoc_STRVAR(
    devices_doc,
    "devices()\n--\n\n"
    "Information about every OpenCL device, over all platforms, as a list of dicts in index order.\n\n"
    "Opens nothing. Raises NoDeviceError, which says what was looked for and what to install.");

static PyObject *devices(PyObject *module, PyObject *Py_UNUSED(unused))
{
    struct clcnn_device_info *info = NULL;
    size_t count = 0;
    struct clcnn_err err = {0};
    enum clcnn_status status;
    WITHOUT_GIL(status = clcnn_device_list(&info, &count, &err));
    if (status)
        return py_error_raise(PyModule_GetState(module), &err);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *dict = py_device_info_dict(&info[i]);
        if (!dict || PyList_Append(list, dict) < 0)
            Py_CLEAR(list);
        Py_XDECREF(dict);
    }
    free(info);
    return list;
}

PyDoc_STRVAR(
    offer_driver_doc,
    "offer_driver(path, /)\n--\n\n"
    "One more OpenCL driver, by the absolute path of its library.\n\n"
    "Its devices follow those of the system's drivers; without a loader it is opened in the loader's\n"
    "place. Only before the first use of a device. Raises ArgumentError.");

static PyObject *offer_driver(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL;
    const char *text = NULL;
    if (py_path_parse(PyModule_GetState(module), path, "path", &bytes, &text) < 0)
        return NULL;
    if (text)
        clcnn_driver_offer(text);
    Py_XDECREF(bytes);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    hash128_doc,
    "hash128(data, /)\n--\n\n"
    "16 bytes that tell bytes apart, at the speed of memory. Not for what somebody may want to forge.");

static PyObject *hash128(PyObject *Py_UNUSED(module), PyObject *data)
{
    uint8_t hash[16];
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    WITHOUT_GIL(clcnn_hash128(hash, view.buf, (size_t)view.len));
    PyBuffer_Release(&view);
    return PyBytes_FromStringAndSize((const char *)hash, sizeof hash);
}

/* ---- ops() ---- */

static const char *const kind_names[] = {"int", "bool", "float", "ints", "floats", "enum"};

/* "a|b" at sep "|" as ["a", "b"]; nothing as []. sep NULL: any space. */
static PyObject *split(const char *text, const char *sep)
{
    if (!text || !*text)
        return PyList_New(0);
    PyObject *whole = PyUnicode_FromString(text);
    PyObject *mark = sep ? PyUnicode_FromString(sep) : NULL;
    PyObject *list = whole && (mark || !sep) ? PyUnicode_Split(whole, mark, -1) : NULL;
    Py_XDECREF(whole);
    Py_XDECREF(mark);
    return list;
}

static PyObject *default_value(const struct clcnn_attr_info *attr, PyObject *choices)
{
    if (attr->required)
        return Py_NewRef(Py_None);
    if (attr->kind == CLCNN_ATTR_ENUM)
        return Py_XNewRef(PyList_GetItem(choices, (Py_ssize_t)attr->def));
    if (attr->kind == CLCNN_ATTR_BOOL)
        return PyBool_FromLong(attr->def != 0);
    if (attr->kind != CLCNN_ATTR_FLOAT && isnan(attr->def))
        return PyTuple_New(0);
    if (attr->kind == CLCNN_ATTR_FLOAT || attr->kind == CLCNN_ATTR_FLOATS)
        return PyFloat_FromDouble(attr->def);
    return PyLong_FromDouble(attr->def);
}

static PyObject *attr_row(const struct clcnn_attr_info *attr)
{
    PyObject *choices = split(attr->kind == CLCNN_ATTR_ENUM ? attr->choices : NULL, "|");
    PyObject *value = choices ? default_value(attr, choices) : NULL;
    PyObject *row =
        value ? Py_BuildValue("{s:s, s:s, s:O, s:O, s:O, s:s}", "name", attr->name, "kind",
                              kind_names[attr->kind], "required", attr->required ? Py_True : Py_False,
                              "default", value, "choices", choices, "doc", attr->doc ? attr->doc : "")
              : NULL;
    Py_XDECREF(choices);
    Py_XDECREF(value);
    return row;
}

static PyObject *algo_row(int op, int algo)
{
    struct clcnn_algo_info info;
    if (!clcnn_op_algo_get(op, algo, &info))
        return NULL;
    return Py_BuildValue("{s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:O, s:O, s:O}", "doc", info.doc, "devices",
                         info.devices, "error_class", info.error_class, "error_bound", info.error_bound,
                         "error_rounding", info.error_rounding, "compute_capability",
                         (unsigned)info.compute_capability, "effort", info.effort, "clblast",
                         info.clblast ? Py_True : Py_False, "blocked", info.blocked ? Py_True : Py_False,
                         "vectors", info.vectors ? Py_True : Py_False);
}

static PyObject *op_row(int op)
{
    const struct clcnn_op_info *info = clcnn_op_get(op);
    PyObject *attrs = PyList_New(0), *algos = PyDict_New(), *inputs = split(info->inputs, NULL), *row = NULL;
    for (int i = 0; attrs && i < info->attr_count; i++) {
        PyObject *attr = attr_row(&info->attrs[i]);
        if (!attr || PyList_Append(attrs, attr) < 0)
            Py_CLEAR(attrs);
        Py_XDECREF(attr);
    }
    for (int i = 0; algos && i < clcnn_op_algo_count(op); i++) {
        PyObject *algo = algo_row(op, i);
        if (!algo || PyDict_SetItemString(algos, clcnn_op_algo_name(op, i), algo) < 0)
            Py_CLEAR(algos);
        Py_XDECREF(algo);
    }
    if (attrs && algos && inputs)
        row = Py_BuildValue("{s:s, s:O, s:O, s:O}", "doc", info->doc ? info->doc : "", "inputs", inputs,
                            "attrs", attrs, "algos", algos);
    Py_XDECREF(attrs);
    Py_XDECREF(algos);
    Py_XDECREF(inputs);
    return row;
}

PyDoc_STRVAR(
    ops_doc,
    "ops()\n--\n\n"
    "The operator tables: {name: {\"doc\", \"inputs\", \"attrs\", \"algos\"}}.\n\n"
    "inputs: names in order, '?' marks an optional one, \"xs...\" one or more. attrs: dicts with name, kind\n"
    "(int, bool, float, ints, floats, enum), required, default, choices, doc. algos: {name: a\n"
    "dict with doc, devices, error_class, error_bound, error_rounding, compute_capability, effort,\n"
    "clblast, blocked, vectors}, preferred first. effort: what a multiply-add of the definition takes, in\n"
    "percent of one of the fastest kernel without transforms.");

static PyObject *ops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *dict = PyDict_New();
    for (int op = 0; dict && op < clcnn_op_count(); op++) {
        PyObject *row = op_row(op);
        if (!row || PyDict_SetItemString(dict, clcnn_op_get(op)->name, row) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(row);
    }
    return dict;
}

PyDoc_STRVAR(profile_rows_doc,
             "profile_rows()\n--\n\n"
             "The layers by which a CPU device is measured: {name: dict with op, algo, kernel, channels,\n"
             "filters, size, stride}.");

static PyObject *profile_rows(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < clcnn_profile_count(); i++) {
        const struct clcnn_profile_row *r = clcnn_profile_get(i);
        PyObject *row = Py_BuildValue("{s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "op", r->op, "algo", r->algo,
                                      "kernel", r->kernel, "channels", r->channels, "filters", r->filters,
                                      "size", r->size, "stride", r->stride);
        if (!row || PyDict_SetItemString(dict, r->name, row) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(row);
    }
    return dict;
}

PyDoc_STRVAR(version_doc, "version()\n--\n\n"
                          "Version of everything that a cached kernel binary depends on.");

static PyObject *version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString(clcnn_version());
}

/* ---- the module ---- */

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    *slot = (PyTypeObject *)type;
    return type ? PyModule_AddType(module, *slot) : -1;
}

static int module_exec(PyObject *module)
{
    struct state *state = PyModule_GetState(module);
    if (py_array_init(module) < 0 || py_error_init(module, state) < 0)
        return -1;
    if (add_type(module, &py_device_spec, &state->device_type) < 0 ||
        add_type(module, &py_tensor_spec, &state->tensor_type) < 0 ||
        add_type(module, &py_graph_spec, &state->graph_type) < 0 ||
        add_type(module, &py_states_spec, &state->states_type) < 0 ||
        add_type(module, &py_plan_spec, &state->plan_type) < 0)
        return -1;
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);
    Py_VISIT(state->device_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->graph_type);
    Py_VISIT(state->states_type);
    Py_VISIT(state->plan_type);
    Py_VISIT(state->error);
    for (int i = 0; i <= CLCNN_PENDING; i++)
        Py_VISIT(state->exception[i]);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);
    Py_CLEAR(state->device_type);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->graph_type);
    Py_CLEAR(state->states_type);
    Py_CLEAR(state->plan_type);
    Py_CLEAR(state->error);
    for (int i = 0; i <= CLCNN_PENDING; i++)
        Py_CLEAR(state->exception[i]);
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"devices", devices, METH_NOARGS, devices_doc},
    {"hash128", hash128, METH_O, hash128_doc},
    {"offer_driver", offer_driver, METH_O, offer_driver_doc},
    {"ops", ops, METH_NOARGS, ops_doc},
    {"profile_rows", profile_rows, METH_NOARGS, profile_rows_doc},
    {"version", version, METH_NOARGS, version_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_GIL_DISABLED /* else the limited API of 3.11, which lacks both; NumPy refuses other interpreters itself */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

struct PyModuleDef py_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "clcnn._core",
    .m_doc =
        "The C core of clcnn: devices, device tensors, graphs and plans. Use it through the package clcnn.",
    .m_size = sizeof(struct state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&py_module);
}
