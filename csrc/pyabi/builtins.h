/* Functions that Python calls as it does its own: not through cffi, which would give
 * the interpreter's lock away and take it back in each call. They need no state; each
 * is told of in the file that has it.
 */
#ifndef HF_PYABI_BUILTINS_H
#define HF_PYABI_BUILTINS_H

#include "Python.h"

/* Each as METH_FASTCALL wants it: args are borrowed, the result is the caller's, NULL
 * with an exception set. */
PyObject *hf_line(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *hf_pack(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *hf_has_long_number(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
