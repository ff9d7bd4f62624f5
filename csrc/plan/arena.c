/* arena.c: one buffer for all activations and scratch. A storage lives from the first to the last step that touches it; two
 * storages may share memory when their lives do not meet. Greedy by size: the largest storage first, each at the lowest offset
 * that is free during its life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). */
#include "plan/plan.h"

#include <stdlib.h>

/* Bytes: what devices ask of sub-buffers (CLBlast's scratch is one), and more than any vector. */
#define ALIGN 512

/* Bytes of guard band on either side. Values lie misaligned, so that no kernel relies on alignment by accident; scratch may
 * become a sub-buffer and must not. */
size_t storage_guard(const struct blueprint *bp, const struct storage *r)
{
    return !bp->guard ? 0 : r->scratch ? 2 * ALIGN : 2 * ALIGN + (r->elem > 1 ? r->elem : 4);
}

static void touch(struct blueprint *bp, int view, int step)
{
    if (view < 0 || bp->views[view].storage < 0)
        return;
    struct storage *r = &bp->storages[bp->views[view].storage];
    if (step < r->first)
        r->first = step;
    if (step > r->last)
        r->last = step;
}

static void find_lives(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_inputs; i++)
        touch(bp, bp->inputs[i].view, -1);
    for (int i = 0; i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        for (int b = 0; b < s->n_buffers; b++)
            touch(bp, s->buffer[b].view, i);
        touch(bp, s->only_if.view, i);
        touch(bp, bp->gemm_scratch[i], i);
    }
    for (int i = 0; i < bp->n_outputs; i++)
        touch(bp, bp->outputs[i].view, bp->n_steps);
    for (int i = 0; i < bp->n_zero_copy; i++)
        if (bp->zero_copy[i].lent) /* any part of the arena, since no step will use it */
            bp->storages[bp->zero_copy[i].storage].last = -1;
}

/* ---- results in the place of what they are made of ---- */

/* The storage that a buffer of a step is all of; NULL: none. */
static struct storage *whole_of(const struct blueprint *bp, const struct step *s, int buffer)
{
    const int view = s->buffer[buffer].view;
    if (view < 0 || bp->views[view].storage < 0 || bp->views[view].offset || s->buffer[buffer].offset)
        return NULL;
    struct storage *r = &bp->storages[bp->views[view].storage];
    return r->scratch ? NULL : r;
}

/* Where a step leaves its results; NULL: in no storage, or several. */
static struct storage *result_of(const struct blueprint *bp, const struct step *s)
{
    struct storage *found = NULL;
    for (int b = 0; b < s->n_buffers; b++)
        if (s->buffer[b].access == ACCESS_WRITE && whole_of(bp, s, b)) {
            if (found)
                return NULL;
            found = whole_of(bp, s, b);
        }
    return found;
}

static bool alike(const struct storage *a, const struct storage *b)
{
    return a->items == b->items && a->item_elems == b->item_elems && a->stride == b->stride &&
           a->elem == b->elem;
}

static struct storage *home_of(struct storage *r)
{
    while (r->home)
        r = r->home;
    return r;
}

/* Whether a step's results may take over the memory of one of its buffers, which nothing reads from then on, nor the step by another
 * of its buffers. */
static bool gives_place(const struct blueprint *bp, int step, int buffer, const struct storage *result)
{
    const struct step *s = bp->steps[step];
    struct storage *given = s->places >> buffer & 1 ? whole_of(bp, s, buffer) : NULL;
    if (!given || !alike(given, result))
        return false;
    const struct storage *home = home_of(given);
    for (int b = 0; b < s->n_buffers; b++) {
        const int view = s->buffer[b].view;
        if (b != buffer && view >= 0 && bp->views[view].storage >= 0 &&
            home_of(&bp->storages[bp->views[view].storage]) == home)
            return false;
    }
    return home->first >= 0 && home->last == step;
}

/* A result whose life begins where that of what it is made of ends takes this one's memory over: a residual net needs one map less,
 * and writes what it has just read. Not where the caller may have the memory (inputs, outputs). */
static void store_in_place(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        struct storage *result = s->places ? result_of(bp, s) : NULL;
        if (!result || result->first != i || result->last == bp->n_steps)
            continue;
        for (int b = 0; b < s->n_buffers && !result->home; b++)
            if (gives_place(bp, i, b, result)) {
                result->home = home_of(whole_of(bp, s, b));
                result->home->last = result->last;
            }
    }
}

/* Most bytes of values that live at one step, from what each step adds and takes away. */
static enum clcnn_status largest_live_set(const struct blueprint *bp, uint64_t *most, struct clcnn_err *err)
{
    int64_t *change = clcnn_calloc((size_t)bp->n_steps + 4, sizeof *change), live = 0, largest = 0;
    if (!change)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *change);
    for (int i = 0; i < bp->n_storages; i++) {
        const struct storage *r = &bp->storages[i];
        if (r->scratch || r->home || r->last < r->first)
            continue;
        change[r->first + 1] += (int64_t)r->bytes; /* first is -1 for inputs */
        change[r->last + 2] -= (int64_t)r->bytes;
    }
    for (int i = 0; i < bp->n_steps + 2; i++) {
        live += change[i];
        largest = live > largest ? live : largest;
    }
    *most = (uint64_t)largest;
    free(change);
    return CLCNN_OK;
}

