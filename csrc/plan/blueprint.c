/* blueprint.c: the life of a blueprint, which plans share: its lists grow while it is compiled, plans open and close on it, and
 * the last one to let go frees it. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists -------------------------------------------------------------------------------------------------- */

int blueprint_view(struct blueprint *bp, int storage, int packed, int64_t offset)
{
    return blueprint_view_as(
        bp, (struct view){.storage = storage, .packed = packed, .state = -1, .offset = offset});
}

int blueprint_view_as(struct blueprint *bp, struct view of)
{
    if (!clcnn_grow((void **)&bp->views, &bp->cap_views, bp->n_views + 1, sizeof *bp->views))
        return -1;
    bp->views[bp->n_views] = of;
    return bp->n_views++;
}

int blueprint_storage(struct blueprint *bp, const char *name, int64_t items, int64_t item_elems,
                      bool pad_items, bool scratch)
{
    if (!clcnn_grow((void **)&bp->storages, &bp->cap_storages, bp->n_storages + 1, sizeof *bp->storages))
        return -1;
    /* odd, so that nothing relies on alignment by accident */
    const int64_t gap = bp->guard && pad_items ? 13 : 0;
    bp->storages[bp->n_storages] = (struct storage){
        .name = name,
        .items = items,
        .item_elems = item_elems,
        .stride = item_elems + gap,
        .elem = sizeof(float),
        .first = INT32_MAX,
        .last = -1,
        .scratch = scratch,
    };
    return bp->n_storages++;
}

int blueprint_constant(struct blueprint *bp, int value, size_t bytes, const char *layer)
{
    if (!clcnn_grow((void **)&bp->packed, &bp->cap_packed, bp->n_packed + 1, sizeof *bp->packed))
        return -1;
    bp->packed[bp->n_packed] =
        (struct packed){.value = value, .bytes = bytes, .layer = layer, .next = -1, .largest = -1.0f};
    return bp->n_packed++;
}

int blueprint_packed(struct blueprint *bp, int raw, const char *packing, size_t bytes, const char *layer)
{
    for (int i = raw; i >= 0; i = bp->packed[i].next)
        if (strcmp(bp->packed[i].packing, packing) == 0)
            return i;
    const int made = blueprint_constant(bp, bp->packed[raw].value, bytes, layer);
    if (made < 0)
        return -1;
    snprintf(bp->packed[made].packing, sizeof bp->packed[made].packing, "%s", packing);
    bp->packed[made].next = bp->packed[raw].next;
    bp->packed[raw].next = made;
    return made;
}

void choice_free(struct choice *c)
{
    free(c->candidates);
    free(c->decisions);
    free(c->ops);
    *c = (struct choice){.candidates = NULL};
}

/* ---- plans on it ------------------------------------------------------------------------------------------- */

static void release_weights(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_packed; i++) {
        if (bp->packed[i].weight)
            weight_release(bp->dev, bp->packed[i].weight);
        bp->packed[i].weight = NULL;
    }
}

/* Starts at one, for the compile that makes the first plan; zero is final. */
bool blueprint_open(struct blueprint *bp)
{
    int open = atomic_load(&bp->open);
    while (open > 0)
        if (atomic_compare_exchange_weak(&bp->open, &open, open + 1))
            return true;
    return false;
}

void blueprint_close(struct blueprint *bp)
{
    if (bp && atomic_fetch_sub(&bp->open, 1) == 1)
        release_weights(bp);
}

static void release_programs(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps + bp->n_packed && bp->programs; i++)
        if (bp->programs[i])
            program_release(bp->dev, bp->programs[i]);
    if (bp->chain_program)
        program_release(bp->dev, bp->chain_program);
    free(bp->programs);
}

void blueprint_retain(struct blueprint *bp)
{
    atomic_fetch_add(&bp->refs, 1);
}

void blueprint_release(struct blueprint *bp)
{
    if (!bp || atomic_fetch_sub(&bp->refs, 1) > 1)
        return;
    release_programs(bp);
    release_weights(bp);
    blueprint_release(bp->like);
    for (int i = 0; i < bp->n_packed; i++)
        free(bp->packed[i].setup);
    for (int i = 0; i < bp->n_steps; i++) {
        free(bp->steps[i]);
        if (bp->defines_text)
            free(bp->defines_text[i]);
    }
    for (int i = 0; i < bp->n_layers; i++)
        free(bp->layers[i].candidates);
    for (int i = 0; i < bp->n_choices; i++)
        choice_free(&bp->choices[i]);
    for (int i = 0; i < bp->notes.n; i++)
        free(bp->notes.line[i]);
    void *owned[] = {bp->variants, bp->variant, bp->wait,         bp->weights,      bp->notes.line,
                     bp->storages, bp->packed,  bp->views,        bp->steps,        bp->layers,
                     bp->inputs,   bp->outputs, bp->gemm_scratch, bp->defines_text, bp->choices};
    for (int i = 0; i < COUNT_OF(owned); i++)
        free(owned[i]);
    clcnn_graph_free(bp->graph);
    pthread_mutex_destroy(&bp->lock);
    free(bp);
}
