/* copy_strided: the operators that move elements without changing them, each as one or more strided
 * copies; see kernels/move/copy_strided.cl. */
#include "algos/move/copies.h"

enum {
    SHORT_ROW = 16,      /* elements: below, finding a row takes longer than copying it */
    LONG_RUN = 1024,     /* elements side by side that are copied at a time, at most: longer rows are cut */
    LEAST_RUN = 64,      /* of what they are cut into */
    MOST_RUNS = 128,     /* of a work-item */
    ITEMS_PER_UNIT = 16, /* at least, where there are enough runs */
};

/* Whether elements lie side by side on both sides, as a CPU device copies them in vectors. */
static bool has_runs(const struct problem *p, const struct strided_args *a)
{
    const int last = a->rank - 1;
    return cpu_device(p->device) && a->stride[0].of[last] == 1 && a->stride[1].of[last] == 1;
}

/* A row that is too long for a work-item becomes several. */
static void cut_rows(struct strided_args *a)
{
    const int last = a->rank - 1, all = a->size[last];
    int run = LONG_RUN;
    while (run > LEAST_RUN && all % run != 0)
        run--;
    if (all <= LONG_RUN || all % run != 0 || a->rank == COUNT_OF(a->size))
        return;
    a->size[a->rank] = run;
    a->size[last] = all / run;
    for (int i = 0; i < 2; i++) {
        a->stride[i].of[a->rank] = 1;
        a->stride[i].of[last] = run;
    }
    a->rank++;
}

static struct step *runs_step(const struct problem *p, struct emit *e, struct strided_args *a)
{
    a->rows = 1;
    for (int d = 0; d < a->rank - 1; d++)
        a->rows *= a->size[d];
    const size_t share = ceil_div((size_t)a->rows, ITEMS_PER_UNIT * device_units(p->device));
    a->pieces = (int64_t)(share < MOST_RUNS ? share : MOST_RUNS);
    return emit_step(e, "copy_strided", "runs", ceil_div((size_t)a->rows, (size_t)a->pieces), 1);
}

static void emit_copy(const struct problem *p, void *e, struct end from, struct end to,
                      struct strided_args *a)
{
    strided_merge(a, 2);
    const bool runs = has_runs(p, a);
    if (runs)
        cut_rows(a);
    const int last = a->rank - 1;
    struct step *s = runs && last > 0 && a->size[last] <= LONG_RUN ? runs_step(p, e, a)
                                                                   : strided_step(e, p, "copy_strided", a, 2);
    int64_t elements = 1;
    for (int d = 0; d < a->rank; d++)
        elements *= a->size[d];
    copy_step(s, p, from, to, elements);
    step_args(s, a, sizeof *a);
}

/* Moves dimension d behind all others. */
static void make_last(struct strided_args *a, int d)
{
    const struct strided_args was = *a;
    const int last = a->rank - 1;
    for (int at = d; at <= last; at++) {
        const int from = at < last ? at + 1 : d;
        a->size[at] = was.size[from];
        for (int i = 0; i < 2; i++)
            a->stride[i].of[at] = was.stride[i].of[from];
    }
}

/* Where y's rows are short, as in a pixel shuffle, the loop of a row goes along x's instead. */
static void emit_turned(const struct problem *p, void *e, struct end from, struct end to,
                        struct strided_args *a)
{
    strided_merge(a, 2);
    const int last = a->rank - 1, d = strided_contiguous_dim(a);
    if (cpu_device(p->device) && a->size[last] < SHORT_ROW && a->size[d] > a->size[last])
        make_last(a, d);
    emit_copy(p, e, from, to, a);
}

#define EMIT_COPIES(op, copy)                                      \
    static void emit_##op(const struct problem *p, struct emit *e) \
    {                                                              \
        op##_copies(p, copy, e);                                   \
    }
EMIT_COPIES(concat, emit_copy)
EMIT_COPIES(split, emit_copy)
EMIT_COPIES(slice, emit_copy)
EMIT_COPIES(transpose, emit_turned)
EMIT_COPIES(expand, emit_copy)

/* Copies items of x to items of y, where one size divides the other. */
static void emit_items(const struct problem *p, struct emit *e, int from, struct items x, int to,
                       struct items y)
{
    const struct items *small = x.size < y.size ? &x : &y;
    const int64_t per_x = x.size / small->size, per_y = y.size / small->size;
    /* (outer, middle, small): one of the two has its items in `outer`, the other one in `middle`. */
    const int64_t middle = per_x > per_y ? per_x : per_y, outer = x.count * per_x / middle;
    struct strided_args a = {.rank = 3, .size = {(i32)outer, (i32)middle, (i32)small->size}};
    a.stride[0].of[0] = per_x == middle ? x.stride : x.stride * middle;
    a.stride[0].of[1] = per_x == middle ? small->size : x.stride;
    a.stride[1].of[0] = per_y == middle ? y.stride : y.stride * middle;
    a.stride[1].of[1] = per_y == middle ? small->size : y.stride;
    a.stride[0].of[2] = a.stride[1].of[2] = 1;
    emit_copy(p, e, (struct end){from, 0}, (struct end){to, 0}, &a);
}

static bool divides(struct items x, struct items y)
{
    return x.size % y.size == 0 || y.size % x.size == 0;
}

static size_t reshape_workspace(const struct problem *p)
{
    const bool direct = divides(operand_items(&p->in[0]), operand_items(&p->out[0]));
    return direct ? 0 : shape_bytes(&p->in[0].shape);
}

/* Only the way items lie apart can differ; when neither item size divides the other, by way of a dense
 * copy. */
static void emit_reshape(const struct problem *p, struct emit *e)
{
    const struct items x = operand_items(&p->in[0]), y = operand_items(&p->out[0]);
    if (divides(x, y)) {
        emit_items(p, e, p->in[0].view, x, p->out[0].view, y);
        return;
    }
    const int64_t all = x.count * x.size;
    const struct items dense = {1, all, all};
    const int middle = emit_workspace_of(e, p->in[0].shape.dtype, all);
    emit_items(p, e, p->in[0].view, x, middle, dense);
    emit_items(p, e, middle, dense, p->out[0].view, y);
}

#define COPY_ALGO(op, text, emitter, bytes, layout_, fp16_) \
    const struct algo_def algo_##op##_ref = {               \
        .name = "ref",                                      \
        .doc = text,                                        \
        .error = ERROR_EXACT,                               \
        .deterministic = true,                              \
        .src = layout_,                                     \
        .dst = layout_,                                     \
        .fp16 = fp16_,                                      \
        .applicable = rows_always,                          \
        .workspace = bytes,                                 \
        .emit = emitter,                                    \
    }
COPY_ALGO(concat, "copies the inputs that their producers could not write in place", emit_concat, NULL,
          LAYOUT_ANY, FP16_SAME);
COPY_ALGO(split, "one copy an output", emit_split, NULL, LAYOUT_ANY, FP16_SAME);
COPY_ALGO(slice, "one strided copy", emit_slice, NULL, LAYOUT_ROW_MAJOR, FP16_SAME);
COPY_ALGO(transpose, "one strided copy", emit_transpose, NULL, LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(expand, "one strided copy", emit_expand, NULL, LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(reshape, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(flatten, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(squeeze, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(unsqueeze, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(identity, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(dropout, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
