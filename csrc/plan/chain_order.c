/* chain_order.c: which steps depend on each other, for chains of groups (kernels/chain/chain_groups.clh): a work-group goes on to a step
 * that need not wait, so that branches of a net run side by side, once their steps follow each other by depth (GoogLeNet at
 * batch 1 on an H200: 593 -> 383 us). */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <stdlib.h>

#define MOST_SORTED 2000 /* steps of a run: each is compared with all before it */

struct extent { /* bytes of the arena */
    size_t first, past;
};

static struct extent extent_of(const struct blueprint *bp, const struct storage *r)
{
    const size_t first = r->offset - storage_guard(bp, r);
    return (struct extent){first, first + r->bytes};
}

/* Two uses of memory of which one writes. Steps that write to different views of one storage only do not meet there: it is a
 * concat's, or a result in slices. `placed`: storages have their memory, which others may have had before. */
static bool meet(const struct blueprint *bp, int view_a, enum access a, int view_b, enum access b,
                 bool placed)
{
    if (view_a < 0 || view_b < 0 || (a == ACCESS_READ && b == ACCESS_READ))
        return false;
    const struct view *x = &bp->views[view_a], *y = &bp->views[view_b];
    if (x->storage < 0 || y->storage < 0)
        return (x->packed >= 0 && x->packed == y->packed) || (x->state >= 0 && x->state == y->state);
    if (x->storage == y->storage)
        return a != ACCESS_WRITE || b != ACCESS_WRITE || x->offset == y->offset;
    if (!placed)
        return false;
    const struct extent m = extent_of(bp, &bp->storages[x->storage]),
                        n = extent_of(bp, &bp->storages[y->storage]);
    return m.first < n.past && n.first < m.past;
}

static bool depends(const struct blueprint *bp, int step, int before, bool placed)
{
    const struct step *s = bp->steps[step], *t = bp->steps[before];
    for (int i = 0; i < s->n_buffers; i++)
        for (int k = 0; k < t->n_buffers; k++)
            if (meet(bp, s->buffer[i].view, s->buffer[i].access, t->buffer[k].view, t->buffer[k].access,
                     placed))
                return true;
    return false;
}

/* Whether a chain of groups runs the step. */
static bool grouped(const struct blueprint *bp, int step)
{
    return bp->n_variants > 0 && bp->variant[step] >= 0 && bp->steps[step]->group_size > 1;
}

/* A step with what is known of it, while it moves. */
struct ranked {
    int depth, from; /* depth: how many steps of the run stand one after the other before it */
    struct step *step;
    int variant;
    struct chain_weights weights;
};

static int by_depth(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->depth != y->depth ? x->depth - y->depth : x->from - y->from;
}

/* Ranks the steps [first, past), which one chain runs, and tells how many can run side by side with the one before. */
static int rank_run(const struct blueprint *bp, struct ranked *order, int first, int past)
{
    int beside = 0;
    for (int i = first; i < past; i++) {
        order[i] = (struct ranked){0, i, bp->steps[i], bp->variant[i], bp->weights[i]};
        for (int k = first; k < i && past - first <= MOST_SORTED; k++)
            if (order[k].depth >= order[i].depth && depends(bp, i, k, false))
                order[i].depth = order[k].depth + 1;
    }
    qsort(order + first, (size_t)(past - first), sizeof *order, by_depth);
    for (int i = first + 1; i < past; i++)
        beside += order[i].depth == order[i - 1].depth;
    return past - first <= MOST_SORTED ? beside : 0;
}

/* Whether chains of groups were measured to be faster on the whole: steps that fill the device a few times at most and compute
 * little, many of them in each chain, and many for each variant, whose instructions come from memory at its first step. */
static bool worth_it(const struct blueprint *bp, int chains, int chained, int beside)
{
    const size_t units = device_units(&bp->dev->info);
    const int saved = chained + CHAIN_BESIDE_STEPS * beside;
    size_t groups = 0;
    double macs = 0.0;
    for (int i = 0; i < bp->n_steps; i++)
        if (grouped(bp, i)) {
            groups += bp->steps[i]->groups;
            macs += bp->steps[i]->macs;
        }
    return groups <= (size_t)chained * units * CHAIN_MOST_GROUPS && chained >= chains * CHAIN_MEAN_STEPS &&
           macs <= (double)saved * (double)units * CHAIN_MOST_MACS &&
           saved >= bp->n_variants * CHAIN_VARIANT_LEAST_STEPS;
}

enum clcnn_status blueprint_order(struct blueprint *bp, struct clcnn_err *err)
{
    struct ranked *order = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *order);
    int beside = 0, chained = 0, chains = 0;
    if (!order)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *order);
    for (int first = 0, past; first < bp->n_steps; first = past + 1) {
        for (past = first; past < bp->n_steps && grouped(bp, past); past++)
            ;
        beside += rank_run(bp, order, first, past);
        chained += past - first;
        chains += past > first;
    }
    if (chained > 0 && bp->chain == CLCNN_CHAIN_AUTO && !worth_it(bp, chains, chained, beside))
        bp->n_variants = bp->stats.chained_steps = 0;
    for (int i = 0; i < bp->n_steps; i++)
        if (grouped(bp, i)) {
            bp->steps[i] = order[i].step;
            bp->variant[i] = order[i].variant;
            bp->weights[i] = order[i].weights;
        }
    free(order);
    return CLCNN_OK;
}

void blueprint_waits(struct blueprint *bp)
{
    for (int i = 0; bp->wait && i < bp->n_steps; i++) {
        bp->wait[i] = i;
        while (grouped(bp, i) && bp->wait[i] > 0 && !depends(bp, i, bp->wait[i] - 1, true))
            bp->wait[i]--;
    }
}
