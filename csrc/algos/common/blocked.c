/* blocked.c: what the algorithms on channel blocks share; see blocked.h. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"

/* The last one to finish keeps the others waiting for a 16th of the work at most. */
#define GROUPS_PER_CORE 16

bool blocked_map(const struct problem *p)
{
    const int rank = p->in[0].shape.rank;
    return (rank == 3 || rank == 4) && p->out[0].shape.rank == rank;
}

int blocked_count(const struct problem *p, int channels)
{
    return (int)ceil_div((size_t)channels, (size_t)p->block);
}

double blocked_direct_cost(const struct conv_args *a)
{
    return conv_macs(a) / DIRECT_PEAK_RATIO;
}

double blocked_whole_cost(const struct problem *p, const struct conv_args *a)
{
    struct conv_args whole = *a;
    const int kg = a->k / a->groups;
    if (a->groups == 1 || kg % p->block != 0)
        whole.k = a->groups * blocked_count(p, conv_lane_span(a->groups, kg, p->block)) * p->block;
    return blocked_direct_cost(&whole);
}

double blocked_effort(const struct conv_args *a, double cost)
{
    return BLOCKED_EFFORT_PERCENT * cost / blocked_direct_cost(a);
}

int blocked_run(const struct problem *p, size_t planes, size_t length, size_t least)
{
    const size_t parts = ceil_div(device_units(p->device) * GROUPS_PER_CORE, planes);
    const size_t run = ceil_div(length, parts);
    return (int)(run < least ? least : run);
}

size_t blocked_most_items(size_t items, size_t blocks, size_t groups)
{
    const size_t all = items * blocks;
    size_t most = 0;
    for (size_t g = 0; g < groups; g++) {
        const size_t mine = ceil_div((g + 1) * all / groups, blocks) - g * all / groups / blocks;
        most = mine > most ? mine : most;
    }
    return most;
}

size_t blocked_even_groups(const struct problem *p, size_t items, size_t blocks, size_t most)
{
    const size_t units = device_units(p->device), all = items * blocks;
    size_t groups = round_up(ceil_div(items, most), units);
    while (groups < all && blocked_most_items(items, blocks, groups) > most)
        groups += units;
    return groups < all ? groups : all;
}

struct blocked_epilogue blocked_epilogue_of(const struct problem *p, const struct operand *bias)
{
    struct blocked_epilogue e = {p->p0, p->p1, bias && bias->present, epilogue_add(p)};
    act_as_clip(p->act, &e.p0, &e.p1);
    return e;
}

void blocked_step_epilogue(struct step *s, const struct problem *p, const struct operand *bias)
{
    float p0, p1;
    step_define_id(s, "EPI_ACT", act_identifier(act_as_clip(p->act, &p0, &p1)));
    step_read(s, bias && bias->present ? bias->view : VIEW_NONE);
    step_read_added(s, p);
}

void blocked_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes)
{
    step_read(s, p->in[0].view);
    step_read(s, packed);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, args, bytes);
}

void blocked_conv_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes)
{
    blocked_step(s, p, packed, args, bytes);
    conv_cost(s, p);
}

struct depthwise_args depthwise_args_of(const struct problem *p, const struct conv_args *c, int rows)
{
    struct depthwise_args a = {
        .src_n = c->src_n,
        .dst_n = c->dst_n,
        .add_n = c->add_n,
        .n = c->n,
        .c = c->k,
        .rows = rows,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    for (int d = 0; d < 2; d++) {
        a.in[d] = c->in[d + 1];
        a.out[d] = c->out[d + 1];
        a.ker[d] = c->ker[d + 1];
        a.stride[d] = c->stride[d + 1];
        a.pad[d] = c->pad[d + 1];
        a.dil[d] = c->dil[d + 1];
    }
    return a;
}

static struct conv_args one_group(const struct conv_args *a)
{
    struct conv_args packed = *a;
    packed.groups = packed.c = 1; /* k filters of one channel each */
    return packed;
}

int emit_depthwise_packed(struct emit *e, const struct problem *p, const struct conv_args *a)
{
    const struct conv_args filters = one_group(a);
    return emit_conv_packed(e, p, &filters, (struct conv_packing){.block = p->block});
}

size_t depthwise_packing_workspace(const struct problem *p, const struct conv_args *a)
{
    const struct conv_args filters = one_group(a);
    return conv_packing_workspace(p, &filters, (struct conv_packing){.block = p->block});
}

size_t depthwise_workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return depthwise_packing_workspace(p, &a);
}

int depthwise_edge(const struct conv_args *a)
{
    const int left = a->pad[2], right = (a->out[2] - 1) * a->stride[2] - left + a->ker[2] - a->in[2];
    return left > right ? left : right > 0 ? right : 0;
}

void define_depthwise(struct step *s, const struct problem *p, const struct conv_args *a)
{
    const int size = a->ker[2];
    const bool known = (size == 1 || size == 3 || size == 5 || size == 7) && a->ker[1] == size &&
                       a->dil[1] == 1 && a->dil[2] == 1 && a->stride[2] <= 2;
    step_define(s, "V", p->block);
    step_define(s, "KH", known ? size : 0);
    step_define(s, "KW", known ? size : 0);
    step_define(s, "SW", known ? a->stride[2] : 0);
}
