/* channel_chunks.c: the elements of channels in chunks; see channel_chunks.h. */
#include "algos/norm_reduce/channel_chunks.h"

/* Groups that a compute unit is given; elements of a work-item at least, where there are enough. */
enum { GROUPS_EACH = 24, LEAST_EACH = 16 };

static int quad_of(const struct channel_chunks_args *a)
{
    return (a->length | a->x_n | a->dy_n | a->add_n) % 4 == 0 ? 4 : 1;
}

struct channel_chunks_args channel_chunks_of(const struct problem *p, const struct operand *x,
                                             const struct operand *dy)
{
    const struct norm_train_attrs *attrs = p->attrs;
    struct channel_chunks_args a = {
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
    const size_t wg = any_group_size(p), quad = (size_t)quad_of(&a), all = (size_t)(a.n * a.length);
    const size_t wanted = ceil_div(device_units(p->device) * GROUPS_EACH, (size_t)a.c);
    const size_t most = ceil_div(all, wg * LEAST_EACH), parts = wanted < most ? wanted : most;
    a.chunk = (int32_t)round_up(ceil_div(all, parts < wg ? parts : wg), wg * quad);
    a.parts = (int32_t)ceil_div(all, (size_t)a.chunk);
    a.step_n = (int32_t)((int64_t)(wg * quad) / a.length);
    a.step_i = (int64_t)(wg * quad) % a.length;
    return a;
}

bool channel_chunks_applicable(const struct problem *p, struct why *why)
{
    PREFER(why, !cpu_device(p->device), "chunks that groups share are meant for GPUs");
    return true;
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
