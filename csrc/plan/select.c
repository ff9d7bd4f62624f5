/* select.c: which algorithm computes a layer. By rule: the first of ops.def that applies, is preferred for this shape,
 * fits the workspace limit and the precision; an override names another. Every verdict is kept for explain(). */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APPLIES "not needed" /* verdict, until one of these is chosen */

static const char TOO_MUCH_WORKSPACE[] = "workspace above the limit";
static const char OUTSIDE_PRECISION[] = "error class outside the precision";
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

static int override_of(struct emit *e, const char *layer)
{
    const struct clcnn_plan_options *o = e->options;
    for (int i = 0; i < o->override_count; i++)
        if (names_layer(layer, o->overrides[i].layer))
            return i;
    return -1;
}

static enum error_class loosest(enum clcnn_precision precision)
{
    return precision == CLCNN_PRECISION_STRICT    ? ERROR_STRICT
           : precision == CLCNN_PRECISION_HIGHEST ? ERROR_HIGHEST
                                                  : ERROR_HIGH;
}

static void judge(struct candidate *c, const struct problem *p)
{
    struct why why = {NULL, false};
    const struct algo_def *a = c->algo;
    const bool yes = a->applicable(p, &why);
    c->verdict = yes ? APPLIES : why.passed_over ? "passed over" : "rejected";
    c->reason = yes ? BETTER_CHOSEN : why.reason;
    if (!yes && !why.passed_over)
        return;
    c->workspace = a->workspace ? a->workspace(p) : 0;
    const char *refused = c->workspace > p->workspace_limit  ? TOO_MUCH_WORKSPACE
                          : a->error > loosest(p->precision) ? OUTSIDE_PRECISION
                                                             : NULL;
    if (refused) {
        c->verdict = "rejected";
        c->reason = refused;
    }
}

const struct algo_def *algo_preferred(const struct problem *p)
{
    for (const struct algo_def *const *a = clcnn_algos[clcnn_op_find(p->op->name)]; *a; a++) {
        struct candidate c = {.algo = *a};
        judge(&c, p);
        if (strcmp(c.verdict, APPLIES) == 0)
            return *a;
    }
    return NULL;
}

static enum clcnn_status forced(int *out, const struct problem *p, const struct layer *l, const char *wanted,
                                struct clcnn_err *err)
{
    char known[256] = "";
    for (int i = 0; i < l->n_candidates; i++) {
        const struct candidate *c = &l->candidates[i];
        if (strcmp(c->algo->name, wanted) == 0) {
            if (strcmp(c->verdict, "rejected") == 0)
                return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s %s: algorithm '%s' cannot be used here: %s",
                                  p->op->name, p->layer, wanted, c->reason);
            *out = i;
            return CLCNN_OK;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", c->algo->name);
    }
    return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: there is no algorithm '%s'; %s has: %s", p->op->name,
                      p->layer, wanted, p->op->name, known);
}

static int first_with(const struct layer *l, const char *verdict)
{
    for (int i = 0; i < l->n_candidates; i++)
        if (strcmp(l->candidates[i].verdict, verdict) == 0)
            return i;
    return -1;
}

enum clcnn_status select_algo(const struct algo_def **out, const struct problem *p, struct emit *e,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct layer *l = &e->bp->layers[e->layer_index];
    const struct algo_def *const *algos = clcnn_algos[clcnn_op_find(p->op->name)];
    int n = 0, pick = -1;
    while (algos[n])
        n++;
    l->candidates = clcnn_calloc((size_t)n, sizeof *l->candidates);
    if (!l->candidates)
        return clcnn_fail_mem(err, (size_t)n * sizeof *l->candidates);
    for (int i = 0; i < n; i++) {
        l->candidates[i].algo = algos[i];
        judge(&l->candidates[i], p);
    }
    l->n_candidates = n;

    /* an override that names one of the parts of a merged layer has been followed when the layer itself was chosen */
    const int override = l->sub ? -1 : override_of(e, p->layer);
    if (override >= 0) {
        e->override_used[override] = true;
        TRY(forced(&pick, p, l, e->options->overrides[override].algo, err));
        l->candidates[pick].verdict = "chosen by override";
    } else {
        pick = first_with(l, APPLIES);
        if (pick < 0)
            pick = first_with(l, "passed over");
        if (pick < 0)
            return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s %s: no algorithm applies; the last one, %s: %s",
                              p->op->name, p->layer, algos[n - 1]->name, l->candidates[n - 1].reason);
        l->candidates[pick].verdict = "chosen";
    }
    l->candidates[pick].reason = "";
    *out = l->algo = algos[pick];
done:
    return st;
}
