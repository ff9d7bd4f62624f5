/* resize_rows: rows of the input blended to one, and then its columns; see kernels/vision/resize_rows.cl. */
#include "algos/common/blocked.h"
#include "algos/vision/resize.h"

/* Taps of a kernel that keeps them; rows of a work-item, to share the columns' taps; columns of a blend of two neighbours that are
 * worth a row's taps. */
enum { MOST_TAPS = 32, LEAST_ROWS = 4, LEAST_COLUMNS = 128 };

/* Whether the columns of x that a piece of an output row reads are few enough to be kept. */
static bool columns_fit(const struct resize_taps_args *a, int span)
{
    return RESIZE_ROWS_COLUMNS(span) * a->mul[2] / a->div[2] + span + 2 < RESIZE_ROWS_KEPT;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct resize_taps_args a = resize_taps_args_of(p);
    const int span = resize_span(&a, attrs->mode);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, attrs->mode != RESIZE_NEAREST, "nearest copies elements");
    REQUIRE(why, attrs->coordinates != RESIZE_TF_CROP_AND_RESIZE, "crops have an outside");
    REQUIRE(why, span <= MOST_TAPS, "kernels of so many taps are not kept");
    REQUIRE(why, columns_fit(&a, span), "columns so far apart are not kept");
    PREFER(why, !resize_is_plain(attrs) || a.out[2] >= LEAST_COLUMNS, "short rows of two taps");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct resize_rows_args a = {.taps = resize_taps_args_of(p)};
    struct resize_taps_args *t = &a.taps;
    t->rows = (int64_t)x->shape.dim[0] * t->c * t->out[0] * t->out[1];
    const int columns = RESIZE_ROWS_COLUMNS(resize_span(t, attrs->mode));
    t->pieces = (t->out[2] + columns - 1) / columns;
    a.run = blocked_run(p, (size_t)t->pieces, (size_t)t->rows, LEAST_ROWS);
    const size_t parts = ceil_div((size_t)t->rows, (size_t)a.run);
    struct step *s = emit_step(e, "resize_rows", "main", parts * (size_t)t->pieces, 1);
    step_define(s, "V", rows_vector(p, t->in[2]));
    resize_define_taps(s, p, t);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_resize_rows = {
    .name = "rows",
    .doc = "rows of the input blended to one, and then its columns",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
