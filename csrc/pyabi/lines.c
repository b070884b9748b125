/* Lines of JSON from any number of Python threads, collected for the one that writes
 * them: what NdjsonWriter.write does for each record, compiled.
 *
 * It is called as any built-in function, not through cffi: that would give the
 * interpreter's lock away and take it back each time, which costs more than all of
 * this.
 *
 * Invariant: what is put is taken once, whole and in order, or was refused to its
 * caller. The mutex makes that so with and without the interpreter's lock; nothing is
 * called under it but malloc, so no thread waits here for another one's Python or
 * output. It is not a queue: room and wake-ups are its user's, hardfetch/writer.py.
 */
#include "Python.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>

#include "err.h"
#include "hf.h"

/* Memory that is kept while nothing waits. */
#define KEEP ((size_t)1 << 20)

/* What the helper is called for, with the object: HELPS of hardfetch/writer.py. */
enum { HELP_ODD, HELP_LOOK, HELP_SEALED };

typedef struct buffer {
    char *data; /* owned */
    size_t len;
    size_t cap;
} buffer;

typedef struct lines {
    PyObject *dumps; /* dumps(obj, None, option) is the line, or raises TypeError */
    PyObject *option;
    PyObject *help; /* help(HELP_…, obj): all that is not the common case */
    buffer taken;   /* what the last take gave; only its thread touches it */
    uint64_t total; /* bytes ever put */
    size_t look_at; /* bytes waiting from which on each put asks for help */
    int sealed;     /* 1: nothing is taken any more */
    buffer waiting; /* put and not taken */
    pthread_mutex_t lock;
} lines;

/* Without a name, which each call would compare: only the functions below see it. */
static lines *of(PyObject *capsule) {
    return PyCapsule_GetPointer(capsule, NULL);
}

