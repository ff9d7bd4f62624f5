/* conv_filter_grad_parts.c: gradients of filters as partial sums; see conv_filter_grad_parts.h. */
#include "algos/conv_cpu/conv_filter_grad_parts.h"

static const struct filter_tile wide_tiles[] = {{8, 3, 1.0}, {8, 2, 1.03}, {16, 1, 1.15}, {8, 1, 1.4},
                                                {3, 6, 1.1}, {3, 4, 1.2},  {3, 2, 1.6}};
static const struct filter_tile narrow_tiles[] = {
    {4, 3, 1.0}, {4, 2, 1.1}, {8, 1, 1.2}, {3, 3, 1.1}, {3, 2, 1.4}};

const struct filter_tile *filter_tiles(const struct problem *p, int *count)
{
    const bool wide = p->block == 16;
    *count = wide ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    return wide ? wide_tiles : narrow_tiles;
}

enum { ITEMS_PER_UNIT = 16 }; /* so that a core that is held up leaves its share to the others */

struct filter_grad_args filter_grad_args_of(const struct conv_args *a)
{
    struct filter_grad_args f = {
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .w_k = a->w_k,
        .n = a->n,
        .c = a->c,
        .k = a->k,
        .cg = a->c / a->groups,
        .kg = a->k / a->groups,
    };
    for (int d = 0; d < 3; d++) {
        f.in[d] = a->in[d];
        f.out[d] = a->out[d];
        f.ker[d] = a->ker[d];
        f.stride[d] = a->stride[d];
        f.pad[d] = a->pad[d];
        f.dil[d] = a->dil[d];
    }
    return f;
}

size_t filter_grad_lines(const struct filter_grad_args *f)
{
    return (size_t)f->n * (size_t)f->out[0] * (size_t)f->out[1];
}

size_t filter_grad_items(const struct problem *p)
{
    return (size_t)ITEMS_PER_UNIT * device_units(p->device);
}

static struct step *emit_one(struct emit *e, const struct problem *p, const struct filter_grad_steps *steps,
                             const char *entry, size_t items)
{
    struct step *s = emit_step(e, steps->file, entry, items, 1);
    step_define(s, "V", p->block);
    for (int i = 0; i < COUNT_OF(steps->define); i++)
        if (steps->define[i].name)
            step_define(s, steps->define[i].name, steps->define[i].value);
    return s;
}

void emit_filter_grad(struct emit *e, const struct problem *p, const struct filter_grad_args *f,
                      const struct filter_grad_steps *steps)
{
    const struct conv_args a = conv_filter_grad_args(p);
    const double maps = (double)shape_count(&p->in[0].shape) + (double)shape_count(&p->in[1].shape);
    const int sums = emit_workspace(e, steps->sums_bytes);
    struct step *s = emit_one(e, p, steps, "main", steps->items);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, sums);
    step_args(s, f, sizeof *f);
    step_cost(s, conv_macs(&a), sizeof(float) * maps + (double)steps->sums_bytes);
    s = emit_one(e, p, steps, "join", steps->joins);
    step_read(s, sums);
    step_write(s, p->out[0].view);
    step_args(s, f, sizeof *f);
    step_cost(s, 0.0, (double)steps->sums_bytes + sizeof(float) * (double)shape_count(&p->out[0].shape));
}
