/* byte_common.c: what the algorithms on maps of bytes share. */
#include "algos/bytes/byte_common.h"

#include <stdio.h>

enum { ITEMS_PER_UNIT = 16 }; /* so that a core that is held up leaves its share to the others */

bool bytes_always(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

int bytes_run(const struct problem *p, size_t parts, size_t pieces)
{
    const size_t wanted = ceil_div(ITEMS_PER_UNIT * device_units(p->device), parts);
    return (int)ceil_div(pieces, wanted < pieces ? wanted : pieces);
}

struct byte_sizes byte_sizes_of(const struct problem *p)
{
    const struct byte_conv_attrs *a = p->attrs;
    const struct clcnn_shape *x = &p->in[0].shape, *w = &p->in[1].shape, *y = &p->out[0].shape;
    struct byte_sizes s = {.n = x->dim[0],
                           .k = w->dim[0],
                           .c = w->dim[1] * a->conv.groups,
                           .block = x->dim[4],
                           .blocks = x->dim[1]};
    s.c_group = w->dim[1];
    s.k_group = s.k / a->conv.groups;
    for (int d = 0; d < 2; d++) {
        s.in[d] = x->dim[2 + d];
        s.out[d] = y->dim[2 + d];
        s.ker[d] = w->rank == 2 ? 1 : w->dim[2 + d];
        s.stride[d] = a->conv.stride.v[d];
        s.pad[d] = a->conv.padding.v[d];
        s.dil[d] = a->conv.dilation.v[d];
    }
    return s;
}

int byte_span(const struct byte_sizes *s, int filters, int channels)
{
    int most = 1;
    for (int k = 0; k < s->k; k += filters) {
        const int last = (k + filters < s->k ? k + filters : s->k) - 1;
        const int first = k / s->k_group * s->c_group / channels;
        const int past = (int)ceil_div((size_t)((last / s->k_group + 1) * s->c_group), (size_t)channels);
        if (past - first > most)
            most = past - first;
    }
    return most;
}

struct byte_map byte_map_of(const struct problem *p, const struct byte_sizes *s)
{
    return (struct byte_map){p->in[0].view, p->in[0].batch_stride, {s->in[0], s->in[1]}};
}

/* A step that copies pixels of `block` bytes. */
static void emit_pad_step(struct emit *e, const struct byte_pad_args *a, int block, int x, int y)
{
    const size_t parts = (size_t)a->n * (size_t)a->blocks;
    struct step *step =
        emit_step(e, "byte_pad", "main", parts * ceil_div((size_t)a->out[0], (size_t)a->rows), 1);
    step_define(step, "B", block);
    step_read(step, x);
    step_write(step, y);
    step_args(step, a, sizeof *a);
    step_cost(step, 0.0, 2.0 * (double)parts * a->out[0] * a->out[1] * block);
}

struct byte_map emit_byte_pad(struct emit *e, const struct problem *p, const struct byte_sizes *s,
                              const int size[2], const int stride[2])
{
    const struct byte_conv_attrs *attrs = p->attrs;
    struct operand o = {
        .present = true,
        .shape = {.dtype = CLCNN_UINT8, .rank = 5, .dim = {s->n, s->blocks, size[0], size[1], s->block}}};
    emit_middle(e, &o);
    const struct byte_pad_args a = {
        .src_n = p->in[0].batch_stride,
        .dst_n = o.batch_stride,
        .n = s->n,
        .blocks = s->blocks,
        .in = {s->in[0], s->in[1]},
        .out = {size[0], size[1]},
        .pad = {s->pad[0], s->pad[1]},
        .stride = {stride[0], stride[1]},
        .zero = attrs->x_zero,
        .rows = bytes_run(p, (size_t)s->n * (size_t)s->blocks, (size_t)size[0]),
    };
    emit_pad_step(e, &a, s->block, p->in[0].view, o.view);
    return (struct byte_map){o.view, o.batch_stride, {size[0], size[1]}};
}

void emit_byte_blocks(struct emit *e, const struct problem *p, int input, int32_t from, int32_t to,
                      int32_t count)
{
    const struct operand *x = &p->in[input], *y = &p->out[0];
    const struct clcnn_shape *s = &x->shape;
    const int64_t block = shape_count_from(s, 2);
    const struct byte_pad_args a = {
        .src_n = x->batch_stride,
        .dst_n = y->batch_stride,
        .src_at = from * block,
        .dst_at = to * block,
        .n = s->dim[0],
        .blocks = count,
        .in = {s->dim[2], s->dim[3]},
        .out = {s->dim[2], s->dim[3]},
        .stride = {1, 1},
        .rows = bytes_run(p, (size_t)s->dim[0] * (size_t)count, (size_t)s->dim[2]),
    };
    emit_pad_step(e, &a, s->dim[4], x->view, y->view);
}

int emit_byte_packed(struct emit *e, const struct problem *p, const struct byte_pack_args *a,
                     const char *entry, int kv)
{
    char name[96];
    struct step *setup;
    const size_t filters = (size_t)a->k_blocks * (size_t)kv * 16;
    const bool depthwise = a->c_blocks == 0;
    const size_t bytes = depthwise ? filters * (size_t)(a->taps / a->c * a->q * 4)
                                   : filters * (size_t)(a->taps * a->c_blocks * a->q * 4);
    snprintf(name, sizeof name, "byte_conv_pack %s k%d g%d c%d t%d q%d v%d", entry, a->k, a->k_group, a->c,
             a->taps, a->q, kv);
    const int view = emit_packed(e, &p->in[1], name, bytes + filters * sizeof(int32_t), "byte_conv_pack",
                                 entry, ceil_div(filters, GROUP_SIZE), GROUP_SIZE, &setup);
    if (setup) {
        step_define(setup, "KV", kv);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, a, sizeof *a);
        step_cost(setup, 0.0, (double)(5 * bytes));
    }
    return view;
}

