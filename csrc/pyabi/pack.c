/* The packed form of a request that is given as a dict: what request.py does, for all
 * that holds nothing odd.
 *
 * Invariant: nothing is checked here. What a key and its value are packed as comes from
 * Python's memory of those that it has checked, or from Python itself; only the URL, of
 * which each request has another one, is taken as it is. What does not go this way,
 * whatever is wrong with it, is left to request.py, which tells.
 */
#include "Python.h"

#include <stdbool.h>

#include "builtins.h"
#include "hf.h"

/* Items of a frame at most, else it is Python's; the first three have their places, so
 * that a frame begins with its URL. */
enum { URL, ID, META, FIRST, MOST = 64 };

typedef struct piece {
    PyObject *owner; /* held; NULL: there is no such item */
    const char *p;
    Py_ssize_t n;
    int tag; /* 0: its head is part of it */
} piece;

typedef struct request {
    int count;
    int bodies;
    PyObject *soft; /* held, or NULL */
    PyObject *hard;
    piece pieces[MOST];
} request;

/* What Python gives: memories, by pairs, of options, headers and limits; dumps(value);
 * and option(key, value), which packs what no memory is for. */
enum { GIVEN, OPTIONS, HEADERS, LIMITS, DUMPS, OPTION, ARGS };

#define IS(name, n, word) ((n) == sizeof(word) - 1 && memcmp(name, word, n) == 0)

/* Takes over bytes, NULL where they could not be made. */
static int put(request *r, int place, int tag, PyObject *bytes) {
    char *p;
    Py_ssize_t n;
    if (bytes == NULL) {
        return -1;
    }
    if (place >= MOST || PyBytes_AsStringAndSize(bytes, &p, &n) != 0) {
        Py_DECREF(bytes);
        return -1;
    }
    r->pieces[place] = (piece){bytes, p, n, tag};
    return 0;
}

/* The same, behind all others; bytes have their head. */
static int put_last(request *r, PyObject *bytes) {
    int rc = put(r, r->count, 0, bytes);
    r->count += rc == 0;
    return rc;
}

static int put_known(request *r, PyObject *memory, PyObject *a, PyObject *b) {
    PyObject *pair = PyTuple_Pack(2, a, b);
    PyObject *bytes = pair != NULL ? PyObject_GetItem(memory, pair) : NULL;
    Py_DecRef(pair);
    return put_last(r, bytes);
}

static bool is_a(PyObject *obj, PyTypeObject *wanted) {
    PyObject *type = PyObject_Type(obj);
    Py_DecRef(type); /* it lives as long as obj */
    return type == (PyObject *)wanted;
}

/* What a memory takes: of these types alone equal values mean the same. */
static bool is_plain(PyObject *obj) {
    return is_a(obj, &PyUnicode_Type) || is_a(obj, &PyLong_Type) ||
           is_a(obj, &PyFloat_Type);
}

static int put_headers(request *r, PyObject *memory, PyObject *headers) {
    PyObject *name;
    PyObject *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(headers, &at, &name, &value)) {
        bool text = is_a(name, &PyUnicode_Type) && is_a(value, &PyUnicode_Type);
        if (!text || put_known(r, memory, name, value) != 0) {
            return -1;
        }
    }
    return 0;
}

static int put_url(request *r, PyObject *url) {
    Py_ssize_t n;
    const char *p = PyUnicode_AsUTF8AndSize(url, &n);
    if (p == NULL) {
        return -1; /* no text, or one with a lone surrogate */
    }
    Py_INCREF(url);
    r->pieces[URL] = (piece){url, p, n, HF_TAG_URL};
    return 0;
}

static int put_json(request *r, int place, int tag, PyObject *dumps, PyObject *value) {
    return put(r, place, tag, PyObject_CallFunctionObjArgs(dumps, value, NULL));
}

static int hold(PyObject **place, PyObject *obj) {
    Py_INCREF(obj);
    *place = obj;
    return 0;
}

static int put_option(request *r, PyObject *const *args, PyObject *key,
                      PyObject *value) {
    if (is_plain(value)) {
        return put_known(r, args[OPTIONS], key, value);
    }
    PyObject *bytes = PyObject_CallFunctionObjArgs(args[OPTION], key, value, NULL);
    return put_last(r, bytes);
}

