/* The few names of CPython that curl_cffi's shared object wants before it lets itself
 * be loaded outside of Python. Its libcurl calls none of them, so addresses will do. */
#define NAME(n)        \
    extern char n[64]; \
    char n[64];

NAME(PyArg_UnpackTuple)
NAME(PyErr_Occurred)
NAME(PyEval_RestoreThread)
NAME(PyEval_SaveThread)
NAME(PyImport_ImportModule)
NAME(PyLong_FromLong)
NAME(PyLong_FromVoidPtr)
NAME(PyObject_CallMethod)
NAME(PyObject_Free)
NAME(PyObject_Malloc)
NAME(_Py_Dealloc)
NAME(_Py_NoneStruct)

#undef NAME