struct byte_steps byte_steps_of(const struct problem *p, const struct byte_sizes *z)
{
    const struct byte_conv_attrs *a = p->attrs;
    return (struct byte_steps){.own = a->own,
                               .other = a->other,
                               .shift = a->shift,
                               .zero = a->y_zero,
                               .bias = p->in[3].present,
                               .filters = z->k};
}

void byte_conv_reads(struct step *s, const struct problem *p, int packed)
{
    const struct byte_conv_attrs *attrs = p->attrs;
    step_define(s, "ADD", !p->add.present ? 0 : attrs->own_last ? 1 : 2);
    step_define(s, "DOTS", device_traits(p->device).byte_products);
    step_read(s, packed);
    step_read(s, p->in[2].view);
    step_read(s, p->in[3].present ? p->in[3].view : VIEW_NONE);
    step_read_added(s, p);
}

void byte_conv_cost(struct step *s, const struct problem *p, const struct byte_sizes *z)
{
    const double pixels = (double)z->n * z->out[0] * z->out[1];
    step_cost(s, pixels * (double)shape_count(&p->in[1].shape),
              (double)shape_count(&p->in[0].shape) + (double)shape_count(&p->in[1].shape) +
                  (p->add.present ? 2.0 : 1.0) * (double)shape_count(&p->out[0].shape));
}

void byte_conv_step(struct step *s, const struct problem *p, const struct byte_sizes *z,
                    const struct byte_map *x, int packed, struct byte_conv_args *a)
{
    const struct byte_conv_attrs *attrs = p->attrs;
    a->src_n = x->src_n;
    a->dst_n = p->out[0].batch_stride;
    a->add_n = p->add.present ? p->add.batch_stride : 0;
    a->plane = (int64_t)x->size[0] * x->size[1] * z->block;
    a->out_plane = (int64_t)z->out[0] * z->out[1] * 16;
    a->n = z->n;
    a->x_zero = attrs->x_zero;
    a->steps = byte_steps_of(p, z);
    step_read(s, x->view);
    byte_conv_reads(s, p, packed);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    byte_conv_cost(s, p, z);
}
