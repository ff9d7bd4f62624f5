/* variants.c: which steps of a plan can run inside one kernel (kernels/chain.clh): on CPU devices those whose work-groups are
 * one work-item. Steps of equal stem, entry and defines share a variant; and so that few are built, a define of which larger values
 * serve too is the largest in the plan. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_STEPS 8   /* fewer save less time than the kernel takes to build */
#define MAX_VARIANTS 24 /* more would take too long to build: the steps of the others stay launches */

static bool same_variant(const struct step *a, const struct step *b)
{
    if (strcmp(a->stem, b->stem) != 0 || strcmp(a->entry, b->entry) != 0 || a->n_defines != b->n_defines)
        return false;
    for (int i = 0; i < a->n_defines; i++)
        if (strcmp(a->define[i].name, b->define[i].name) != 0 ||
            strcmp(a->define[i].text, b->define[i].text) != 0)
            return false;
    return a->n_buffers == b->n_buffers;
}

/* Chains hand every buffer on as floats; kernels of other types of elements have a define that names one. */
static bool only_floats(const struct step *s)
{
    for (int i = 0; i < s->n_defines; i++)
        for (int type = 0; type < CLCNN_DTYPE_COUNT; type++)
            if (type != CLCNN_FLOAT32 && strcmp(s->define[i].text, dtype_opencl(type)) == 0)
                return false;
    return true;
}

static int variant_of(struct blueprint *bp, const struct step *s)
{
    if (!s->stem || !only_floats(s) || s->group_size != 1 || s->groups > INT32_MAX / 2)
        return -1;
    for (int i = 0; i < bp->n_parts; i++)
        if (same_variant(bp->parts[i], s))
            return i;
    if (bp->n_parts == MAX_VARIANTS)
        return -1;
    bp->parts[bp->n_parts] = s;
    return bp->n_parts++;
}

/* What a step's kernel is but for the defines that others with larger values serve. */
static struct hash128 hash_family(const struct step *s)
{
    char text[128 + MAX_DEFINES * (sizeof s->define->name + sizeof s->define->text)];
    size_t at = (size_t)snprintf(text, sizeof text, "%s %s", s->stem, s->entry);
    for (int i = 0; i < s->n_defines; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %s=%s", s->define[i].name,
                               s->define[i].at_least ? "" : s->define[i].text);
    return hash128_bytes(text, at);
}

/* Each define that may be larger becomes the larger one of the two steps'; both have the same ones. */
static void raise_defines(struct step *to, const struct step *from)
{
    for (int i = 0; i < to->n_defines; i++)
        if (to->define[i].at_least && atoi(from->define[i].text) > atoi(to->define[i].text))
            memcpy(to->define[i].text, from->define[i].text, sizeof to->define[i].text);
}

enum clcnn_status blueprint_share_variants(struct blueprint *bp, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct map first = {0};
    int *family = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *family); /* per step: the first of its kind */
    if (!family)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *family);
    for (int i = 0; i < bp->n_steps; i++) {
        family[i] = i;
        if (!bp->steps[i]->stem)
            continue;
        const struct hash128 key = hash_family(bp->steps[i]);
        const int known = map_get(&first, key);
        if (known >= 0) {
            family[i] = known;
            raise_defines(bp->steps[known], bp->steps[i]);
        } else if (map_reserve(&first)) {
            map_put(&first, key, i);
        } else {
            st = clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *family);
            goto done;
        }
    }
    for (int i = 0; i < bp->n_steps; i++)
        raise_defines(bp->steps[i], bp->steps[family[i]]);
done:
    map_free(&first);
    free(family);
    return st;
}

enum clcnn_status blueprint_variants(struct blueprint *bp, struct clcnn_err *err)
{
    int chained = 0;
    const bool alone =
        (long)bp->dev->info.compute_units <= cores_usable(); /* else waiting would take others' turns */
    if (!bp->chained || !alone || !device_block(&bp->dev->info) || bp->n_steps < LEAST_STEPS)
        return CLCNN_OK;
    bp->parts = clcnn_calloc(MAX_VARIANTS, sizeof *bp->parts);
    bp->variant = clcnn_calloc((size_t)bp->n_steps, sizeof *bp->variant);
    if (!bp->parts || !bp->variant)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *bp->variant);
    for (int i = 0; i < bp->n_steps; i++) {
        bp->variant[i] = variant_of(bp, bp->steps[i]);
        chained += bp->variant[i] >= 0;
    }
    if (chained < LEAST_STEPS)
        bp->n_parts = chained = 0;
    bp->stats.chained_steps = chained;
    return CLCNN_OK;
}
