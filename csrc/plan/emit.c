/* emit.c: the builder that algorithms write step descriptions into. Errors stick: after the first one every call is
 * harmless, and the planner reports it once the algorithm returns. */
#include "plan/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emit_fail(struct emit *e, enum clcnn_status status, const char *fmt, ...)
{
    if (e->status != CLCNN_OK)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e->status = clcnn_fail(e->err, status, "%s %s: %s", e->op->name, e->layer, text);
}

void emit_note(struct emit *e, const char *fmt, ...)
{
    if (e->status != CLCNN_OK || e->again >= 0) /* said for the first items of the batch */
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e->status = notes_add(&e->bp->notes, e->err, "%s", text);
}

static void out_of_memory(struct emit *e)
{
    if (e->status == CLCNN_OK)
        e->status = clcnn_fail_mem(e->err, sizeof(struct step));
}

/* Of the layer's algorithm, for this layer where that is known. */
static double effort_of(const struct emit *e)
{
    if (!e->algo)
        return 100.0;
    const double known = e->bp->layers[e->layer_index].effort;
    return known > 0.0 ? known : algo_effort(e->algo);
}

static struct step *new_step(struct emit *e, const char *file, const char *entry, size_t groups,
                             size_t group_size)
{
    struct step *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->layer = e->layer;
    s->op = e->op->name;
    s->algo = e->algo ? e->algo->name : "";
    s->effort = effort_of(e);
    s->stores_in_place = e->algo && e->algo->stores_in_place;
    s->file = file;
    s->entry = entry;
    s->groups = groups;
    s->group_size = group_size;
    s->only_if.view = VIEW_NONE;
    if (file)
        step_define(s, "WG", (int)group_size);
    return s;
}

static struct step *append_step(struct emit *e, struct step *s)
{
    struct blueprint *bp = e->bp;
    if (!s || !clcnn_grow((void **)&bp->steps, &bp->cap_steps, bp->n_steps + 1, sizeof *bp->steps)) {
        free(s);
        out_of_memory(e);
        return &e->sink;
    }
    bp->steps[bp->n_steps++] = s;
    return s;
}

struct step *emit_step(struct emit *e, const char *file, const char *entry, size_t groups, size_t group_size)
{
    if (e->status != CLCNN_OK) {
        memset(&e->sink, 0, sizeof e->sink);
        return &e->sink;
    }
    struct step *s = append_step(e, new_step(e, file, entry, groups, group_size));
    s->only_if.view = e->only_if_view;
    s->only_if.offset = e->only_if_offset;
    return s;
}

void emit_only_if(struct emit *e, int view, int64_t offset)
{
    e->only_if_view = view;
    e->only_if_offset = offset;
}

/* Keeps the defines sorted by name, so that equal variants have equal text. */
static struct define *new_define(struct step *s, const char *name, const char *text)
{
    if (s->n_defines == MAX_DEFINES)
        abort(); /* a kernel with more knobs than MAX_DEFINES is a mistake in its algorithm file */
    int i = s->n_defines++;
    for (; i > 0 && strcmp(s->define[i - 1].name, name) > 0; i--)
        s->define[i] = s->define[i - 1];
    snprintf(s->define[i].name, sizeof s->define[i].name, "%s", name);
    snprintf(s->define[i].text, sizeof s->define[i].text, "%s", text);
    s->define[i].at_least = false;
    return &s->define[i];
}

void step_define_id(struct step *s, const char *name, const char *identifier)
{
    new_define(s, name, identifier);
}

void step_define(struct step *s, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    step_define_id(s, name, text);
}

void step_define_at_least(struct step *s, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    new_define(s, name, text)->at_least = true;
}

void step_define_type(struct step *s, const char *name, enum clcnn_dtype dtype)
{
    if (dtype == CLCNN_FLOAT32)
        return;
    step_define_id(s, name, dtype_opencl(dtype));
    s->alone = true;
}

static void add_buffer(struct step *s, int view, enum access access, int64_t offset)
{
    if (s->n_buffers == MAX_STEP_BUFFERS)
        abort();
    s->buffer[s->n_buffers].view = view;
    s->buffer[s->n_buffers].access = access;
    s->buffer[s->n_buffers].offset = offset;
    s->n_buffers++;
}

void step_read(struct step *s, int view)
{
    add_buffer(s, view, ACCESS_READ, 0);
}

void step_write(struct step *s, int view)
{
    add_buffer(s, view, ACCESS_WRITE, 0);
}

void step_update(struct step *s, int view)
{
    add_buffer(s, view, ACCESS_UPDATE, 0);
}

void step_read_in_place(struct step *s, int view)
{
    step_read(s, view);
    if (view != VIEW_NONE && s->stores_in_place)
        s->places |= 1u << (s->n_buffers - 1);
}

void step_read_like(struct step *s, const struct problem *p, int input)
{
    const struct operand *x = &p->in[input];
    if (x->present && shape_equal(&x->shape, &p->out[0].shape))
        step_read_in_place(s, x->view);
    else
        step_read(s, x->present ? x->view : VIEW_NONE);
}

void step_read_added(struct step *s, const struct problem *p)
{
    step_read_in_place(s, p->add.present ? p->add.view : VIEW_NONE);
}

void step_read_at(struct step *s, int view, int64_t offset)
{
    add_buffer(s, view, ACCESS_READ, offset);
}

void step_write_at(struct step *s, int view, int64_t offset)
{
    add_buffer(s, view, ACCESS_WRITE, offset);
}

void step_read_map(struct step *s, const struct operand *x)
{
    if (x->fp16)
        step_define(s, "X_HALF", 1);
    step_read(s, x->view);
}

