/* dropout_train_vector.cl: y[i] = drawn(i) < least ? 0 : x[i] * scale, V draws of four words at once, for CPU devices.
 *
 *   drawn(i) = word i % 4 of philox(counter (i / 4 low, i / 4 high, layer, step), key (seed low, seed high))
 *
 * i counts the elements of a dense x. key holds seed and step; of the step the low 32 bits count.
 * Layouts: x and y are `rows` items of `inner` contiguous elements, x_n and y_n apart.
 * Index map: group = row * pieces + piece; a work-item takes `run` elements of a row.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 8 or 16. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#include "elementwise/philox.clh"
#ifndef FN
#define FN(x) dropout_train_vector_##x
#endif
#undef UV
#define UV VEC_CAT(uint, V)
#define KEEP_WORDS(v, p, i) \
    (*(private VEC_CAT(unaligned_float, V) *)((private float *)(p) + (i)) = VEC_CAT(as_float, V)(v))

void FN(body)(ulong group, SRC x, SRC_OF(long) key, DST y, const struct dropout_args *a)
{
    const long row = (long)group / a->pieces, piece = (long)group % a->pieces;
    const long from = piece * a->run, to = min(from + a->run, a->inner), start = row * a->inner;
    const ulong seed = (ulong)key[0];
    const uint2 keys = (uint2)((uint)seed, (uint)(seed >> 32));
    const uint step = (uint)key[1];
    const long least = a->least;
    const float scale = a->scale;
    SRC xr = x + row * a->x_n;
    DST yr = y + row * a->y_n;
    for (long chunk = (start + from) / (4 * V); chunk * 4 * V < start + to; chunk++) {
        const long first = chunk * 4 * V, quad = chunk * V;
        UV c0 = (UV)(uint)quad + VEC_CAT(as_uint, V)(LANES_V), c1 = (UV)(uint)(quad >> 32), c2 = (UV)(uint)a->layer;
        UV c3 = (UV)step; /* V quads from a multiple of V on: the low word does not run over */
        PHILOX(UV, c0, c1, c2, c3, keys);
        uint words[4 * V];
        KEEP_WORDS(c0, words, 0);
        KEEP_WORDS(c1, words, V);
        KEEP_WORDS(c2, words, 2 * V);
        KEEP_WORDS(c3, words, 3 * V);
        const int low = (int)max(start + from - first, 0L), high = (int)min(start + to - first, 4L * V);
        for (int e = low; e < high; e++) {
            const long i = first + e - start;
            yr[i] = (long)words[e % 4 * V + e / 4] < least ? 0.0f : xr[i] * scale;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC_OF(long) key, ulong key_off, DST y, ulong y_off, const struct dropout_args a)
{
    FN(body)(GROUP, x + x_off, key + key_off, y + y_off, ARGS(a));
}
