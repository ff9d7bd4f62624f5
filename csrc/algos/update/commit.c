/* commit: a state gets its new value, or keeps the old one; see kernels/update/commit.cl. */
#include "algos/update/commit.h"
#include "algos/common/rows.h"

void commit_step(struct emit *e, const struct clcnn_device_info *device, const struct operand *when,
                 const struct operand *value, int state, bool commit)
{
    const struct problem p = {.device = device};
    const struct items items = operand_items(value);
    const size_t bytes = shape_bytes(&value->shape);
    struct commit_args a = {
        .rows = items.count, .inner = items.size, .value_n = items.stride, .gate = {commit, when != NULL}};
    struct step *s = rows_step(e, &p, "commit", "main", items.count, items.size, &a.pieces);
    step_define_type(s, "T", value->shape.dtype);
    s->commits = !commit;
    s->alone = true; /* what it changes is kept: it runs once, or as nothing */
    step_read(s, when ? when->view : VIEW_NONE);
    step_read(s, value->view);
    step_update(s, state);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, 3.0 * (double)bytes);
}
