/* like.c: a plan that is to be like another one: the same algorithms where they apply, and the kernels that are there. Kernels
 * stand for tiles, not for sizes, so that those of one size of a net serve the others. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

static const struct define *define_named(const struct step *s, const char *name)
{
    for (int i = 0; i < s->n_defines; i++)
        if (strcmp(s->define[i].name, name) == 0)
            return &s->define[i];
    return NULL;
}

static bool serves(const struct step *s, const struct kernel_define *wanted, int n)
{
    for (int i = 0; i < n; i++) {
        const struct define *d = define_named(s, wanted[i].name);
        const int value = d ? atoi(d->text) : 0;
        if (!d || (d->at_least && wanted[i].value >= 0 ? value < wanted[i].value : value != wanted[i].value))
            return false;
    }
    return true;
}

bool kernel_known(const struct problem *p, const char *file, const char *entry,
                  const struct kernel_define *wanted, int n)
{
    for (int i = 0; p->like && i < p->like->n_variants; i++) {
        const struct step *s = p->like->variants[i];
        if (strcmp(s->file, file) == 0 && strcmp(s->entry, entry) == 0 && serves(s, wanted, n))
            return true;
    }
    return !p->like;
}

const char *like_find(const struct problem *p)
{
    for (int i = 0; p->like && i < p->like->n_layers; i++) {
        const struct layer *l = &p->like->layers[i];
        if (l->op == p->op && strcmp(p->like->graph->nodes[l->node].name, p->layer) == 0)
            return l->algo->name;
    }
    return NULL;
}

struct blueprint *like_of(const struct clcnn_device *dev, const struct clcnn_plan *plan)
{
    struct blueprint *bp = plan ? plan->bp : NULL;
    if (!bp || bp->dev != dev || !device_traits(&dev->info).channel_block)
        return NULL;
    return bp->like ? bp->like : bp;
}

void like_variants(struct blueprint *bp)
{
    const struct blueprint *like = bp->like;
    if (!like || like->n_variants == 0 || like->variants[0]->group_size != 1)
        return;
    memcpy(bp->variants, like->variants, (size_t)like->n_variants * sizeof *bp->variants);
    bp->n_variants = like->n_variants;
    bp->chain_asks = like->chain_asks;
}
