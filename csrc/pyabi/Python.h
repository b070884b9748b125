/* The part of CPython's stable ABI that cffi's generated code and pyabi use, declared
 * by us so that a build needs no Python headers: Debian keeps them in a package of
 * their own, and a cross build has none.
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

/* For the other files of this folder. */
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef void (*PyCapsule_Destructor)(PyObject *);
typedef enum { PyGILState_LOCKED, PyGILState_UNLOCKED } PyGILState_STATE;
typedef struct PyMethodDef {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;
#define METH_KEYWORDS 0x0002
#define METH_NOARGS 0x0004
#define METH_O 0x0008
#define METH_FASTCALL 0x0080
PyAPI_FUNC(PyObject *) PyExc_Exception;
PyAPI_FUNC(PyObject *) PyExc_TypeError;
typedef struct _typeobject PyTypeObject;
extern PyTypeObject PyBool_Type, PyDict_Type, PyFloat_Type, PyList_Type, PyLong_Type,
    PyUnicode_Type;

PyAPI_FUNC(char *) PyBytes_AsString(PyObject *);
PyAPI_FUNC(int) PyBytes_AsStringAndSize(PyObject *, char **, Py_ssize_t *);
PyAPI_FUNC(PyObject *) PyBytes_FromStringAndSize(const char *, Py_ssize_t);
PyAPI_FUNC(PyObject *) PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
PyAPI_FUNC(void *) PyCapsule_GetPointer(PyObject *, const char *);
PyAPI_FUNC(PyObject *) PyCapsule_New(void *, const char *, PyCapsule_Destructor);
PyAPI_FUNC(int) PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **);
PyAPI_FUNC(void) PyErr_Clear(void);
PyAPI_FUNC(int) PyErr_ExceptionMatches(PyObject *);
PyAPI_FUNC(PyObject *) PyErr_NoMemory(void);
PyAPI_FUNC(void) PyErr_SetString(PyObject *, const char *);
PyAPI_FUNC(PyGILState_STATE) PyGILState_Ensure(void);
PyAPI_FUNC(void) PyGILState_Release(PyGILState_STATE);
PyAPI_FUNC(int) PyList_Append(PyObject *, PyObject *);
PyAPI_FUNC(PyObject *) PyList_GetItem(PyObject *, Py_ssize_t);
PyAPI_FUNC(Py_ssize_t) PyList_Size(PyObject *);
PyAPI_FUNC(unsigned long long) PyLong_AsUnsignedLongLong(PyObject *);
PyAPI_FUNC(PyObject *) PyMemoryView_FromMemory(char *, Py_ssize_t, int);
PyAPI_FUNC(PyObject *) PyObject_CallFunctionObjArgs(PyObject *, ...);
PyAPI_FUNC(PyObject *) PyObject_GetItem(PyObject *, PyObject *);
PyAPI_FUNC(PyObject *) PyObject_Type(PyObject *);
PyAPI_FUNC(PyObject *) PyTuple_GetItem(PyObject *, Py_ssize_t);
PyAPI_FUNC(PyObject *) PyTuple_Pack(Py_ssize_t, ...);
PyAPI_FUNC(Py_ssize_t) PyTuple_Size(PyObject *);
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *);
PyAPI_FUNC(int) PyUnicode_CompareWithASCIIString(PyObject *, const char *);

PyAPI_FUNC(void) Py_FatalError(const char *) __attribute__((noreturn));

#endif
