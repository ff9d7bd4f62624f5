/* chain_select.c: which steps of a plan run inside one kernel: on CPU devices those whose work-groups are one work-item
 * (kernels/chain/chain.clh), on NVIDIA's GPUs those of the size that most steps have (kernels/chain/chain_groups.clh). Steps of equal files,
 * entry and defines share a variant; and so that few are built, a define of which larger values serve too is the largest in the
 * plan. */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Variants of a chain: the steps of others stay launches, of programs that each take their time to build. In a chain of groups
 * each needs the registers of the one that needs most. */
enum { MAX_VARIANTS = 48, MAX_GROUP_VARIANTS = 24 };
#define CHAIN_UNITS 192 /* multiprocessors that chain_groups.clh can count */
#define LEAST_GROUP 64  /* work-items of a group there; */
/* Those of wgmma are larger, and their kernels are no plain OpenCL C (runtime/ptx.c). */
#define LARGEST_GROUP 256

static bool same_variant(const struct step *a, const struct step *b)
{
    if (strcmp(a->file, b->file) != 0 || strcmp(a->entry, b->entry) != 0 || a->n_defines != b->n_defines)
        return false;
    for (int i = 0; i < a->n_defines; i++)
        if (strcmp(a->define[i].name, b->define[i].name) != 0 ||
            strcmp(a->define[i].text, b->define[i].text) != 0)
            return false;
    return a->n_buffers == b->n_buffers;
}

static bool asks(const struct step *s)
{
    return s->only_if.view != VIEW_NONE;
}

static bool any_asks(const struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps; i++)
        if (asks(bp->steps[i]))
            return true;
    return false;
}

/* Chains of groups have no way to leave a step out. Where one hangs on what another one finds, the last operand is for that
 * (chain.c). */
static bool chainable(const struct step *s, bool may_ask)
{
    return s->file && !s->alone && s->groups <= INT32_MAX / 2 && s->n_buffers <= MAX_STEP_BUFFERS - may_ask &&
           !(asks(s) && (s->group_size > 1 || !may_ask));
}

/* The variants of a plan that this one is to be like are one program, which stays as it is. */
static int variant_of(struct blueprint *bp, const struct step *s, size_t group_size)
{
    if (!chainable(s, bp->chain_asks) || s->group_size != group_size)
        return -1;
    for (int i = 0; i < bp->n_variants; i++)
        if (same_variant(bp->variants[i], s))
            return i;
    if (bp->n_variants == (group_size > 1 ? MAX_GROUP_VARIANTS : MAX_VARIANTS) ||
        (bp->like && bp->like->n_variants > 0))
        return -1;
    bp->variants[bp->n_variants] = s;
    return bp->n_variants++;
}

/* The size of group that most steps have, of those that GPUs chain; 0: none. */
static size_t common_size(const struct blueprint *bp)
{
    int best = 0, many[LARGEST_GROUP / LEAST_GROUP + 1] = {0};
    for (int i = 0; i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        const size_t size = s->group_size;
        if (chainable(s, asks(s)) && size >= LEAST_GROUP && size <= LARGEST_GROUP && size % LEAST_GROUP == 0)
            many[size / LEAST_GROUP]++;
    }
    for (int i = 1; i < COUNT_OF(many); i++)
        best = many[i] > many[best] ? i : best;
    return (size_t)best * LEAST_GROUP;
}

bool device_chains_groups(const struct clcnn_device_info *info)
{
    return device_traits(info).waiting_groups && device_units(info) <= CHAIN_UNITS;
}

/* A run that the host calls (runtime/chain_call.c) needs all steps in the chain, and gains by however few. Plans with guard bands are
 * tests of kernels, which other plans share; kernel files of the user's own are built one by one, so that errors name them. */
static int least_steps(const struct blueprint *bp)
{
    const bool called = device_traits(&bp->dev->info).channel_block && !bp->guard && !bp->dev->kernel_dir;
    return called && bp->n_steps > 0 && bp->n_steps < CHAIN_LEAST_STEPS ? bp->n_steps : CHAIN_LEAST_STEPS;
}

