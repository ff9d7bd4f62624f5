/* max_roi_pool_ref: maxima of the bins of regions; see kernels/vision/max_roi_pool_ref.cl. */
#include "algos/vision/roi.h"

static void emit(const struct problem *p, struct emit *e)
{
    struct roi_args a = roi_args_of(p);
    struct step *s = rows_step(e, p, "max_roi_pool_ref", "main", a.rows, a.out[1], &a.pieces);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_max_roi_pool_ref = {
    .name = "ref",
    .doc = "each output by itself",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
