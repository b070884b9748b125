/* A Result's own line of NDJSON, made of what its frame brought: record.c's work,
 * called as a built-in function, as lines.c is and for the same reason.
 *
 * Invariant: nothing but its arguments counts, so it needs no engine, and any number of
 * threads may be in it. The interpreter's lock is given away only for bodies that take
 * so long that others should run meanwhile. */
#include "Python.h"

#include "atomics.h"
#include "builtins.h"
#include "hf.h"
#include "record.h"

/* Bodies of so many bytes take some 50 us; to give the lock away and to get it back
 * takes a tenth of one as long as nobody else wants it, but 5 ms where others do. */
enum { LONG = 256 << 10 };

/* Memory that is worth keeping between calls. */
enum { KEEP = 1 << 20 };

/* What the last call worked with, for the next one: where several threads are at work
 * the others make their own. Its partner is the same variable in take and give. */
static _Atomic(hf_encoder *) spare;

static hf_encoder *take(void) {
    hf_encoder *e = hf_xchg(&spare, NULL, HF_ACQUIRE);
    if (e == NULL && (e = calloc(1, sizeof *e)) != NULL &&
        hf_encoder_init(e, NULL) != 0) {
        free(e);
        e = NULL;
    }
    return e;
}

static void give(hf_encoder *e) {
    hf_buf_reset(&e->scratch, KEEP);
    hf_encoder *other = hf_xchg(&spare, e, HF_ACQ_REL);
    if (other != NULL) {
        hf_encoder_free(other);
        free(other);
    }
}

/* An argument's bytes. */
typedef struct view {
    char *p;
    Py_ssize_t n;
} view;

static int make(hf_encoder *e, view head, view body, uint64_t form) {
    return hf_record_line(e, (const uint8_t *)head.p, (size_t)head.n,
                          (const uint8_t *)body.p, (size_t)body.n, form);
}

PyObject *hf_line(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    view head;
    view body;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "line takes head, body and form");
        return NULL;
    }
    uint64_t form = PyLong_AsUnsignedLongLong(args[2]);
    if (PyBytes_AsStringAndSize(args[0], &head.p, &head.n) != 0 ||
        PyBytes_AsStringAndSize(args[1], &body.p, &body.n) != 0 ||
        (form == UINT64_MAX && PyErr_Occurred())) {
        return NULL;
    }
    hf_encoder *e = take();
    if (e == NULL) {
        return PyErr_NoMemory();
    }
    int rc;
    if (body.n < LONG) {
        rc = make(e, head, body, form);
    } else {
        Py_BEGIN_ALLOW_THREADS rc = make(e, head, body, form);
        Py_END_ALLOW_THREADS
    }
    PyObject *made = NULL;
    if (rc == 0) {
        made = PyBytes_FromStringAndSize((const char *)e->scratch.data,
                                         (Py_ssize_t)e->scratch.len);
    } else if (rc == HF_EINVAL) {
        PyErr_SetString(PyExc_TypeError, "line: not the head of a record");
    } else {
        PyErr_NoMemory();
    }
    give(e);
    return made;
}
