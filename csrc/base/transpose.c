/* transpose.c: blocks that a core's cache holds, in tiles of 4 by 4 where the processor has registers of four floats. */
#include "base/transpose.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

enum { TILE = 4, BLOCK_ROWS = 4 * TILE, BLOCK_COLUMNS = 16 * TILE };

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void part(float *to, const float *from, int64_t rows, int64_t columns, int64_t to_step,
                 int64_t from_step)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            to[c * to_step + r] = from[r * from_step + c];
}

static void tile(float *to, const float *from, int64_t to_step, int64_t from_step)
{
#ifdef __SSE__
    __m128 row[TILE];
    for (int i = 0; i < TILE; i++)
        row[i] = _mm_loadu_ps(from + i * from_step);
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
    for (int i = 0; i < TILE; i++)
        _mm_storeu_ps(to + i * to_step, row[i]);
#else
    part(to, from, TILE, TILE, to_step, from_step);
#endif
}

static void block(float *to, const float *from, int64_t rows, int64_t columns, int64_t to_step,
                  int64_t from_step)
{
    for (int64_t c = 0; c < columns; c += TILE)
        for (int64_t r = 0; r < rows; r += TILE) {
            float *const at = to + c * to_step + r;
            const float *const source = from + r * from_step + c;
            if (rows - r >= TILE && columns - c >= TILE)
                tile(at, source, to_step, from_step);
            else
                part(at, source, lesser(rows - r, TILE), lesser(columns - c, TILE), to_step, from_step);
        }
}

void transpose_floats(float *to, const float *from, int64_t rows, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += BLOCK_COLUMNS)
        for (int64_t r = 0; r < rows; r += BLOCK_ROWS)
            block(to + c * rows + r, from + r * columns + c, lesser(rows - r, BLOCK_ROWS),
                  lesser(columns - c, BLOCK_COLUMNS), rows, columns);
}
