/* conv_scaled: filters of a 1x1 convolution packed with scales of filters and channels, for CPU devices; see kernels/conv_cpu/scales.clh. */
#include "algos/conv_cpu/conv_scaled.h"

#include <stdio.h>

static size_t scale_bytes(const struct problem *p, int count)
{
    return sizeof(float) * round_up((size_t)count, (size_t)p->block);
}

/* One entry, which reads the weights and what the entries before it have made. */
struct part {
    const char *entry;
    size_t groups, bytes;
    int before[2];
};

static int emit_part(struct emit *e, const struct problem *p, const struct conv_args *a,
                     const struct scaled_packing *packing, const struct part *part)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s k%d c%d b%d x %d", packing->file, part->entry, a->k, a->c, packing->kv,
             p->block);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, part->bytes, packing->file, part->entry, part->groups, 1, &setup);
    if (setup) {
        step_define(setup, "V", p->block);
        step_define(setup, "KV", packing->kv);
        step_read(setup, p->in[1].view);
        for (int i = 0; i < COUNT_OF(part->before); i++)
            if (part->before[i] != VIEW_NONE)
                step_read(setup, part->before[i]);
        step_write(setup, view);
        step_args(setup, packing->args, packing->arg_bytes);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)part->bytes);
    }
    return view;
}

struct scaled_filters emit_scaled_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                                          const struct scaled_packing *packing)
{
    const size_t block = (size_t)p->block;
    const struct part levels = {
        "levels", ceil_div((size_t)a->k, block), scale_bytes(p, a->k), {VIEW_NONE, VIEW_NONE}};
    const int level_view = emit_part(e, p, a, packing, &levels);
    const struct part gains = {
        "gains", ceil_div((size_t)a->c, block), scale_bytes(p, a->c), {level_view, VIEW_NONE}};
    struct scaled_filters f;
    f.gains = emit_part(e, p, a, packing, &gains);
    const struct part filters = {"pack", packing->groups, packing->bytes, {level_view, f.gains}};
    f.packed = emit_part(e, p, a, packing, &filters);
    return f;
}

size_t scaled_filter_workspace(const struct problem *p, const struct conv_args *a, size_t packed_bytes)
{
    return p->in[1].constant ? 0 : packed_bytes + scale_bytes(p, a->k) + scale_bytes(p, a->c);
}
