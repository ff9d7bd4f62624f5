/* softmax_lanes: softmax and log_softmax by several work-items a row, for GPUs; see kernels/norm_reduce/softmax_lanes.cl. */
#include "algos/norm_reduce/rows_norm.h"

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_args a = softmax_rows_of(p);
    struct lanes l = lanes_of(p, !ROWS_ARE_CONTIGUOUS(&a), a.middle, a.inner, a.length);
    lanes_widen(p, &l, a.rows, a.inner);
    a.pieces = l.tiles;
    struct step *s = lanes_emit(e, "softmax_lanes", "main", lanes_groups(&l, a.rows), &l, a.length);
    softmax_finish(p, s, &a, logarithm);
}

SOFTMAX_ALGOS(lanes, .doc = "several work-items a row, which is read once", .devices = DEVICES_GPU,
              .applicable = rows_always);
