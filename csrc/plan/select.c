/* select.c: which algorithm computes a layer. By rule: the first of ops.def that applies, is preferred for this shape,
 * fits the workspace limit and the precision; an override names another. Every verdict is kept for explain(). */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APPLIES "not needed" /* verdict, until one of these is chosen */

static const char TOO_MUCH_WORKSPACE[] = "workspace above the limit";
static const char OUTSIDE_PRECISION[] = "error class outside the precision";
static const char ANOTHER_FORM[] = "the operands have another layout here";
static const char NO_HALVES[] = "maps are stored as halves here, which it does not take";
static const char BETTER_CHOSEN[] = "a preferred algorithm applies";

/* A merged layer is called "a+b"; a user may name either part. */
static bool names_layer(const char *layer, const char *wanted)
{
    const size_t n = strlen(wanted);
    if (strcmp(layer, wanted) == 0)
        return true;
    for (const char *at = strstr(layer, wanted); at; at = strstr(at + 1, wanted))
        if ((at == layer || at[-1] == '+') && (at[n] == '\0' || at[n] == '+'))
            return true;
    return false;
}

/* A reorder is no layer of the user's: it is called after the value that it reads, and what is said of the layer that makes
 * this value is not meant for it. */
static int override_of(const struct clcnn_plan_options *o, const struct problem *p)
{
    if (p->op == &op_reorder)
        return -1;
    for (int i = 0; i < o->override_count; i++)
        if (names_layer(p->layer, o->overrides[i].layer))
            return i;
    return -1;
}

static bool form_fits(enum form form, const struct operand *o)
{
    return form == FORM_ANY || (form == FORM_BLOCKED) == (o->block > 0);
}

static const enum error_class LOOSEST[] = {
    [CLCNN_PRECISION_STRICT] = ERROR_STRICT,
    [CLCNN_PRECISION_HIGHEST] = ERROR_HIGHEST,
    [CLCNN_PRECISION_HIGH] = ERROR_HIGH,
    [CLCNN_PRECISION_MEDIUM] = ERROR_MEDIUM,
};

unsigned algo_halves(const struct algo_def *algo, const struct problem *p)
{
    return algo->halves_of ? algo->halves_of(p) : algo->halves;
}

/* Whether the algorithm takes its operands as they are stored. */
static bool takes_halves(const struct algo_def *a, const struct problem *p)
{
    unsigned wanted = (p->add.present && p->add.half ? HALF_ADD : 0) | (p->out[0].half ? HALF_DST : 0);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present && p->in[i].half)
            wanted |= i == 0 ? HALF_SRC : HALF_SAME;
    if (!wanted)
        return true;
    const unsigned taken = algo_halves(a, p);
    return (taken & HALF_SAME) || (wanted & ~taken) == 0;
}

static void judge(struct candidate *c, const struct problem *p)
{
    struct why why = {NULL, false};
    const struct algo_def *a = c->algo;
    const bool yes = a->applicable(p, &why);
    c->fits = p->forms_open || (form_fits(a->src, &p->in[0]) && form_fits(a->dst, &p->out[0]));
    c->verdict = yes ? APPLIES : why.passed_over ? "passed over" : "rejected";
    c->reason = yes ? BETTER_CHOSEN : why.reason;
    if (!yes && !why.passed_over)
        return;
    c->workspace = a->workspace ? a->workspace(p) : 0;
    const char *refused = c->workspace > p->workspace_limit  ? TOO_MUCH_WORKSPACE
                          : a->error > LOOSEST[p->precision] ? OUTSIDE_PRECISION
                          : !takes_halves(a, p)              ? NO_HALVES
                                                             : NULL;
    if (refused) {
        c->verdict = "rejected";
        c->reason = refused;
    } else if (yes && !c->fits) {
        c->verdict = "passed over";
        c->reason = ANOTHER_FORM;
    }
}

static bool rejected(const struct candidate *c)
{
    return strcmp(c->verdict, "rejected") == 0;
}

const struct algo_def *algo_preferred(const struct problem *p)
{
    const char *measured = wisdom_find(p);
    const struct algo_def *first = NULL;
    for (const struct algo_def *const *a = op_algos(p->op); *a; a++) {
        struct candidate c = {.algo = *a};
        judge(&c, p);
        if (measured && strcmp((*a)->name, measured) == 0 && c.fits && !rejected(&c))
            return *a;
        if (!first && strcmp(c.verdict, APPLIES) == 0)
            first = *a;
    }
    return first;
}

unsigned preferred_halves(const struct problem *p)
{
    const struct algo_def *algo = algo_preferred(p);
    return algo ? algo_halves(algo, p) : 0;
}

