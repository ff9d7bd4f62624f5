/* py_types.c: what the types of the module share. */
#include "py.h"

struct state *py_state_of_type(PyTypeObject *type)
{
    /* PyType_GetModuleByDef() is not in the limited API of 3.11. A Python subclass has no module of its own. */
    for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
        PyObject *module = PyType_GetModule(type);
        if (module && PyModule_GetDef(module) == &py_module)
            return PyModule_GetState(module);
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "this is no type of clcnn._core");
    return NULL;
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
