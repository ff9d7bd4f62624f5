/* channel_parts.c: sums over channels of a whole batch on channel blocks; see channel_parts.h. */
#include "algos/norm_reduce/channel_parts.h"
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"

#define LEAST_PART 512 /* pixels of a part, at least */
#define MOST_PARTS 32

bool channel_parts_applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    return true;
}

/* Parts depend on the map alone, as the order of sums does on them. */
struct channel_parts_args channel_parts_of(const struct problem *p, const struct operand *x)
{
    struct channel_parts_args a = {
        .x_n = x->batch_stride,
        .y_n = p->out[0].batch_stride,
        .n = x->shape.dim[0],
        .c = x->shape.dim[1],
        .pixels = (i32)shape_count_from(&x->shape, 2),
        .eps = ((const struct norm_attrs *)p->attrs)->eps,
    };
    const size_t all = (size_t)a.n * (size_t)a.pixels, run = ceil_div(all, MOST_PARTS);
    a.run = (i64)(run < LEAST_PART ? LEAST_PART : run);
    a.parts = (i32)ceil_div(all, (size_t)a.run);
    return a;
}

size_t channel_parts_workspace(const struct problem *p)
{
    const struct channel_parts_args a = channel_parts_of(p, &p->in[0]);
    return (size_t)blocked_count(p, a.c) * (size_t)a.parts * 2 * (size_t)p->block * sizeof(float);
}

bool channel_parts_whole(const struct problem *p, const struct channel_parts_args *a, int maps)
{
    const size_t blocks = (size_t)blocked_count(p, a->c);
    const size_t bytes = (size_t)maps * (size_t)p->block * (size_t)a->n * (size_t)a->pixels * sizeof(float);
    return (blocks >= 2 * device_units(p->device) && bytes <= NORM_SPAN_BYTES) ||
           blocks * bytes <= NORM_SMALL_BYTES;
}

struct step *channel_parts_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                                size_t groups)
{
    struct step *s = emit_step(e, file, entry, groups, 1);
    step_define(s, "V", p->block);
    return s;
}