void step_write_map(struct step *s, const struct operand *y)
{
    if (y->fp16)
        step_define(s, "Y_HALF", 1);
    step_write(s, y->view);
}

void step_args(struct step *s, const void *block, size_t bytes)
{
    if (bytes > MAX_STEP_ARGS)
        abort();
    memcpy(s->args, block, bytes);
    s->args_bytes = bytes;
}

void step_cost(struct step *s, double macs, double bytes)
{
    s->macs = macs;
    s->bytes = bytes;
}

void step_epilogue(struct step *s, const struct problem *p, const struct operand *bias)
{
    const bool has_bias = bias && bias->present;
    step_define(s, "EPI_BIAS", has_bias);
    step_define(s, "EPI_ADD", epilogue_add(p));
    step_define_id(s, "EPI_ACT", act_identifier(p->act));
    if (p->add.present && p->add.fp16)
        step_define(s, "ADD_HALF", 1);
    step_read(s, has_bias ? bias->view : VIEW_NONE);
    step_read_added(s, p);
}

struct step *emit_gemm(struct emit *e, const struct gemm_call *call, int a, int b, int c)
{
    if (e->only_if_view != VIEW_NONE)
        emit_fail(e, CLCNN_E_INTERNAL, "a library call cannot hang on what a step finds");
    struct step *s = emit_step(e, NULL, "gemm", 1, 1);
    s->gemm = *call;
    step_read(s, a);
    step_read(s, b);
    add_buffer(s, c, call->beta != 0.0f ? ACCESS_UPDATE : ACCESS_WRITE, 0);
    const size_t batch = s->gemm.batch = call->batch ? call->batch : 1;
    step_cost(s, (double)call->m * call->n * call->k * batch,
              4.0 * batch * (call->m * call->k + call->k * call->n + call->m * call->n));
    return s;
}

int emit_workspace(struct emit *e, size_t bytes)
{
    return emit_workspace_of(e, CLCNN_FLOAT32, (int64_t)ceil_div(bytes, sizeof(float)));
}

int emit_workspace_of(struct emit *e, enum clcnn_dtype dtype, int64_t count)
{
    if (e->status != CLCNN_OK)
        return VIEW_NONE;
    const int storage = blueprint_storage(e->bp, e->layer, 1, count, false, true);
    const int view = storage < 0 ? -1 : blueprint_view(e->bp, storage, -1, 0);
    if (view < 0) {
        out_of_memory(e);
        return VIEW_NONE;
    }
    e->bp->storages[storage].elem = clcnn_dtype_bytes(dtype);
    if (e->again < 0)
        e->bp->layers[e->layer_index].workspace += (size_t)count * clcnn_dtype_bytes(dtype);
    return view;
}

int emit_counters(struct emit *e, size_t count)
{
    if (e->status != CLCNN_OK)
        return VIEW_NONE;
    const int view = blueprint_view(e->bp, -1, -1, (int64_t)e->bp->n_counters);
    if (view < 0)
        out_of_memory(e);
    else
        e->bp->n_counters += count;
    return view < 0 ? VIEW_NONE : view;
}

void emit_middle(struct emit *e, struct operand *o)
{
    if (e->status != CLCNN_OK)
        return;
    const int storage = blueprint_storage(e->bp, e->layer, o->shape.dim[0], operand_item(o), true, false);
    o->view = storage < 0 ? -1 : blueprint_view(e->bp, storage, -1, 0);
    if (o->view < 0) {
        out_of_memory(e);
        return;
    }
    e->bp->storages[storage].elem = operand_elem(o);
    o->batch_stride = e->bp->storages[storage].stride;
}

int emit_view_from(struct emit *e, int view, int64_t offset)
{
    if (e->status != CLCNN_OK)
        return VIEW_NONE;
    const struct view whole = e->bp->views[view];
    const int part = blueprint_view(e->bp, whole.storage, whole.packed, whole.offset + offset);
    if (part < 0)
        out_of_memory(e);
    return part;
}

int emit_packed(struct emit *e, const struct operand *constant, const char *packing, size_t bytes,
                const char *file, const char *entry, size_t groups, size_t group_size, struct step **setup)
{
    struct blueprint *bp = e->bp;
    *setup = NULL;
    if (e->status != CLCNN_OK)
        return VIEW_NONE;
    const int raw = bp->views[constant->view].packed;
    if (raw < 0) { /* computed weights: packed anew in every run */
        const int view = emit_workspace(e, bytes);
        *setup = emit_step(e, file, entry, groups, group_size);
        return view;
    }
    const int known = bp->n_packed;
    const int packed = blueprint_packed(bp, raw, packing, bytes, e->layer);
    const int view = packed < 0 ? -1 : blueprint_view(bp, -1, packed, 0);
    if (view >= 0 && packed == known) {
        bp->packed[packed].setup = new_step(e, file, entry, groups, group_size);
        *setup = bp->packed[packed].setup;
    }
    if (view < 0 || (packed == known && !*setup))
        out_of_memory(e);
    return view;
}

bool emit_constant_within(struct emit *e, const struct operand *o, float limit)
{
    const int raw = e->status == CLCNN_OK && o->constant ? e->bp->views[o->view].packed : -1;
    if (raw < 0 || o->shape.dtype != CLCNN_FLOAT32)
        return false;
    struct packed *p = &e->bp->packed[raw];
    const struct value *v = &e->bp->graph->values[p->value];
    if (p->largest < 0.0f)
        p->largest = largest_size(v->data, shape_count(&v->shape));
    return p->largest <= limit;
}
