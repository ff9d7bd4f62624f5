/* arena.c: one buffer for all activations and scratch. A root lives from the first to the last step that touches it; two
 * roots may share memory when their lives do not meet. Greedy by size: the largest root first, each at the lowest offset
 * that is free during its life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). */
#include "plan/plan.h"

#include <stdlib.h>

#define ALIGN \
    512 /* bytes: what devices ask of sub-buffers (CLBlast's scratch is one), and more than any vector */

/* Bytes of guard band on either side. Values lie misaligned, so that no kernel relies on alignment by accident; scratch may
 * become a sub-buffer and must not. */
size_t root_guard(const struct blueprint *bp, const struct root *r)
{
    return !bp->guard ? 0 : r->scratch ? 2 * ALIGN : 2 * ALIGN + (r->elem > 4 ? r->elem : 4);
}

static void touch(struct blueprint *bp, int slot, int step)
{
    if (slot < 0 || bp->slots[slot].root < 0)
        return;
    struct root *r = &bp->roots[bp->slots[slot].root];
    if (step < r->first)
        r->first = step;
    if (step > r->last)
        r->last = step;
}

static void find_lives(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_inputs; i++)
        touch(bp, bp->inputs[i].slot, -1);
    for (int i = 0; i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        for (int b = 0; b < s->n_buffers; b++)
            touch(bp, s->buffer[b].slot, i);
        touch(bp, bp->gemm_scratch[i], i);
    }
    for (int i = 0; i < bp->n_outputs; i++)
        touch(bp, bp->outputs[i].slot, bp->n_steps);
}

static uint64_t largest_live_set(const struct blueprint *bp)
{
    uint64_t most = 0;
    for (int step = -1; step <= bp->n_steps; step++) {
        uint64_t live = 0;
        for (int i = 0; i < bp->n_roots; i++)
            if (!bp->roots[i].scratch && bp->roots[i].first <= step && step <= bp->roots[i].last)
                live += bp->roots[i].bytes;
        if (live > most)
            most = live;
    }
    return most;
}

static int larger_first(const void *a, const void *b)
{
    const struct root *x = *(const struct root *const *)a, *y = *(const struct root *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : 1; /* qsort is not stable; the layout must not depend on it */
}

static bool meet(const struct root *a, const struct root *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* placed[] is kept in order of offset, so one pass finds the lowest gap. */
static size_t lowest_gap(struct root *const *placed, int n, const struct root *r)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (!meet(placed[i], r))
            continue;
        if (placed[i]->offset >= at + r->bytes)
            break;
        const size_t end = placed[i]->offset + placed[i]->bytes;
        if (end > at)
            at = end;
    }
    return at;
}

static void insert(struct root **placed, int n, struct root *r)
{
    int i = n;
    for (; i > 0 && placed[i - 1]->offset > r->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = r;
}

enum clcnn_status arena_plan(struct blueprint *bp, struct clcnn_err *err)
{
    struct root **order = clcnn_calloc(2 * (size_t)bp->n_roots + 1, sizeof *order);
    if (!order)
        return clcnn_fail_mem(err, 2 * (size_t)bp->n_roots * sizeof *order);
    struct root **placed = order + bp->n_roots;
    find_lives(bp);
    for (int i = 0; i < bp->n_roots; i++) {
        struct root *r = &bp->roots[i];
        const size_t elems = (size_t)((r->items - 1) * r->stride + r->item_elems);
        r->bytes = ceil_div(elems * r->elem + 2 * root_guard(bp, r), ALIGN) * ALIGN;
        if (bp->guard) { /* nothing is shared: what a step leaves can be looked at afterwards */
            r->first = -1;
            r->last = bp->n_steps;
        }
        order[i] = r;
    }
    qsort(order, (size_t)bp->n_roots, sizeof *order, larger_first);
    for (int i = 0; i < bp->n_roots; i++) {
        struct root *r = order[i];
        if (r->last < r->first) /* never touched */
            r->bytes = 0;
        r->offset = lowest_gap(placed, i, r);
        insert(placed, i, r);
        if (r->offset + r->bytes > bp->arena_bytes)
            bp->arena_bytes = r->offset + r->bytes;
        if (r->scratch && r->bytes > bp->stats.workspace_bytes)
            bp->stats.workspace_bytes = r->bytes;
    }
    bp->stats.live_bytes = largest_live_set(bp);
    bp->stats.arena_bytes = bp->arena_bytes;
    for (int i = 0; i < bp->n_roots; i++)
        bp->roots[i].offset += root_guard(bp, &bp->roots[i]);
    free(order);
    return CLCNN_OK;
}
