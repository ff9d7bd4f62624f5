/* resize_blocked.cl: resampling of 1 to 3 spatial dimensions, nearest or (multi)linear, on channel blocks, for CPU
 * devices.
 *
 * Output index i of a dimension reads at (i * mul + add) / div, as in resize_ref.cl, and blends in the same order.
 * Layouts: x, y [ceil(C/V)][D][H][W][V] with batch strides.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `run` output rows of one block of
 * channels, some columns at a time, of which the coordinates are worked out once.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) resize_blocked_##x
#endif

#define COLUMNS 64

/* Where one output index reads: two neighbours (equal ones for nearest) and the second one's share. */
struct FN(tap) {
    int low, high;
    float part;
};

struct FN(tap) FN(tap_of)(long i, int d, const struct resize_blocked_args *a)
{
    const long div = a->div[d], last = a->in[d] - 1;
    const long at = max(i * a->mul[d] + a->add[d], 0L), low = min(at / div, last);
    struct FN(tap) t;
    t.low = (int)low;
    t.high = a->linear ? (int)min(low + 1, last) : t.low;
    t.part = a->linear && low < last ? (float)(at - low * div) / (float)div : 0.0f;
    return t;
}

/* Two rows of x (low and high of the height), blended. */
FV FN(plane)(SRC x, long low, long high, float part, struct FN(tap) w, int dims)
{
    SRC one = x + low;
    SRC two = x + high;
    const FV v = LOADV(one, w.low * V) * (1.0f - w.part) + LOADV(one, w.high * V) * w.part;
    if (dims == 1)
        return v;
    const FV u = LOADV(two, w.low * V) * (1.0f - w.part) + LOADV(two, w.high * V) * w.part;
    return v * (1.0f - part) + u * part;
}

/* `width` columns of a row. */
void FN(row)(SRC x, DST y, struct FN(tap) d, struct FN(tap) h, const struct FN(tap) *w, int width,
             const struct resize_blocked_args *a)
{
    const long across = (long)a->in[2] * V, plane = a->in[1] * across;
    SRC front = x + d.low * plane;
    SRC back = x + d.high * plane;
    const long low = h.low * across, high = h.high * across;
    if (!a->linear)
        for (int i = 0; i < width; i++)
            STOREV(LOADV(front, low + w[i].low * V), y, i * V);
    else if (a->dims < 3)
        for (int i = 0; i < width; i++)
            STOREV(FN(plane)(front, low, high, h.part, w[i], a->dims), y, i * V);
    else
        for (int i = 0; i < width; i++)
            STOREV(FN(plane)(front, low, high, h.part, w[i], 3) * (1.0f - d.part) +
                       FN(plane)(back, low, high, h.part, w[i], 3) * d.part,
                   y, i * V);
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_blocked_args *a)
{
    const int rows = a->out[0] * a->out[1], parts = (rows + a->run - 1) / a->run;
    const int first = (int)(group % parts) * a->run, past = min(first + a->run, rows);
    const int block = (int)(group / parts % a->blocks);
    const long n = (long)(group / parts / a->blocks), across = (long)a->out[2] * V;
    SRC from = x + n * a->x_n + (long)block * a->in[0] * a->in[1] * a->in[2] * V;
    DST to = y + n * a->y_n + (long)block * rows * across;
    struct FN(tap) w[COLUMNS];
    for (int column = 0; column < a->out[2]; column += COLUMNS) {
        const int width = min(COLUMNS, a->out[2] - column);
        for (int i = 0; i < width; i++)
            w[i] = FN(tap_of)(column + i, 2, a);
        for (int row = first; row < past; row++)
            FN(row)(from, to + row * across + (long)column * V, FN(tap_of)(row / a->out[1], 0, a),
                    FN(tap_of)(row % a->out[1], 1, a), w, width, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_blocked_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