static enum clcnn_status forced(int *out, const struct problem *p, const struct candidate *candidates, int n,
                                const char *wanted, struct clcnn_err *err)
{
    char known[512] = "";
    for (int i = 0; i < n; i++) {
        const struct candidate *c = &candidates[i];
        if (strcmp(c->algo->name, wanted) == 0) {
            if (rejected(c) || !c->fits)
                return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s %s: algorithm '%s' cannot be used here: %s",
                                  p->op->name, p->layer, wanted, rejected(c) ? c->reason : ANOTHER_FORM);
            *out = i;
            return CLCNN_OK;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", c->algo->name);
    }
    return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: there is no algorithm '%s'; %s has: %s", p->op->name,
                      p->layer, wanted, p->op->name, known);
}

static int first_with(const struct candidate *candidates, int n, const char *verdict)
{
    for (int i = 0; i < n; i++)
        if (candidates[i].fits && strcmp(candidates[i].verdict, verdict) == 0)
            return i;
    return -1;
}

/* The candidate that was measured to be fastest; -1 without one, and where it cannot be used: *note says why. */
static int measured(const char **note, const struct candidate *candidates, int n, const char *wanted)
{
    *note = wanted ? "there is no such algorithm" : NULL;
    for (int i = 0; wanted && i < n; i++)
        if (strcmp(candidates[i].algo->name, wanted) == 0) {
            const struct candidate *c = &candidates[i];
            *note = rejected(c) ? c->reason : c->fits ? NULL : ANOTHER_FORM;
            return *note ? -1 : i;
        }
    return -1;
}

static int count_algos(const struct op_def *op)
{
    int count = 0;
    for (const struct algo_def *const *a = op_algos(op); *a; a++)
        count++;
    return count;
}

/* Judges every algorithm of the operator; `wanted` names the one to take, NULL: what was measured or the rules decide. Tells
 * in `notes` (NULL: not) of a measured choice that cannot be followed. */
static enum clcnn_status pick_algo(int *pick, struct candidate *candidates, int n, const struct problem *p,
                                   const char *wanted, struct notes *notes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct algo_def *const *algos = op_algos(p->op);
    const char *known = wanted ? NULL : wisdom_find(p), *note;
    const char *how = wanted ? "chosen by override" : "chosen by measurement";
    for (int i = 0; i < n; i++) {
        candidates[i].algo = algos[i];
        judge(&candidates[i], p);
    }
    *pick = measured(&note, candidates, n, known);
    if (note && notes)
        TRY(notes_add(notes, err, "measured choice '%s' of %s is not followed: %s", known, p->layer, note));
    if (wanted)
        TRY(forced(pick, p, candidates, n, wanted, err));
    if (*pick < 0) {
        how = "chosen";
        *pick = first_with(candidates, n, APPLIES);
    }
    if (*pick < 0)
        *pick = first_with(candidates, n, "passed over");
    if (*pick < 0)
        return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s %s: no algorithm applies; the last one, %s: %s",
                          p->op->name, p->layer, algos[n - 1]->name, candidates[n - 1].reason);
    candidates[*pick].verdict = how;
    candidates[*pick].reason = "";
done:
    return st;
}

enum clcnn_status select_quietly(const struct algo_def **out, const struct problem *p,
                                 const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const int n = count_algos(p->op), override = override_of(options, p);
    int pick = -1;
    struct candidate *candidates = clcnn_calloc((size_t)n, sizeof *candidates);
    if (!candidates)
        return clcnn_fail_mem(err, (size_t)n * sizeof *candidates);
    TRY(pick_algo(&pick, candidates, n, p, override >= 0 ? options->overrides[override].algo : NULL, NULL,
                  err));
    *out = candidates[pick].algo;
done:
    free(candidates);
    return st;
}

enum clcnn_status select_algo(const struct algo_def **out, const struct problem *p, struct emit *e,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct layer *l = &e->bp->layers[e->layer_index];
    const int n = count_algos(p->op);
    int pick = -1;
    l->candidates = clcnn_calloc((size_t)n, sizeof *l->candidates);
    if (!l->candidates)
        return clcnn_fail_mem(err, (size_t)n * sizeof *l->candidates);
    l->n_candidates = n;
    /* an override that names one of the parts of a merged layer has been followed when the layer itself was chosen */
    const int override = l->sub ? -1 : override_of(e->options, p);
    if (override >= 0)
        e->override_used[override] = true;
    TRY(pick_algo(&pick, l->candidates, n, p, override >= 0 ? e->options->overrides[override].algo : NULL,
                  &e->bp->notes, err));
    *out = l->algo = l->candidates[pick].algo;
done:
    return st;
}
