/* The part of CPython's stable ABI that cffi's generated code uses, declared by us so
 * that a build needs no Python headers: Debian keeps them in a package of their own,
 * and a cross build has none.
 *
 * Invariant: each declaration agrees with the stable ABI of CPython 3.10 and newer. An
 * object is opaque here: reference counts change through functions alone, so nothing
 * depends on its layout.
 * It is not a replacement for Python.h: code that needs more must use the real one.
 */
#ifndef HF_PYABI_PYTHON_H
#define HF_PYABI_PYTHON_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;
typedef struct _object PyObject;
typedef struct _ts PyThreadState;

#define PyAPI_FUNC(type) extern type
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *

PyAPI_FUNC(void) Py_IncRef(PyObject *);
PyAPI_FUNC(void) Py_DecRef(PyObject *); /* NULL is allowed in both */
#define Py_INCREF(op) Py_IncRef((PyObject *)(op))
#define Py_DECREF(op) Py_DecRef((PyObject *)(op))
#define Py_XDECREF(op) Py_DecRef((PyObject *)(op))

extern PyObject _Py_NoneStruct;
#define Py_None (&_Py_NoneStruct)

PyAPI_FUNC(PyThreadState *) PyEval_SaveThread(void);
PyAPI_FUNC(void) PyEval_RestoreThread(PyThreadState *);
#define Py_BEGIN_ALLOW_THREADS \
    {                          \
        PyThreadState *_save = PyEval_SaveThread();
#define Py_END_ALLOW_THREADS     \
    PyEval_RestoreThread(_save); \
    }

PyAPI_FUNC(int)
    PyArg_UnpackTuple(PyObject *, const char *, Py_ssize_t, Py_ssize_t, ...);
PyAPI_FUNC(PyObject *) PyBool_FromLong(long);
PyAPI_FUNC(PyObject *) PyErr_Occurred(void);
PyAPI_FUNC(double) PyFloat_AsDouble(PyObject *);
PyAPI_FUNC(PyObject *) PyFloat_FromDouble(double);
PyAPI_FUNC(PyObject *) PyImport_ImportModule(const char *);
PyAPI_FUNC(PyObject *) PyLong_FromLong(long);
PyAPI_FUNC(PyObject *) PyLong_FromLongLong(long long);
PyAPI_FUNC(PyObject *) PyLong_FromUnsignedLong(unsigned long);
PyAPI_FUNC(PyObject *) PyLong_FromUnsignedLongLong(unsigned long long);
PyAPI_FUNC(PyObject *) PyLong_FromVoidPtr(void *);
PyAPI_FUNC(PyObject *) PyObject_CallMethod(PyObject *, const char *, const char *, ...);
PyAPI_FUNC(void *) PyObject_Malloc(size_t);
PyAPI_FUNC(void) PyObject_Free(void *);
PyAPI_FUNC(void) Py_FatalError(const char *) __attribute__((noreturn));

#endif
