/* channel_chunks.c: the elements of channels in chunks; see channel_chunks.h. */
#include "algos/norm_reduce/channel_chunks.h"

/* Groups that a compute unit is given; elements of a work-item at least, where there are enough. */
enum { GROUPS_EACH = 24, LEAST_EACH = 16 };
/* Floats of a work-item that holds its part of a chunk: one of three numbers, so that kernels are shared. */
enum { HELD_LEAST = 8, HELD_MOST = 32 };
/* A channel has half as many groups as there are compute units, at most. A unit has room for two or more: so four launches may
 * each have a channel that waits for its last group, and there is room for one of these. */
enum { SHARE = 2 };

static int quad_of(const struct channel_chunks_args *a)
{
    return (a->length | a->x_n | a->dy_n | a->add_n) % 4 == 0 ? 4 : 1;
}

/* Chunks of so many elements for groups of so many work-items. */
static void cut(struct channel_chunks_args *a, size_t chunk, size_t wg)
{
    const size_t apart = wg * (size_t)quad_of(a);
    a->chunk = (int32_t)chunk;
    a->parts = (int32_t)ceil_div((size_t)(a->n * a->length), chunk);
    a->step_n = (int32_t)((int64_t)apart / a->length);
    a->step_i = (int64_t)apart % a->length;
}

static struct channel_chunks_args uncut(const struct problem *p, const struct operand *x,
                                        const struct operand *dy)
{
    const struct norm_train_attrs *attrs = p->attrs;
    return (struct channel_chunks_args){
        .x_n = x->batch_stride,
        .dy_n = dy != NULL ? dy->batch_stride : 0,
        .y_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .length = shape_count_from(&x->shape, 2),
        .n = x->shape.dim[0],
        .c = x->shape.dim[1],
        .eps = attrs->eps,
        .low = attrs->low,
        .high = attrs->high,
        .p0 = p->p0,
        .p1 = p->p1,
    };
}

struct channel_chunks_args channel_chunks_of(const struct problem *p, const struct operand *x,
                                             const struct operand *dy)
{
    struct channel_chunks_args a = uncut(p, x, dy);
    const size_t wg = any_group_size(p), all = (size_t)(a.n * a.length);
    const size_t wanted = ceil_div(device_units(p->device) * GROUPS_EACH, (size_t)a.c);
    const size_t most = ceil_div(all, wg * LEAST_EACH), parts = wanted < most ? wanted : most;
    cut(&a, round_up(ceil_div(all, parts < wg ? parts : wg), wg * (size_t)quad_of(&a)), wg);
    return a;
}

struct channel_chunks_args channel_chunks_held(const struct problem *p, const struct operand *x,
                                               const struct operand *dy)
{
    struct channel_chunks_args a = uncut(p, x, dy);
    size_t held = HELD_LEAST;
    while (held < HELD_MOST && held * GROUP_SIZE < (size_t)(a.n * a.length))
        held *= 2;
    cut(&a, held * GROUP_SIZE, GROUP_SIZE);
    return a;
}

bool channel_chunks_may_hold(const struct problem *p, const struct channel_chunks_args *a, struct why *why)
{
    const size_t share = device_units(p->device) / SHARE, most = share < GROUP_SIZE ? share : GROUP_SIZE;
    REQUIRE(why, a->parts == 1 || device_traits(p->device).waiting_groups,
            "several groups have a channel, and cannot wait for each other here");
    REQUIRE(why, (size_t)a->parts <= most, "groups that wait for each other would fill the device");
    return true;
}

struct step *channel_chunks_held_step(struct emit *e, const char *file, const struct channel_chunks_args *a)
{
    struct step *s = emit_step(e, file, "held", (size_t)a->c * (size_t)a->parts, GROUP_SIZE);
    step_define(s, "QUAD", quad_of(a));
    step_define(s, "HELD", a->chunk / GROUP_SIZE);
    step_define(s, "WAITS", a->parts > 1);
    s->alone = true;
    return s;
}

void channel_chunks_meet(struct emit *e, struct step *s, const struct channel_chunks_args *a)
{
    const size_t counters = 1 + (size_t)a->c, sums = channel_chunks_bytes(a) / sizeof(uint32_t);
    step_update(s, a->parts > 1 ? emit_counters(e, counters + sums) : VIEW_NONE);
}

size_t channel_chunks_bytes(const struct channel_chunks_args *a)
{
    return 2 * sizeof(float) * (size_t)a->c * (size_t)a->parts;
}

struct step *channel_chunks_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                                 const struct channel_chunks_args *a)
{
    struct step *s = emit_step(e, file, entry, (size_t)a->c * (size_t)a->parts, any_group_size(p));
    step_define(s, "QUAD", quad_of(a));
    return s;
}
