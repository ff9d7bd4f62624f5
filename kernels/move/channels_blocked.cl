/* channels_blocked.cl: channels of some maps become channels of another one, all on channel blocks, for CPU devices:
 * concat, split, slices and orders of channels.
 *
 *   y[n][to + k * to_step][p] = x[source][n][from + k * from_step][p]   for each run, k < count
 *
 * A run of neighbours is moved by vectors: lanes of a block of y lie in two blocks of x, each loaded from where its
 * lanes come out in place (what else is loaded is of another pixel and is left out). Other runs are moved lane by lane.
 * Layouts: maps [ceil(C/V)][pixels][V] with batch strides. Of the first block lanes before `first` are left as they
 * are, and of the last one those from `past` on become zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item moves `part` pixels of one block of y.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) channels_blocked_##x
#endif

#define CHUNK 64 /* pixels whose block of y stays in the cache while all runs come by */

/* What has been written of the chunk: nothing, and of the block only the first `keep` lanes count; or all of it. */
FV FN(before)(DST y, int p, bool fresh, int keep)
{
    if (fresh && keep == 0)
        return 0.0f;
    const FV old = LOADV(y, p * V);
    return fresh ? select((FV)0.0f, old, LANES_V < (IV)keep) : old;
}

/* Channel `at` of pixel p, wherever it lies. */
float FN(element)(SRC x, int at, long pixel, const struct channels_args *a)
{
    return x[((long)(at / V) * a->pixels + pixel) * V + at % V];
}

/* Pixels [p, past) of the chunk that begins at `start`: lanes [low, high) are channels at + low.. of x, one by one. */
void FN(by_lanes)(SRC x, DST y, int at, int low, int high, long start, int p, int past, bool fresh, int keep,
                  const struct channels_args *a)
{
    for (; p < past; p++) {
        if (fresh)
            STOREV(FN(before)(y, p, fresh, keep), y, p * V);
        for (int l = low; l < high; l++)
            y[p * V + l] = FN(element)(x, at + l, start + p, a);
    }
}

/* The same of `pixels` pixels by vectors. A load may reach beyond its pixel; at the map's ends there is none. */
void FN(neighbours)(SRC x, DST y, int at, int low, int high, int blocks, long start, int pixels, bool fresh, int keep,
                    const struct channels_args *a)
{
    const int block = (at + V) / V - 1, shift = at - block * V, turn = V - shift; /* at may be negative, above -V */
    const bool near = low < turn;
    const bool far = high > turn;
    const bool part = low > 0 || high < V;
    const int lead = far && shift > 0 && block < 0 && start == 0;
    const int rest = near && shift > 0 && block == blocks - 1 && start + pixels == a->pixels;
    const int past = max(lead, pixels - rest);
    SRC one = x + ((long)block * a->pixels + start) * V + shift;
    SRC two = one + ((long)a->pixels - 1) * V;
    const IV inside = LANES_V >= (IV)low && LANES_V < (IV)high;
    FN(by_lanes)(x, y, at, low, high, start, 0, min(lead, pixels), fresh, keep, a);
    if (near && !far && !part)
        for (int p = lead; p < past; p++)
            STOREV(LOADV(one, p * V), y, p * V);
    else if (near && far && !part)
        for (int p = lead; p < past; p++)
            STOREV(select(LOADV(two, p * V), LOADV(one, p * V), LANES_V < (IV)turn), y, p * V);
    else
        for (int p = lead; p < past; p++) {
            FV v = near ? LOADV(one, p * V) : LOADV(two, p * V);
            if (near && far)
                v = select(LOADV(two, p * V), v, LANES_V < (IV)turn);
            STOREV(select(FN(before)(y, p, fresh, keep), v, inside), y, p * V);
        }
    FN(by_lanes)(x, y, at, low, high, start, past, pixels, fresh, keep, a);
}

/* A run with steps. */
void FN(apart)(SRC x, DST y, const struct channel_run *r, int c0, long start, int pixels, bool fresh, int keep,
               const struct channels_args *a)
{
    for (int p = 0; fresh && p < pixels; p++)
        STOREV(FN(before)(y, p, fresh, keep), y, p * V);
    for (int k = max(0, (c0 - r->to + r->to_step - 1) / r->to_step); k < r->count; k++) {
        const int lane = r->to + k * r->to_step - c0, at = r->from + k * r->from_step;
        if (lane >= V)
            break;
        for (int p = 0; p < pixels; p++)
            y[p * V + lane] = FN(element)(x, at, start + p, a);
    }
}

/* Pixels [start, start + pixels) of the block whose first channel is c0. */
void FN(chunk)(SRC *x, DST y, int c0, long start, int pixels, const struct channels_args *a)
{
    const int keep = max(a->first - c0, 0);
    bool fresh = true;
    for (int i = 0; i < a->runs; i++) {
        const struct channel_run *r = &a->run[i];
        const int end = r->to + (r->count - 1) * r->to_step + 1;
        if (r->to >= c0 + V || end <= c0)
            continue;
        const int low = max(r->to - c0, 0), high = min(end - c0, V);
        if (r->from_step == 1 && r->to_step == 1)
            FN(neighbours)(x[r->source], y, r->from + c0 - r->to, low, high, a->x_blocks[r->source], start, pixels,
                           fresh, keep, a);
        else
            FN(apart)(x[r->source], y, r, c0, start, pixels, fresh, keep, a);
        fresh = false;
    }
}

void FN(body)(ulong group, SRC x0, SRC x1, SRC x2, SRC x3, SRC x4, SRC x5, SRC x6, SRC x7, DST y,
              const struct channels_args *a)
{
    const int first = a->first / V, blocks = (a->past + V - 1) / V - first;
    const int parts = (a->pixels + a->part - 1) / a->part, part = (int)(group % parts);
    const int block = first + (int)(group / parts % blocks);
    const long n = (long)(group / parts / blocks);
    SRC x[CHANNEL_SOURCES] = {x0, x1, x2, x3, x4, x5, x6, x7};
    for (int i = 0; i < a->sources; i++)
        x[i] += n * a->x_n[i];
    DST to = y + n * a->y_n + (long)block * a->pixels * V;
    const int past = min(a->pixels, (part + 1) * a->part);
    for (int p = part * a->part; p < past; p += CHUNK)
        FN(chunk)(x, to + (long)p * V, block * V, p, min(CHUNK, past - p), a);
}

KERNEL FN(main)(SRC x0, ulong x0_off, SRC x1, ulong x1_off, SRC x2, ulong x2_off, SRC x3, ulong x3_off, SRC x4,
                ulong x4_off, SRC x5, ulong x5_off, SRC x6, ulong x6_off, SRC x7, ulong x7_off, DST y, ulong y_off,
                const struct channels_args a)
{
    FN(body)(GROUP, x0 + x0_off, x1 + x1_off, x2 + x2_off, x3 + x3_off, x4 + x4_off, x5 + x5_off, x6 + x6_off,
             x7 + x7_off, y + y_off, &a);
}
