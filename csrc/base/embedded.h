/* The files of kernels/ as they were when the module was built: setup.py writes the table that is declared here. */
#ifndef CLCNN_EMBEDDED_H
#define CLCNN_EMBEDDED_H

#include <stddef.h>

struct clcnn_embedded {
    const char *name; /* path below kernels/: "conv/conv_ref.cl" */
    const char *text; /* NUL-terminated; length does not count the NUL */
    size_t length;
};

/* Sorted by name in strcmp order. */
extern const struct clcnn_embedded clcnn_embedded_files[];
extern const size_t clcnn_embedded_count;

#endif
