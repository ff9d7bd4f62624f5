/* grid_sample_columns.cl: maps at the places that a grid gives (grid_sample_ref.cl), linear or nearest: what some
 * columns of a row read is worked out once for all channels; for CPU devices.
 *
 * Layouts: N,C,H,W and N,H,W,2 (x first) with batch strides; struct grid_args.
 * Index map: group = (n * H + row) * parts + part; a work-item takes a part of the channels of an output row.
 * Work-group: WG = 1. Local memory: none.
 * Defines: KIND (0 or 1), PADDING, ALIGN (grid.clh). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#ifndef FN
#define FN(x) grid_sample_columns_##x
#endif
#include "vision/grid.clh"
#define COLUMNS 64
#define TAPS (KIND == 1 ? 1 : 2)
#define READS (TAPS * TAPS)

/* What columns read: elements of a channel, their weights, and whether there are such elements. */
struct FN(reads) {
    int from[READS][COLUMNS];
    float weight[READS][COLUMNS];
    int there[READS][COLUMNS];
};

/* The taps of the coordinates at `grid`, which lie two apart; one loop of vectors. */
void FN(places)(int first[COLUMNS], float weight[TAPS][COLUMNS], SRC grid, int count, int size)
{
    for (int i = 0; i < count; i++) {
        const struct FN(taps) t = FN(taps_of)(grid[2 * i], size);
        first[i] = t.first;
#pragma unroll
        for (int k = 0; k < TAPS; k++)
            weight[k][i] = t.weight[k];
    }
}

void FN(look)(struct FN(reads) *r, SRC grid, int count, const struct grid_args *a)
{
    int down[COLUMNS], across[COLUMNS];
    float high[TAPS][COLUMNS], wide[TAPS][COLUMNS];
    const int height = a->in[1], width = a->in[2];
    FN(places)(across, wide, grid, count, width);
    FN(places)(down, high, grid + 1, count, height);
#pragma unroll
    for (int k = 0; k < READS; k++)
        for (int i = 0; i < count; i++) {
            const int v = down[i] + k / TAPS, u = across[i] + k % TAPS;
            const int there = (v >= 0) & (v < height) & (u >= 0) & (u < width);
            r->there[k][i] = there;
            r->from[k][i] = there ? v * width + u : 0;
            r->weight[k][i] = high[k / TAPS][i] * wide[k % TAPS][i];
        }
}

void FN(body)(ulong group, SRC x, SRC grid, DST y, const struct grid_args *args)
{
    const struct grid_args copy = *args, *a = &copy; /* stores of y cannot change it */
    const int parts = (int)a->pieces, part = (int)(group % parts);
    const long line = (long)(group / parts), n = line / a->out[1], row = line - n * a->out[1];
    const int first = a->c * part / parts, past = a->c * (part + 1) / parts;
    const long map = (long)a->in[1] * a->in[2], made = (long)a->out[1] * a->out[2];
    for (int begin = 0; begin < a->out[2]; begin += COLUMNS) {
        struct FN(reads) r;
        const int count = min(COLUMNS, a->out[2] - begin);
        FN(look)(&r, grid + n * a->grid_n + (row * a->out[2] + begin) * 2, count, a);
        for (int c = first; c < past; c++) {
            SRC xc = x + n * a->x_n + c * map;
            DST yc = y + n * a->y_n + c * made + row * a->out[2] + begin;
            for (int i = 0; i < count; i++) {
                float sum = 0.0f;
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    const float v = xc[r.from[k][i]];
                    sum = fma(r.weight[k][i], r.there[k][i] ? v : 0.0f, sum);
                }
                yc[i] = sum;
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC grid, ulong grid_off, DST y, ulong y_off, const struct grid_args a)
{
    FN(body)(GROUP, x + x_off, grid + grid_off, y + y_off, &a);
}
