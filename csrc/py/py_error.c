/* py_error.c: the only place where a status of the core becomes a Python exception. */
#include "py.h"

#include <string.h>

#define MESSAGE_MAX 1000 /* characters of a message that quotes what a caller gave */
#define NOTE_MAX 4000    /* bytes of a compiler log shown under a traceback; .log has all of it */

/* One row an exception class; rows come after the rows they derive from. */
static const struct exception_row {
    const char *name;
    enum clcnn_status status;
    PyObject **base;          /* the builtin that it also is */
    enum clcnn_status parent; /* CLCNN_OK: clcnn.Error itself */
    /* attributes, with these class-level defaults: "i" integer 0, "s" empty string, "n" None */
    const char *fields;
    const char *doc;
} rows[] = {
    {"clcnn.errors.ArgumentError", CLCNN_E_VALUE, &PyExc_ValueError, CLCNN_OK, "",
     "An argument outside its rule. Also a ValueError."},
    {"clcnn.errors.ShapeError", CLCNN_E_SHAPE, &PyExc_ValueError, CLCNN_OK, "",
     "Shapes that do not fit together. Also a ValueError."},
    {"clcnn.errors.DtypeError", CLCNN_E_DTYPE, &PyExc_TypeError, CLCNN_OK, "",
     "An object or an element type that is not accepted. Also a TypeError."},
    {"clcnn.errors.UnsupportedError", CLCNN_E_UNSUPPORTED, &PyExc_NotImplementedError, CLCNN_OK, "",
     "Legal, but not offered; the message carries the reasons. Also a NotImplementedError."},
    {"clcnn.errors.BuildError", CLCNN_E_BUILD, &PyExc_RuntimeError, CLCNN_OK, "s:kernel s:options s:log",
     "A kernel did not build. Attributes: kernel (file stem), options, log. Also a RuntimeError."},
    {"clcnn.errors.DeviceError", CLCNN_E_CL, &PyExc_RuntimeError, CLCNN_OK, "i:code n:name n:call",
     "An OpenCL or CLBlast call failed. Attributes: code, name (\"CL_OUT_OF_RESOURCES\"), call. Also a "
     "RuntimeError."},
    {"clcnn.errors.DeviceMemoryError", CLCNN_E_DEVICE_MEM, &PyExc_MemoryError, CLCNN_E_CL, "",
     "Device memory is exhausted, or a memory limit would be exceeded. A DeviceError and a MemoryError."},
    {"clcnn.errors.NoDeviceError", CLCNN_E_NO_DEVICE, &PyExc_RuntimeError, CLCNN_OK, "",
     "No OpenCL loader, no platform or no matching device; the message says what was looked for and what to "
     "install."
     " Also a RuntimeError."},
    {"clcnn.errors.StateError", CLCNN_E_STATE, &PyExc_RuntimeError, CLCNN_OK, "",
     "Used after close(), while busy, or in a forked child. Also a RuntimeError."},
    {"clcnn.errors.RunTimeoutError", CLCNN_E_TIMEOUT, &PyExc_TimeoutError, CLCNN_OK, "",
     "The device did not finish within `timeout`. Also a TimeoutError."},
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

static PyObject *field_defaults(const char *fields)
{
    PyObject *dict = PyDict_New();
    for (const char *at = fields; dict && *at;) {
        char name[32];
        size_t n = strcspn(at + 2, " ");
        memcpy(name, at + 2, n);
        name[n] = 0;
        PyObject *value = *at == 'i'   ? PyLong_FromLong(0)
                          : *at == 's' ? PyUnicode_FromString("")
                                       : Py_NewRef(Py_None);
        if (!value || PyDict_SetItemString(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
        at += 2 + n;
        at += strspn(at, " ");
    }
    return dict;
}

static int add_row(PyObject *module, struct state *state, const struct exception_row *row)
{
    PyObject *parent = row->parent == CLCNN_OK ? state->error : state->exception[row->parent];
    PyObject *bases = PyTuple_Pack(2, parent, *row->base);
    PyObject *dict = field_defaults(row->fields);
    PyObject *made = bases && dict ? PyErr_NewExceptionWithDoc(row->name, row->doc, bases, dict) : NULL;
    Py_XDECREF(bases);
    Py_XDECREF(dict);
    state->exception[row->status] = made;
    return made ? PyModule_AddObjectRef(module, strrchr(row->name, '.') + 1, made) : -1;
}

int py_error_init(PyObject *module, struct state *state)
{
    state->error = PyErr_NewExceptionWithDoc("clcnn.errors.Error",
                                             "Base of every error that clcnn raises by itself.", NULL, NULL);
    if (!state->error || PyModule_AddObjectRef(module, "Error", state->error) < 0)
        return -1;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (add_row(module, state, &rows[i]) < 0)
            return -1;
    state->exception[CLCNN_E_HOST_MEM] = Py_NewRef(PyExc_MemoryError);
    state->exception[CLCNN_E_INTERNAL] = Py_NewRef(PyExc_SystemError);
    state->exception[CLCNN_E_STOPPED] = Py_NewRef(state->exception[CLCNN_E_STATE]); /* by Plan.stop() */
    state->exception[CLCNN_PENDING] = Py_NewRef(PyExc_SystemError);
    state->exception[CLCNN_OK] = Py_NewRef(PyExc_SystemError); /* "success" raised as an error */
    return 0;
}

/* Device names and compiler logs are whatever bytes a driver gives. */
static PyObject *text(const char *bytes, size_t limit)
{
    size_t n = bytes ? strlen(bytes) : 0;
    return PyUnicode_DecodeUTF8(bytes ? bytes : "", (Py_ssize_t)(n < limit ? n : limit), "replace");
}

static int set_field(PyObject *exception, const char *name, PyObject *value) /* steals value */
{
    int rc = value ? PyObject_SetAttrString(exception, name, value) : -1;
    Py_XDECREF(value);
    return rc;
}

static int set_fields(PyObject *exception, const struct clcnn_err *err)
{
    if (err->status == CLCNN_E_CL || err->status == CLCNN_E_DEVICE_MEM) {
        const char *name = err->cl_code ? clcnn_cl_code_name(err->cl_code) : NULL;
        return set_field(exception, "code", PyLong_FromLong(err->cl_code)) < 0 ||
                       set_field(exception, "name", Py_BuildValue("z", name)) < 0 ||
                       set_field(exception, "call", Py_BuildValue("z", err->call)) < 0
                   ? -1
                   : 0;
    }
    if (err->status != CLCNN_E_BUILD)
        return 0;
    if (set_field(exception, "kernel", text(err->kernel, sizeof err->kernel)) < 0 ||
        set_field(exception, "options", text(err->options, SIZE_MAX)) < 0 ||
        set_field(exception, "log", text(err->log, SIZE_MAX)) < 0)
        return -1;
    PyObject *note = text(err->log, NOTE_MAX);
    PyObject *done = note ? PyObject_CallMethod(exception, "add_note", "O", note) : NULL;
    Py_XDECREF(note);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *py_error_raise(struct state *state, struct clcnn_err *err)
{
    if (err->status == CLCNN_E_STOPPED && PyErr_Occurred()) {
        clcnn_err_clear(err);
        return NULL;
    }
    PyObject *type = state->exception[err->status];
    PyObject *message = text(err->text, sizeof err->text);
    PyObject *exception = message ? PyObject_CallFunctionObjArgs(type, message, NULL) : NULL;
    Py_XDECREF(message);
    if (exception && set_fields(exception, err) == 0)
        PyErr_SetObject(type, exception);
    Py_XDECREF(exception);
    clcnn_err_clear(err);
    return NULL;
}

PyObject *py_error_format(struct state *state, enum clcnn_status status, const char *format, ...)
{
    va_list args;
    PyErr_Clear(); /* what Python itself raised, of which this says more */
    va_start(args, format);
    PyObject *whole = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *message = whole ? PyUnicode_Substring(whole, 0, MESSAGE_MAX) : NULL;
    if (message)
        PyErr_SetObject(state->exception[status], message);
    Py_XDECREF(whole);
    Py_XDECREF(message);
    return NULL;
}
