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
static struct channel_parts_args args_of(const struct problem *p, const struct operand *x)
{
    const struct norm_train_attrs *attrs = p->attrs;
    struct channel_parts_args a = {
        .x_n = x->batch_stride,
        .dy_n = p->in[0].batch_stride,
        .y_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .n = x->shape.dim[0],
        .c = x->shape.dim[1],
        .pixels = (i32)shape_count_from(&x->shape, 2),
        .eps = attrs->eps,
        .low = attrs->low,
        .high = attrs->high,
        .epi = blocked_epilogue_of(p, NULL),
    };
    const size_t all = (size_t)a.n * (size_t)a.pixels, run = ceil_div(all, MOST_PARTS);
    a.run = (i64)(run < LEAST_PART ? LEAST_PART : run);
    a.parts = (i32)ceil_div(all, (size_t)a.run);
    return a;
}

size_t channel_parts_workspace(const struct problem *p)
{
    const struct channel_parts_args a = args_of(p, &p->in[0]);
    return (size_t)blocked_count(p, a.c) * (size_t)a.parts * 2 * (size_t)p->block * sizeof(float);
}

/* Blocks by themselves read `maps` maps from memory once, if they fit a cache and keep all cores busy; else the sums of all parts
 * come first. */
static bool by_blocks(const struct problem *p, const struct channel_parts_args *a, int maps)
{
    const size_t blocks = (size_t)blocked_count(p, a->c);
    const size_t bytes = (size_t)maps * (size_t)p->block * (size_t)a->n * (size_t)a->pixels * sizeof(float);
    return (blocks >= 2 * device_units(p->device) && bytes <= NORM_SPAN_BYTES) ||
           blocks * bytes <= NORM_SMALL_BYTES;
}

static struct step *emit_one(struct emit *e, const struct problem *p, const char *file, const char *entry,
                             size_t groups, int inputs)
{
    struct step *s = emit_step(e, file, entry, groups, 1);
    step_define(s, "V", p->block);
    for (int i = 0; i < inputs; i++)
        step_read(s, p->in[i].view);
    return s;
}

void channel_parts_emit(const struct problem *p, struct emit *e, const char *file, int maps, int summed)
{
    const struct operand *x = &p->in[maps - 1];
    const struct channel_parts_args a = args_of(p, x);
    const size_t blocks = (size_t)blocked_count(p, a.c), parts = blocks * (size_t)a.parts;
    const bool whole = by_blocks(p, &a, maps);
    const double elements = (double)shape_count(&x->shape);
    const int sums = emit_workspace(e, channel_parts_workspace(p));
    struct step *s;

    if (!whole) {
        s = emit_one(e, p, file, "sums", parts, summed);
        step_write(s, sums);
        step_args(s, &a, sizeof a);
        step_cost(s, elements, maps * (double)shape_bytes(&x->shape));
    }
    s = emit_one(e, p, file, whole ? "whole" : "apply", whole ? blocks : parts, p->n_in);
    if (whole)
        step_update(s, sums);
    else
        step_read(s, sums);
    if (p->op->fuses) {
        float p0, p1;
        step_define_id(s, "EPI_ACT", act_identifier(act_as_clip(p->act, &p0, &p1)));
        step_read_added(s, p);
    }
    for (int i = 0; i < p->n_out; i++)
        step_write(s, p->out[i].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (maps + 1) * elements);
}
