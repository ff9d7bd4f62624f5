/* programs.c: the programs of a blueprint. Steps that chains run get one of their own when a plan is to launch them singly, which
 * is when it is profiled: building every kernel in both forms took twice the time. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step *blueprint_setup(const struct blueprint *bp, int packed)
{
    return bp->packed[packed].used ? bp->packed[packed].setup : NULL;
}

/* The different units of some steps and setup steps, the chain's first, and for each step the unit's index (-1: none). */
struct units {
    struct unit *unit;
    int n, *of;
    bool *held; /* by a step, while they are handed out */
    struct map known;
};

/* Setup steps of one file and the same defines share a program: they run once, and loading each program takes longer. */
static struct hash128 hash_unit(const struct unit *u, bool setup)
{
    char text[128 + MAX_DEFINES * (sizeof u->define->name + sizeof u->define->text)];
    size_t at = (size_t)snprintf(text, sizeof text, "%s %s%s", u->file, setup ? "" : u->entry[0],
                                 u->only_if ? "?" : "");
    for (int i = 0; i < u->n_defines; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %s=%s", u->define[i].name, u->define[i].text);
    return hash128_bytes(text, at);
}

/* programs[i] is of step i, programs[n_steps + k] of the setup step of packed constant k. */
static const struct step *step_or_setup(const struct blueprint *bp, int i)
{
    return i < bp->n_steps ? bp->steps[i] : blueprint_setup(bp, i - bp->n_steps);
}

static bool chained(const struct blueprint *bp, int i)
{
    return bp->n_variants > 0 && i < bp->n_steps && bp->variant[i] >= 0;
}

/* Makes this kernel one of the unit's; false: it has no room. */
static bool add_entry(struct unit *unit, const char *entry)
{
    for (int i = 0; i < unit->n_entries; i++)
        if (strcmp(unit->entry[i], entry) == 0)
            return true;
    if (unit->n_entries == MAX_ENTRIES)
        return false;
    unit->entry[unit->n_entries++] = entry;
    return true;
}

static bool collect_units(const struct blueprint *bp, struct units *u, int total, bool of_chains)
{
    if (bp->n_variants > 0 && !of_chains) { /* the largest unit, so that others are built meanwhile */
        u->unit[u->n] = chain_unit(bp->variants, bp->n_variants);
        u->unit[u->n++].only_if = bp->chain_asks;
    }
    for (int i = 0; i < total; i++) {
        const struct step *s = step_or_setup(bp, i);
        u->of[i] = -1;
        if (!s || !s->file || bp->programs[i] || chained(bp, i) != of_chains)
            continue;
        const struct unit unit = {.file = s->file,
                                  .entry = {s->entry},
                                  .n_entries = 1,
                                  .define = s->define,
                                  .n_defines = s->n_defines,
                                  .only_if = s->only_if.view != VIEW_NONE};
        const struct hash128 key = hash_unit(&unit, i >= bp->n_steps);
        u->of[i] = map_get(&u->known, key);
        if (u->of[i] >= 0 && add_entry(&u->unit[u->of[i]], s->entry))
            continue;
        if (!map_reserve(&u->known))
            return false;
        map_put(&u->known, key, u->n);
        u->of[i] = u->n;
        u->unit[u->n++] = unit;
    }
    return true;
}

static int count_different(struct program *const *got, int n)
{
    int different = 0;
    for (int k = 0; k < n; k++) { /* units that differ may still have the same source */
        bool seen = false;
        for (int m = 0; m < k && !seen; m++)
            seen = got[m] == got[k];
        different += !seen;
    }
    return different;
}

/* Each step holds its program; one that no step holds after a failure is released by programs_acquire() itself. */
static void hand_out(struct blueprint *bp, const struct units *u, struct program *const *got, int total)
{
    for (int i = 0; i < total; i++) {
        if (u->of[i] < 0)
            continue;
        bp->programs[i] = got[u->of[i]];
        if (u->held[u->of[i]])
            program_retain(bp->dev, bp->programs[i]);
        u->held[u->of[i]] = true;
    }
}

/* The chain and all kernels that a run launches besides; or those of the chain's steps. */
static enum clcnn_status acquire(struct blueprint *bp, bool of_chains, const struct clcnn_patience *patience,
                                 struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const int total = bp->n_steps + bp->n_packed;
    int missing = 0;
    struct units u = {
        .unit = clcnn_calloc((size_t)total + 2, sizeof *u.unit),
        .of = clcnn_calloc((size_t)total + 1, sizeof *u.of),
        .held = clcnn_calloc((size_t)total + 2, sizeof *u.held),
    };
    struct program **got = clcnn_calloc((size_t)total + 2, sizeof *got);
    if (!u.unit || !u.of || !u.held || !got || !collect_units(bp, &u, total, of_chains)) {
        st = clcnn_fail_mem(err, (size_t)total * sizeof *u.unit);
        goto done;
    }
    if (u.n > 0)
        TRY(programs_acquire(bp->dev, u.unit, u.n, got, &missing, patience, err));
    bp->new_programs |= missing > 0;
    if (u.n > 0 && u.unit[0].n_variants > 0)
        bp->chain_program = got[0];
    if (!of_chains)
        bp->stats.program_count = count_different(got, u.n);
    hand_out(bp, &u, got, total);
done:
    map_free(&u.known);
    free(u.unit);
    free(u.of);
    free(u.held);
    free(got);
    return st;
}

enum clcnn_status blueprint_programs(struct blueprint *bp, const struct clcnn_patience *patience,
                                     struct clcnn_err *err)
{
    bp->programs = clcnn_calloc((size_t)(bp->n_steps + bp->n_packed) + 1, sizeof(struct program *));
    if (!bp->programs)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof(struct program *));
    const enum clcnn_status st = acquire(bp, false, patience, err);
    if (st != CLCNN_E_BUILD || bp->n_variants == 0 || bp->variants[0]->group_size == 1)
        return st;
    /* all kernels as one may need more local memory than a group can have */
    clcnn_err_clear(err);
    bp->n_variants = bp->stats.chained_steps = 0;
    return acquire(bp, false, patience, err);
}

enum clcnn_status blueprint_launch_programs(struct blueprint *bp, struct clcnn_err *err)
{
    pthread_mutex_lock(&bp->lock);
    const enum clcnn_status st = acquire(bp, true, NULL, err);
    pthread_mutex_unlock(&bp->lock);
    return st;
}

void blueprint_save_programs(struct blueprint *bp)
{
    pthread_mutex_lock(&bp->lock);
    if (bp->chain_program)
        program_save(bp->dev, bp->chain_program);
    for (int i = 0; i < bp->n_steps + bp->n_packed; i++)
        if (bp->programs[i])
            program_save(bp->dev, bp->programs[i]);
    pthread_mutex_unlock(&bp->lock);
}