static int put_field(request *r, PyObject *const *args, PyObject *key,
                     PyObject *value) {
    Py_ssize_t n;
    const char *name = PyUnicode_AsUTF8AndSize(key, &n);
    if (name == NULL) {
        return -1;
    }
    if (IS(name, n, "url")) {
        return put_url(r, value);
    }
    if (IS(name, n, "id")) {
        return put_json(r, ID, HF_TAG_ID, args[DUMPS], value);
    }
    if (IS(name, n, "meta")) {
        return put_json(r, META, HF_TAG_META, args[DUMPS], value);
    }
    if (IS(name, n, "timeout")) {
        return hold(&r->soft, value);
    }
    if (IS(name, n, "hard_timeout")) {
        return hold(&r->hard, value);
    }
    if (IS(name, n, "headers") && is_a(value, &PyDict_Type)) {
        return put_headers(r, args[HEADERS], value);
    }
    r->bodies += IS(name, n, "body") || IS(name, n, "body_base64");
    return put_option(r, args, key, value);
}

static int put_limits(request *r, PyObject *memory) {
    PyObject *soft = r->soft != NULL ? r->soft : Py_None;
    PyObject *hard = r->hard != NULL ? r->hard : Py_None;
    if (soft == Py_None && hard == Py_None) {
        return 0;
    }
    bool plain =
        (soft == Py_None || is_plain(soft)) && (hard == Py_None || is_plain(hard));
    return plain ? put_known(r, memory, soft, hard) : -1;
}

static int collect(request *r, PyObject *const *args) {
    PyObject *key;
    PyObject *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(args[GIVEN], &at, &key, &value)) {
        if (value != Py_None && put_field(r, args, key, value) != 0) {
            return -1;
        }
    }
    return r->pieces[URL].owner != NULL && r->bodies < 2 ? put_limits(r, args[LIMITS])
                                                         : -1;
}

/* n bytes, little endian. */
static char *put_number(char *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) {
        *p++ = (char)(v >> (8 * i));
    }
    return p;
}

enum { FRAME_HEAD = 4, ITEM_HEAD = 5 };

/* Returns NULL, without an exception where a length does not fit its number. */
static PyObject *make(const request *r) {
    size_t size = 0;
    for (int i = 0; i < r->count; i++) {
        const piece *x = &r->pieces[i];
        if (x->owner != NULL) {
            size += (size_t)x->n + (x->tag != 0 ? ITEM_HEAD : 0);
        }
    }
    if (size > UINT32_MAX) {
        return NULL;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(FRAME_HEAD + size));
    char *p = made != NULL ? PyBytes_AsString(made) : NULL;
    if (p == NULL) {
        return NULL;
    }
    p = put_number(p, size, FRAME_HEAD);
    for (int i = 0; i < r->count; i++) {
        const piece *x = &r->pieces[i];
        if (x->owner == NULL) {
            continue;
        }
        if (x->tag != 0) {
            *p++ = (char)x->tag;
            p = put_number(p, (uint64_t)x->n, ITEM_HEAD - 1);
        }
        memcpy(p, x->p, (size_t)x->n);
        p += x->n;
    }
    return made;
}

static void let_go(request *r) {
    Py_XDECREF(r->soft);
    Py_XDECREF(r->hard);
    for (int i = 0; i < r->count; i++) {
        Py_XDECREF(r->pieces[i].owner);
    }
}

/* Returns the frame, or None where Python is to look. */
PyObject *hf_pack(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    request r;
    r.count = FIRST;
    r.bodies = 0;
    r.soft = r.hard = NULL;
    for (int i = 0; i < FIRST; i++) {
        r.pieces[i].owner = NULL;
    }
    PyObject *made = NULL;
    if (count != ARGS) {
        PyErr_SetString(PyExc_TypeError, "pack takes six arguments");
        return NULL;
    }
    if (collect(&r, args) == 0) {
        made = make(&r);
    }
    let_go(&r);
    if (made == NULL && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return NULL; /* Ctrl-C, or a deadline's */
        }
        PyErr_Clear();
    }
    if (made == NULL) {
        Py_INCREF(Py_None);
        made = Py_None;
    }
    return made;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Whether at least LONG digits follow each other: every LONG-th byte is one of them. */
static bool has_digits(const char *p, Py_ssize_t n) {
    enum { LONG = 19 }; /* INT64_MAX has as many */
    for (Py_ssize_t i = LONG - 1; i < n; i += LONG) {
        Py_ssize_t first = i + 1;
        Py_ssize_t end = i + 1;
        while (first > 0 && is_digit(p[first - 1])) {
            first--;
        }
        while (first <= i && end < n && is_digit(p[end])) {
            end++;
        }
        if (end - first >= LONG) {
            return true;
        }
    }
    return false;
}

PyObject *hf_has_long_number(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    char *p;
    Py_ssize_t n;
    (void)self;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "has_long_number takes one argument");
        return NULL;
    }
    return PyBytes_AsStringAndSize(args[0], &p, &n) == 0
               ? PyBool_FromLong(has_digits(p, n))
               : NULL;
}
