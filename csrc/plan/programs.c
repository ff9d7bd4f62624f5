/* programs.c: the programs of a blueprint. Steps that chains run get one of their own when a plan is to launch them singly, which
 * is when it is profiled: building every kernel in both forms took twice the time. */
#include "plan/plan.h"

#include <stdlib.h>

struct wanted { /* units to acquire, and where their programs go */
    struct unit *unit;
    struct program ***to;
    int count;
};

static void want(struct wanted *w, struct unit unit, struct program **to)
{
    w->unit[w->count] = unit;
    w->to[w->count++] = to;
}

static void want_step(struct wanted *w, const struct step *s, struct program **to)
{
    if (s && s->stem && !*to)
        want(
            w,
            (struct unit){.stem = s->stem, .entry = s->entry, .define = s->define, .n_defines = s->n_defines},
            to);
}

static void count_programs(struct blueprint *bp, struct program *const *got, int count)
{
    for (int i = 0; i < count; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = got[k] == got[i];
        bp->stats.program_count += !seen;
    }
}

static enum clcnn_status acquire(struct blueprint *bp, struct wanted *w, struct program **got, bool counted,
                                 struct clcnn_err *err)
{
    enum clcnn_status st = programs_acquire(bp->dev, w->unit, w->count, got, err);
    for (int i = 0; st == CLCNN_OK && i < w->count; i++)
        *w->to[i] = got[i];
    if (st == CLCNN_OK && counted)
        count_programs(bp, got, w->count);
    return st;
}

struct step *blueprint_setup(const struct blueprint *bp, int packed)
{
    return bp->packed[packed].used ? bp->packed[packed].setup : NULL;
}

/* All that a run needs, or the kernels of chained steps. */
static enum clcnn_status acquire_for(struct blueprint *bp, bool of_chains, struct clcnn_err *err)
{
    const size_t most = (size_t)bp->n_steps + (size_t)bp->n_packed + 2;
    enum clcnn_status st = CLCNN_OK;
    struct wanted w = {.unit = clcnn_calloc(most, sizeof *w.unit),
                       .to = clcnn_calloc(most, sizeof(struct program **))};
    struct program **got = clcnn_calloc(most, sizeof *got);
    if (!w.unit || !w.to || !got) {
        st = clcnn_fail_mem(err, most * sizeof *w.unit);
        goto done;
    }
    if (!of_chains && bp->n_parts > 0) /* first: the largest unit, so that others are built meanwhile */
        want(&w, (struct unit){.stem = "chain", .part = bp->parts, .n_parts = bp->n_parts},
             &bp->chain_program);
    for (int i = 0; i < bp->n_steps; i++)
        if (of_chains || !bp->n_parts || bp->variant[i] < 0)
            want_step(&w, bp->steps[i], &bp->programs[i]);
    for (int i = 0; i < bp->n_packed && !of_chains; i++)
        want_step(&w, blueprint_setup(bp, i), &bp->programs[bp->n_steps + i]);
    if (w.count > 0)
        TRY(acquire(bp, &w, got, !of_chains, err));
done:
    free(w.unit);
    free(w.to);
    free(got);
    return st;
}

enum clcnn_status blueprint_programs(struct blueprint *bp, struct clcnn_err *err)
{
    bp->programs = clcnn_calloc((size_t)(bp->n_steps + bp->n_packed) + 1, sizeof(struct program *));
    if (!bp->programs)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof(struct program *));
    return acquire_for(bp, false, err);
}

enum clcnn_status blueprint_launch_programs(struct blueprint *bp, struct clcnn_err *err)
{
    pthread_mutex_lock(&bp->lock);
    const enum clcnn_status st = acquire_for(bp, true, err);
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

void blueprint_release_programs(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_steps + bp->n_packed && bp->programs; i++)
        if (bp->programs[i])
            program_release(bp->dev, bp->programs[i]);
    if (bp->chain_program)
        program_release(bp->dev, bp->chain_program);
    free(bp->programs);
}
