/* transpose.h: matrices of floats. */
#ifndef CLCNN_TRANSPOSE_H
#define CLCNN_TRANSPOSE_H

#include <stdint.h>

/* to [columns, rows] = the transpose of from [rows, columns]; row-major, apart from each other. */
void transpose_floats(float *to, const float *from, int64_t rows, int64_t columns);

#endif