static PyObject *none(void) {
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *ask(lines *l, int what, PyObject *obj) {
    PyObject *number = PyLong_FromLong(what);
    if (number == NULL) {
        return NULL;
    }
    PyObject *answer = PyObject_CallFunctionObjArgs(l->help, number, obj, NULL);
    Py_DECREF(number);
    return answer;
}

static int reserve(buffer *b, size_t extra) {
    if (b->cap - b->len >= extra) {
        return 0;
    }
    size_t cap = b->cap < 4096 ? 4096 : 2 * b->cap;
    while (cap - b->len < extra) {
        cap *= 2;
    }
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        return -1;
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

/* Appends whole lines. Returns None or what help says, NULL with an exception set. */
static PyObject *append(lines *l, const char *p, size_t n) {
    pthread_mutex_lock(&l->lock);
    int what = l->sealed ? HELP_SEALED : -1;
    int failed = what < 0 && reserve(&l->waiting, n) != 0;
    if (what < 0 && !failed) {
        memcpy(l->waiting.data + l->waiting.len, p, n);
        l->waiting.len += n;
        l->total += n;
        what = l->waiting.len >= l->look_at ? HELP_LOOK : -1;
    }
    pthread_mutex_unlock(&l->lock);
    if (failed) {
        return PyErr_NoMemory();
    }
    return what < 0 ? none() : ask(l, what, Py_None);
}

/* Byte by byte, which compilers turn into many bytes at once: five times as fast as by
 * words of four, for which they don't. */
static unsigned stands_at(const char *p, const char *four) {
    return (unsigned)(p[0] == four[0]) & (unsigned)(p[1] == four[1]) &
           (unsigned)(p[2] == four[2]) & (unsigned)(p[3] == four[3]);
}

/* Whether a line holds what tells that the encoder may have erred: `null`, which may
 * have been NaN, and `:60"`, which may be an offset of 60 minutes. */
static bool is_doubtful(const char *p, size_t n) {
    size_t ends = n < 4 ? 0 : n - 3;
    unsigned char found = 0;
    for (size_t i = 0; i < ends; i++) {
        found |= (unsigned char)(stands_at(p + i, "null") | stands_at(p + i, ":60\""));
    }
    return found != 0;
}

static bool holds_sixty(const char *p, size_t n) {
    size_t ends = n < 4 ? 0 : n - 3;
    unsigned char found = 0;
    for (size_t i = 0; i < ends; i++) {
        found |= (unsigned char)stands_at(p + i, ":60\"");
    }
    return found != 0;
}

#ifdef Py_GIL_DISABLED
/* Other threads may change obj meanwhile: the helper knows how to look. */
static bool is_finite(PyObject *obj) {
    return obj == Py_None;
}
#else
/* Whether every float in obj surely has a JSON form. The encoder has bounded the depth;
 * no Python runs here, so obj does not change. */
static bool is_finite(PyObject *obj) {
    PyObject *type = PyObject_Type(obj);
    Py_DecRef(type); /* it lives as long as obj */
    if (type == (PyObject *)&PyFloat_Type) {
        return isfinite(PyFloat_AsDouble(obj));
    }
    if (type == (PyObject *)&PyDict_Type) {
        PyObject *key;
        PyObject *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(obj, &at, &key, &value)) {
            if (!is_finite(value)) {
                return false;
            }
        }
        return true;
    }
    if (type == (PyObject *)&PyList_Type) {
        Py_ssize_t n = PyList_Size(obj);
        for (Py_ssize_t i = 0; i < n; i++) {
            if (!is_finite(PyList_GetItem(obj, i))) {
                return false;
            }
        }
        return true;
    }
    return obj == Py_None || type == (PyObject *)&PyUnicode_Type ||
           type == (PyObject *)&PyLong_Type || type == (PyObject *)&PyBool_Type;
}
#endif

static PyObject *write_one(lines *l, PyObject *obj) {
    PyObject *line =
        PyObject_CallFunctionObjArgs(l->dumps, obj, Py_None, l->option, NULL);
    if (line == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return NULL;
        }
        PyErr_Clear();
        return ask(l, HELP_ODD, obj);
    }
    char *p;
    Py_ssize_t n;
    PyObject *answer = NULL;
    if (PyBytes_AsStringAndSize(line, &p, &n) == 0) {
        bool odd =
            is_doubtful(p, (size_t)n) && (holds_sixty(p, (size_t)n) || !is_finite(obj));
        answer = odd ? ask(l, HELP_ODD, obj) : append(l, p, (size_t)n);
    }
    Py_DECREF(line);
    return answer;
}

/* The one argument of write, also by its name. NULL with an exception set. */
static PyObject *argument(PyObject *const *args, Py_ssize_t n, PyObject *names) {
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    if (n + named != 1 || (named == 1 && PyUnicode_CompareWithASCIIString(
                                             PyTuple_GetItem(names, 0), "obj") != 0)) {
        PyErr_SetString(PyExc_TypeError, "write() takes one argument, obj");
        return NULL;
    }
    return args[0];
}

static PyObject *write_object(PyObject *capsule, PyObject *const *args, Py_ssize_t n,
                              PyObject *names) {
    lines *l = of(capsule);
    PyObject *obj = l != NULL ? argument(args, n, names) : NULL;
    return obj != NULL ? write_one(l, obj) : NULL;
}

/* Appends bytes, which are whole lines. */
static PyObject *put(PyObject *capsule, PyObject *bytes) {
    lines *l = of(capsule);
    char *p;
    Py_ssize_t n;
    if (l == NULL || PyBytes_AsStringAndSize(bytes, &p, &n) != 0) {
        return NULL;
    }
    return append(l, p, (size_t)n);
}

static void empty(buffer *b) {
    b->len = 0;
    if (b->cap > KEEP) {
        free(b->data);
        *b = (buffer){NULL, 0, 0};
    }
}

