/* py_types.c: what the types of the module share. */
#include "py.h"

struct state *py_state_of_type(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, &py_module);
    return module ? PyModule_GetState(module) : NULL;
}

PyObject *py_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return Py_NewRef(self);
}

void py_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int py_bytes_parse(struct state *state, PyObject *object, const char *what, uint64_t *out)
{
    if (!PyIndex_Check(object)) {
        py_error_format(state, CLCNN_E_DTYPE, "%s: expected a number of bytes, got %R", what, object);
        return -1;
    }
    Py_ssize_t bytes = PyNumber_AsSsize_t(object, NULL); /* clips what does not fit */
    if (bytes == -1 && PyErr_Occurred())
        return -1;
    if (bytes < 0) {
        py_error_format(state, CLCNN_E_VALUE, "%s: a number of bytes must not be negative, got %S", what,
                        object);
        return -1;
    }
    *out = (uint64_t)bytes;
    return 0;
}
