#include "builtins.h"

#include "err.h"
#include "hf.h"

#define METHOD(name, f) \
    { name, (PyCFunction)(void (*)(void))(f), METH_FASTCALL, NULL }

static PyMethodDef methods[] = {METHOD("line", hf_line), METHOD("pack", hf_pack),
                                METHOD("has_long_number", hf_has_long_number)};

int hf_python_builtins(void *list) {
    PyGILState_STATE state = PyGILState_Ensure(); /* cffi has given the lock away */
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof methods / sizeof methods[0]; i++) {
        PyObject *f = PyCFunction_NewEx(&methods[i], NULL, NULL);
        rc = f != NULL ? PyList_Append(list, f) : -1;
        Py_DecRef(f);
    }
    if (rc != 0) {
        PyErr_Clear();
    }
    PyGILState_Release(state);
    return rc == 0 ? 0 : HF_ENOMEM;
}