/* Gives all that waits as a memoryview, valid until the next call; None for nothing. */
static PyObject *take(PyObject *capsule, PyObject *unused) {
    (void)unused;
    lines *l = of(capsule);
    if (l == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&l->lock);
    if (l->taken.len == 0) {
        buffer swap = l->taken;
        l->taken = l->waiting;
        l->waiting = swap;
    }
    if (l->taken.len == 0) {
        empty(&l->taken);
        empty(&l->waiting);
    }
    pthread_mutex_unlock(&l->lock);
    if (l->taken.len == 0) {
        return none();
    }
    enum { READ = 0x100 }; /* PyBUF_READ, which not every Python.h has */
    PyObject *view =
        PyMemoryView_FromMemory(l->taken.data, (Py_ssize_t)l->taken.len, READ);
    if (view != NULL) { /* else it is given the next time */
        l->taken.len = 0;
    }
    return view;
}

/* Sets from how many waiting bytes on each put asks for help. */
static PyObject *look(PyObject *capsule, PyObject *number) {
    lines *l = of(capsule);
    unsigned long long at = PyLong_AsUnsignedLongLong(number);
    if (l == NULL || (at == (unsigned long long)-1 && PyErr_Occurred())) {
        return NULL;
    }
    pthread_mutex_lock(&l->lock);
    l->look_at = at < SIZE_MAX ? (size_t)at : SIZE_MAX;
    pthread_mutex_unlock(&l->lock);
    return none();
}

/* From now on each put is refused: help is asked, to tell why. */
static PyObject *seal(PyObject *capsule, PyObject *unused) {
    (void)unused;
    lines *l = of(capsule);
    if (l == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&l->lock);
    l->sealed = 1;
    pthread_mutex_unlock(&l->lock);
    return none();
}

/* Bytes ever put. */
static PyObject *total(PyObject *capsule, PyObject *unused) {
    (void)unused;
    lines *l = of(capsule);
    if (l == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&l->lock);
    uint64_t bytes = l->total;
    pthread_mutex_unlock(&l->lock);
    return PyLong_FromUnsignedLongLong(bytes);
}

static void destroy(PyObject *capsule) {
    lines *l = of(capsule);
    if (l == NULL) {
        return;
    }
    Py_DECREF(l->dumps);
    Py_DECREF(l->option);
    Py_DECREF(l->help);
    free(l->waiting.data);
    free(l->taken.data);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static PyMethodDef methods[] = {
    {"write", (PyCFunction)(void (*)(void))write_object, METH_FASTCALL | METH_KEYWORDS,
     NULL},
    {"put", put, METH_O, NULL},
    {"take", take, METH_NOARGS, NULL},
    {"look", look, METH_O, NULL},
    {"seal", seal, METH_NOARGS, NULL},
    {"total", total, METH_NOARGS, NULL},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Makes the capsule around l, which it owns then. */
static PyObject *wrap(lines *l, PyObject *list) {
    PyObject **held[] = {&l->dumps, &l->option, &l->help};
    PyObject *capsule = PyCapsule_New(l, NULL, destroy);
    if (capsule == NULL) {
        free(l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    for (int i = 0; i < 3; i++) {
        *held[i] =
            PyList_GetItem(list, i); /* borrowed; NULL and set for a short list */
        Py_IncRef(*held[i]);
    }
    return capsule;
}

static int fill(PyObject *list) {
    lines *l = calloc(1, sizeof *l);
    PyObject *capsule = l != NULL ? wrap(l, list) : PyErr_NoMemory();
    int rc = capsule != NULL ? 0 : -1;
    for (int i = 0; rc == 0 && i < METHODS; i++) {
        PyObject *f = PyCFunction_NewEx(&methods[i], capsule, NULL);
        rc = f != NULL ? PyList_Append(list, f) : -1;
        Py_DecRef(f);
    }
    Py_DecRef(capsule);
    return rc;
}

int hf_python_lines(void *list) {
    PyGILState_STATE state = PyGILState_Ensure(); /* cffi has given the lock away */
    int rc = fill(list);
    if (rc != 0) {
        PyErr_Clear();
    }
    PyGILState_Release(state);
    return rc == 0 ? 0 : HF_ENOMEM;
}