/* Work-items of the groups of steps that chains run on this device, 0: there are none. */
static size_t size_of_groups(const struct blueprint *bp)
{
    const struct clcnn_device_info *info = &bp->dev->info;
    /* else waiting would take others' turns */
    const bool alone = (long)info->compute_units <= cores_of_device();
    if (bp->chain == CLCNN_CHAIN_OFF || bp->n_steps < least_steps(bp))
        return 0;
    if (device_traits(info).channel_block)
        return alone ? 1 : 0;
    return bp->chained ? common_size(bp) : 0;
}

/* The largest constant that a step reads, if a device's cache may hold it. */
static struct chain_weights weights_of(const struct blueprint *bp, const struct step *s)
{
    struct chain_weights most = {0, 0};
    for (int i = 0; i < s->n_buffers; i++) {
        const int view = s->buffer[i].view;
        const int packed = view == VIEW_NONE ? -1 : bp->views[view].packed;
        if (packed >= 0 && bp->packed[packed].bytes > most.bytes &&
            bp->packed[packed].bytes <= CHAIN_MOST_FETCHED_BYTES)
            most = (struct chain_weights){i, bp->packed[packed].bytes};
    }
    return most;
}

/* A step whose neighbours are launched is launched too. */
static void drop_lonely(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps; i++) {
        const bool before = i > 0 && bp->variant[i - 1] >= 0;
        const bool after = i + 1 < bp->n_steps && bp->variant[i + 1] >= 0;
        if (!before && !after)
            bp->variant[i] = -1;
    }
}

/* What a step's kernel is but for the defines that others with larger values serve. */
static struct hash128 hash_family(const struct step *s)
{
    char text[128 + MAX_DEFINES * (sizeof s->define->name + sizeof s->define->text)];
    size_t at = (size_t)snprintf(text, sizeof text, "%s %s", s->file, s->entry);
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

/* Kernels of the plan that this one is to be like serve smaller values. */
static void raise_to_like(struct blueprint *bp)
{
    for (int k = 0; bp->like && k < bp->like->n_variants; k++) {
        const struct hash128 key = hash_family(bp->like->variants[k]);
        for (int i = 0; i < bp->n_steps; i++) {
            if (!bp->steps[i]->file || strcmp(bp->steps[i]->file, bp->like->variants[k]->file) != 0)
                continue;
            const struct hash128 own = hash_family(bp->steps[i]);
            if (own.a == key.a && own.b == key.b)
                raise_defines(bp->steps[i], bp->like->variants[k]);
        }
    }
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
        if (!bp->steps[i]->file)
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
    raise_to_like(bp);
done:
    map_free(&first);
    free(family);
    return st;
}

enum clcnn_status blueprint_variants(struct blueprint *bp, struct clcnn_err *err)
{
    const size_t size = size_of_groups(bp);
    int chained = 0;
    if (size == 0)
        return CLCNN_OK;
    bp->variants = clcnn_calloc(MAX_VARIANTS, sizeof *bp->variants);
    bp->variant = clcnn_calloc((size_t)bp->n_steps, sizeof *bp->variant);
    bp->wait = clcnn_calloc((size_t)bp->n_steps, sizeof *bp->wait);
    bp->weights = clcnn_calloc((size_t)bp->n_steps, sizeof *bp->weights);
    if (!bp->variants || !bp->variant || !bp->wait || !bp->weights)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *bp->variant);
    bp->chain_asks = any_asks(bp);
    like_variants(bp);
    for (int i = 0; i < bp->n_steps; i++) {
        bp->variant[i] = variant_of(bp, bp->steps[i], size);
        bp->wait[i] = i;
        bp->weights[i] = weights_of(bp, bp->steps[i]);
    }
    if (size > 1)
        drop_lonely(bp);
    for (int i = 0; i < bp->n_steps; i++)
        chained += bp->variant[i] >= 0;
    if (chained < least_steps(bp))
        bp->n_variants = chained = 0;
    bp->stats.chained_steps = chained;
    return CLCNN_OK;
}