static int larger_first(const void *a, const void *b)
{
    const struct storage *x = *(const struct storage *const *)a, *y = *(const struct storage *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : 1; /* qsort is not stable; the layout must not depend on it */
}

static bool meet(const struct storage *a, const struct storage *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* ---- storages that have their place, found by when they live ---- */

#define SPANS 256 /* the steps of a plan are cut into so many spans, */
#define MOST_OF 4 /* and a storage that lives in more of them is one of `long_lived` */

struct list {
    struct storage **storage;
    int n, cap;
};

struct shelf {
    struct list span[SPANS], long_lived; /* the latter in order of offset */
    struct list near; /* of the storage that is being placed: short-lived ones that it meets */
    int steps;
};

static bool list_add(struct list *list, struct storage *r)
{
    if (!clcnn_grow((void **)&list->storage, &list->cap, list->n + 1, sizeof(struct storage *)))
        return false;
    list->storage[list->n++] = r;
    return true;
}

/* Steps count from -1 (inputs) to `steps` (outputs). */
static int span_of(const struct shelf *s, int step)
{
    return (int)((int64_t)(step + 1) * SPANS / (s->steps + 2));
}

static bool shelf_add(struct shelf *s, struct storage *r)
{
    const int first = span_of(s, r->first), last = span_of(s, r->last);
    bool ok = true;
    for (int i = first; last - first < MOST_OF && ok && i <= last; i++)
        ok = list_add(&s->span[i], r);
    if (last - first < MOST_OF)
        return ok;
    struct list *all = &s->long_lived;
    ok = list_add(all, r);
    for (int i = all->n - 1; ok && i > 0 && all->storage[i - 1]->offset > r->offset; i--) {
        all->storage[i] = all->storage[i - 1];
        all->storage[i - 1] = r;
    }
    return ok;
}

static int lower_first(const void *a, const void *b)
{
    const struct storage *x = *(const struct storage *const *)a, *y = *(const struct storage *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Short-lived storages that r meets, in order of offset; one may be there several times. */
static bool find_near(struct shelf *s, const struct storage *r)
{
    bool ok = true;
    s->near.n = 0;
    for (int i = span_of(s, r->first); ok && i <= span_of(s, r->last); i++)
        for (int k = 0; ok && k < s->span[i].n; k++)
            if (meet(s->span[i].storage[k], r))
                ok = list_add(&s->near, s->span[i].storage[k]);
    if (ok && s->near.n)
        qsort(s->near.storage, (size_t)s->near.n, sizeof *s->near.storage, lower_first);
    return ok;
}

/* The lowest offset at which r meets none of those that have their place. */
static bool lowest_gap(struct shelf *s, struct storage *r)
{
    const struct list *a = &s->near, *b = &s->long_lived;
    if (!find_near(s, r))
        return false;
    r->offset = 0;
    for (int i = 0, k = 0; i < a->n || k < b->n;) {
        const bool from_a = k == b->n || (i < a->n && a->storage[i]->offset <= b->storage[k]->offset);
        const struct storage *placed = from_a ? a->storage[i++] : b->storage[k++];
        if (placed->offset >= r->offset + r->bytes)
            break;
        if (meet(placed, r) && placed->offset + placed->bytes > r->offset)
            r->offset = placed->offset + placed->bytes;
    }
    return true;
}

static void shelf_free(struct shelf *s)
{
    for (int i = 0; i < SPANS; i++)
        free(s->span[i].storage);
    free(s->long_lived.storage);
    free(s->near.storage);
}

static enum clcnn_status place_storages(struct blueprint *bp, struct storage **order, struct clcnn_err *err)
{
    struct shelf shelf = {.steps = bp->n_steps};
    bool ok = true;
    for (int i = 0; ok && i < bp->n_storages; i++) {
        struct storage *r = order[i];
        if (r->last < r->first) /* never touched */
            r->bytes = 0;
        if (r->last < r->first || r->home)
            continue;
        ok = lowest_gap(&shelf, r) && shelf_add(&shelf, r);
        if (r->offset + r->bytes > bp->arena_bytes)
            bp->arena_bytes = r->offset + r->bytes;
        if (r->scratch && r->bytes > bp->stats.workspace_bytes)
            bp->stats.workspace_bytes = r->bytes;
    }
    shelf_free(&shelf);
    return ok ? CLCNN_OK : clcnn_fail_mem(err, (size_t)bp->n_storages * sizeof *order);
}

enum clcnn_status arena_plan(struct blueprint *bp, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct storage **order = clcnn_calloc((size_t)bp->n_storages + 1, sizeof *order);
    if (!order)
        return clcnn_fail_mem(err, (size_t)bp->n_storages * sizeof *order);
    find_lives(bp);
    if (!bp->guard)
        store_in_place(bp);
    for (int i = 0; i < bp->n_storages; i++) {
        struct storage *r = &bp->storages[i];
        const size_t elems = (size_t)((r->items - 1) * r->stride + r->item_elems);
        r->bytes = ceil_div(elems * r->elem + 2 * storage_guard(bp, r), ALIGN) * ALIGN;
        if (bp->guard) { /* nothing is shared: what a step leaves can be looked at afterwards */
            r->first = -1;
            r->last = bp->n_steps;
        }
        order[i] = r;
    }
    qsort(order, (size_t)bp->n_storages, sizeof *order, larger_first);
    TRY(place_storages(bp, order, err));
    for (int i = 0; i < bp->n_storages; i++)
        bp->storages[i].offset = home_of(&bp->storages[i])->offset;
    TRY(largest_live_set(bp, &bp->stats.live_bytes, err));
    bp->stats.arena_bytes = bp->arena_bytes + bp->n_counters * sizeof(float);
    for (int i = 0; i < bp->n_storages; i++)
        bp->storages[i].offset += storage_guard(bp, &bp->storages[i]);
done:
    free(order);
    return st;
}
