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

bool py_stop(void *with)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return raised || (with != NULL && atomic_load((atomic_bool *)with));
}
