/* select.c: which algorithm computes a layer. By rule: the first of ops.def that applies, is preferred for this shape,
 * fits the workspace limit and the precision; an override names another. Every verdict is kept for explain(). */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char TOO_MUCH_WORKSPACE[] = "workspace above the limit";
static const char TURNED[] = "it does not read weights of a transposed convolution";
static const char OUTSIDE_PRECISION[] = "error class outside the precision";
static const char OTHER_LAYOUT[] = "the operands have another layout here";
static const char FOR_CPUS[] = "its kernels are meant for CPU devices";
static const char FOR_GPUS[] = "its kernels are meant for GPUs";
static const char NO_HALVES[] = "maps are stored as halves here, which it does not take";
static const char BETTER_CHOSEN[] = "a preferred algorithm applies";

/* A merged layer is called "a+b"; a user may name either part. A layer that is computed again is meant by its own name. An empty name
 * is part of none. */
static bool names_layer(const char *layer, const char *wanted)
{
    const size_t n = strlen(wanted);
    if (n == 0)
        return layer[0] == '\0';
    for (const char *at = strstr(layer, wanted); at; at = strstr(at + 1, wanted))
        if ((at == layer || at[-1] == '+') &&
            (at[n] == '\0' || at[n] == '+' || strcmp(at + n, CLCNN_AGAIN) == 0))
            return true;
    return false;
}

int override_of_layer(const struct clcnn_plan_options *o, const char *layer)
{
    for (int i = 0; i < o->override_count; i++)
        if (names_layer(layer, o->overrides[i].layer))
            return i;
    return -1;
}

bool override_is_for_all(const struct clcnn_override *o)
{
    return strcmp(o->layer, CLCNN_EVERY_LAYER) == 0;
}

/* A reorder is no layer of the user's: it is called after the value that it reads, and what is said of the layer that makes
 * this value is not meant for it. */
int override_of(const struct clcnn_plan_options *o, const struct problem *p)
{
    if (p->op == &op_reorder)
        return -1;
    const int named = override_of_layer(o, p->layer);
    if (named >= 0)
        return named;
    for (int i = 0; i < o->override_count; i++)
        if (override_is_for_all(&o->overrides[i]) && op_algo_find(p->op, o->overrides[i].algo) >= 0)
            return i;
    return -1;
}

static bool layout_fits(enum operand_layout layout, const struct operand *o)
{
    return layout == LAYOUT_ANY || layout == LAYOUT_FOLLOWS || (layout == LAYOUT_BLOCKED) == (o->block > 0);
}

static const enum error_class LOOSEST[] = {
    [CLCNN_PRECISION_STRICT] = ERROR_STRICT,
    [CLCNN_PRECISION_HIGHEST] = ERROR_HIGHEST,
    [CLCNN_PRECISION_HIGH] = ERROR_HIGH,
    [CLCNN_PRECISION_MEDIUM] = ERROR_MEDIUM,
};

unsigned algo_fp16(const struct algo_def *algo, const struct problem *p)
{
    return algo->fp16_of ? algo->fp16_of(p) : algo->fp16;
}

unsigned algo_cores(const struct algo_def *algo, const struct problem *p)
{
    return algo->cores_of ? algo->cores_of(p) : algo->cores;
}

/* Whether the algorithm takes its operands as they are stored: as halves, or as halves in cores. */
static bool takes_fp16(const struct algo_def *a, const struct problem *p)
{
    unsigned wanted = (p->add.present && p->add.fp16 ? FP16_ADD : 0) | (p->out[0].fp16 ? FP16_DST : 0);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present && p->in[i].fp16)
            wanted |= i == 0 ? FP16_SRC : FP16_SAME;
    if (!wanted)
        return true;
    const unsigned taken = algo_fp16(a, p);
    return (taken & FP16_SAME) || (wanted & ~taken) == 0;
}

static bool takes_cores(const struct algo_def *a, const struct problem *p)
{
    const bool src = p->n_in > 0 && p->in[0].cores != 0.0f, dst = p->out[0].cores != 0.0f;
    if (!src && !dst)
        return true;
    const bool pairs = src ? p->in[0].pairs : p->out[0].pairs; /* all maps of a plan or none */
    const unsigned wanted = (src ? CORES_SRC : 0) | (dst ? CORES_DST : 0), taken = algo_cores(a, p);
    return (wanted & ~taken) == 0 && ((taken & CORES_PAIRS) != 0) == pairs;
}

/* Others say themselves which GPUs they require. */
static bool applies(const struct algo_def *a, const struct problem *p, struct why *why)
{
    const bool cpu = cpu_device(p->device);
    if (!a->applicable(p, why))
        return false;
    PREFER(why, cpu || a->devices != DEVICES_CPU, FOR_CPUS);
    PREFER(why, !cpu || a->devices != DEVICES_GPU, FOR_GPUS);
    return true;
}

static void judge(struct candidate *c, struct decision *decision, const struct problem *of)
{
    struct why why = {NULL, false};
    struct problem p = *of;
    const struct algo_def *a = c->algo;
    p.asked = &c->asked;
    p.decision = decision;
    const bool yes = applies(a, &p, &why);
    c->verdict = yes ? CANDIDATE_APPLIES : why.passed_over ? CANDIDATE_PASSED_OVER : CANDIDATE_REJECTED;
    c->reason = yes ? BETTER_CHOSEN : why.reason;
    if (!yes && !why.passed_over)
        return;
    c->workspace = a->workspace ? a->workspace(&p) : 0;
    c->effort = a->effort_of ? a->effort_of(&p) : cpu_device(p.device) ? a->effort : 0.0;
    const bool turned = p.n_in > 1 && p.in[1].present && p.in[1].turned;
    const char *refused = c->workspace > p.workspace_limit             ? TOO_MUCH_WORKSPACE
                          : a->error > LOOSEST[p.precision]            ? OUTSIDE_PRECISION
                          : !(takes_fp16(a, &p) && takes_cores(a, &p)) ? NO_HALVES
                          : turned && !a->turned                       ? TURNED
                                                                       : NULL;
    if (refused) {
        c->verdict = CANDIDATE_REJECTED;
        c->reason = refused;
    }
}

/* What the layouts say, once they are settled. */
static void judge_layouts(struct candidate *c, const struct problem *p)
{
    const struct algo_def *a = c->algo;
    c->fits = p->layouts_open || (layout_fits(a->src, &p->in[0]) && layout_fits(a->dst, &p->out[0]) &&
                                  (a->second != LAYOUT_BLOCKED || p->in[1].block > 0));
    if (!c->fits && c->verdict == CANDIDATE_APPLIES) {
        c->verdict = CANDIDATE_PASSED_OVER;
        c->reason = OTHER_LAYOUT;
    }
}

static bool rejected(const struct candidate *c)
{
    return c->verdict == CANDIDATE_REJECTED;
}

const struct algo_def *quick_algo(const struct op_def *op)
{
    for (const struct algo_def *const *a = op_algos(op); *a; a++)
        if ((*a)->quick)
            return *a;
    return NULL;
}

/* The algorithm that is soon built, where that is wanted and it suits; NULL: the rules decide. */
static const char *soon_built(const struct problem *p)
{
    struct decision unused;
    struct candidate c = {.algo = p->quick ? quick_algo(p->op) : NULL};
    if (c.algo)
        judge(&c, &unused, p);
    return c.algo && c.verdict == CANDIDATE_APPLIES ? c.algo->name : NULL;
}

/* What is to be taken, where it can be, before the rules are asked; NULL: nothing. *how: what to say of it. */
static const char *taken_before(const struct problem *p, enum candidate_verdict *how)
{
    const char *soon = soon_built(p), *like = soon ? NULL : like_find(p);
    *how = soon ? CANDIDATE_CHOSEN_AS_SOON_BUILT : CANDIDATE_CHOSEN_AS_LIKE;
    return soon ? soon : like;
}

bool algo_is_rejected(const struct algo_def *algo, const struct problem *p)
{
    struct decision unused;
    struct candidate c = {.algo = algo};
    judge(&c, &unused, p);
    return rejected(&c);
}

const struct algo_def *algo_preferred(const struct problem *p)
{
    enum candidate_verdict unused_how;
    const char *before = taken_before(p, &unused_how), *measured = before ? before : wisdom_find(p);
    const struct algo_def *first = NULL;
    if (p->asked)
        *p->asked = true;
    for (const struct algo_def *const *a = op_algos(p->op); *a; a++) {
        struct candidate c = {.algo = *a};
        struct decision unused;
        judge(&c, &unused, p);
        judge_layouts(&c, p);
        if (measured && strcmp((*a)->name, measured) == 0 && c.fits && !rejected(&c))
            return *a;
        if (!first && c.verdict == CANDIDATE_APPLIES)
            first = *a;
    }
    return first;
}

double algo_effort_if_unknown(const struct problem *p)
{
    struct problem dense = *p;
    struct decision unused;
    dense.zeros.known = false;
    struct candidate c = {.algo = algo_preferred(&dense)};
    if (c.algo)
        judge(&c, &unused, p);
    return c.effort;
}

const struct algo_def *algo_undisputed(const struct problem *p, const struct clcnn_plan_options *options)
{
    enum candidate_verdict unused_how;
    const char *before = taken_before(p, &unused_how), *wanted = before ? before : wisdom_find(p);
    const struct algo_def *algo = override_of(options, p) < 0 ? algo_preferred(p) : NULL;
    return algo && (!wanted || strcmp(wanted, algo->name) == 0) ? algo : NULL;
}

unsigned preferred_fp16(const struct problem *p)
{
    const struct algo_def *algo = algo_preferred(p);
    return algo ? algo_fp16(algo, p) : 0;
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
                                  p->op->name, p->layer, wanted, rejected(c) ? c->reason : OTHER_LAYOUT);
            *out = i;
            return CLCNN_OK;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", c->algo->name);
    }
    return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: there is no algorithm '%s'; %s has: %s", p->op->name,
                      p->layer, wanted, p->op->name, known);
}

static int first_with(const struct candidate *candidates, int n, enum candidate_verdict verdict)
{
    for (int i = 0; i < n; i++)
        if (candidates[i].fits && candidates[i].verdict == verdict)
            return i;
    return -1;
}

/* The candidate of this name, NULL: none; -1 without one, and where it cannot be used: *note says why. */
static int usable(const char **note, const struct candidate *candidates, int n, const char *wanted)
{
    *note = wanted ? "there is no such algorithm" : NULL;
    for (int i = 0; wanted && i < n; i++)
        if (strcmp(candidates[i].algo->name, wanted) == 0) {
            const struct candidate *c = &candidates[i];
            *note = rejected(c) ? c->reason : c->fits ? NULL : OTHER_LAYOUT;
            return *note ? -1 : i;
        }
    return -1;
}

/* Picks one of those that were judged; `asked` says which one to take, NULL: what was measured or the rules decide. *how: what to say of it.
 * Tells in `notes` (NULL: not) of a measured choice that cannot be followed. */
static enum clcnn_status pick_algo(int *pick, enum candidate_verdict *how, const struct choice *c,
                                   const struct problem *p, const struct clcnn_override *asked,
                                   struct notes *notes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const char *note;
    const bool follows =
        asked && (!override_is_for_all(asked) || usable(&note, c->candidates, c->n, asked->algo) >= 0);
    const char *wanted = follows ? asked->algo : NULL;
    const struct candidate *last = &c->candidates[c->n - 1];
    const char *before = taken_before(p, how), *known = wanted ? NULL : wisdom_find(p);
    if (wanted)
        *how = CANDIDATE_CHOSEN_BY_OVERRIDE;
    *pick = usable(&note, c->candidates, c->n, wanted ? NULL : before);
    note = NULL;
    if (*pick < 0 && known) {
        *how = CANDIDATE_CHOSEN_BY_MEASUREMENT;
        *pick = usable(&note, c->candidates, c->n, known);
    }
    if (note && notes)
        TRY(notes_add(notes, err, "measured choice '%s' of %s is not followed: %s", known, p->layer, note));
    if (wanted)
        TRY(forced(pick, p, c->candidates, c->n, wanted, err));
    if (*pick < 0) {
        *how = CANDIDATE_CHOSEN;
        *pick = first_with(c->candidates, c->n, CANDIDATE_APPLIES);
    }
    if (*pick < 0)
        *pick = first_with(c->candidates, c->n, CANDIDATE_PASSED_OVER);
    if (*pick < 0)
        return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s %s: no algorithm applies; the last one, %s: %s",
                          p->op->name, p->layer, last->algo->name, last->reason);
done:
    return st;
}

/* ---- judged once ---------------------------------------------------------------------------------------------- */

/* Inputs, then outputs, then the epilogue's. */
static const struct operand *operand_at(const struct problem *p, int i)
{
    return i < p->n_in ? &p->in[i] : i < p->n_in + p->n_out ? &p->out[i - p->n_in] : &p->add;
}

/* Where operands lie and in which layout is settled while a choice is carried on; algorithms do not look at that. At strides
 * some do, so that those of items which are not dense are something new. */
static bool looks_same(const struct operand *a, const struct operand *b)
{
    return a->present == b->present && a->constant == b->constant && a->fp16 == b->fp16 &&
           a->cores == b->cores && a->pairs == b->pairs && a->shape.dtype == b->shape.dtype &&
           shape_equal(&a->shape, &b->shape) && operand_dense(a) && operand_dense(b);
}

/* Whether algorithms would see what they were judged for. What is not compared is the node's own or the plan's. What can have
 * changed: the channels of work on whole items, which are rounded up to blocks; a constant that is reordered, and with it what is
 * spare; items that became part of a larger storage; maps that became halves. */
static bool still_holds(const struct choice *c, const struct problem *p)
{
    const struct problem *of = &c->of;
    bool same = of->op == p->op && of->n_in == p->n_in && of->n_out == p->n_out &&
                of->workspace_limit == p->workspace_limit && of->spare == p->spare &&
                of->fp16_activations == p->fp16_activations && of->chained == p->chained;
    for (int i = 0; same && i <= p->n_in + p->n_out; i++)
        same = looks_same(operand_at(of, i), operand_at(p, i));
    return same;
}

static enum clcnn_status judge_all(struct choice *c, const struct problem *p, struct clcnn_err *err)
{
    const struct algo_def *const *algos = op_algos(p->op);
    for (c->n = 0; algos[c->n];)
        c->n++;
    c->of = *p;
    c->candidates = clcnn_calloc((size_t)c->n, sizeof *c->candidates);
    c->decisions = clcnn_calloc((size_t)c->n, sizeof *c->decisions);
    c->ops = clcnn_calloc((size_t)(p->n_in + p->n_out), sizeof *c->ops);
    if (!c->candidates || !c->decisions || !c->ops)
        return clcnn_fail_mem(err, (size_t)c->n * sizeof *c->candidates);
    for (int i = 0; i < p->n_in + p->n_out; i++)
        c->ops[i] = *operand_at(p, i);
    c->of.in = c->ops;
    c->of.out = c->ops + p->n_in;
    for (int i = 0; i < c->n; i++) {
        c->candidates[i].algo = algos[i];
        judge(&c->candidates[i], &c->decisions[i], p);
    }
    return CLCNN_OK;
}

/* What has been judged for the node, brought up to where things stand. */
static enum clcnn_status judge_node(struct choice **out, struct blueprint *bp, struct node *n,
                                    const struct problem *p, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    if (!n->choice) {
        if (!clcnn_grow((void **)&bp->choices, &bp->cap_choices, bp->n_choices + 1, sizeof *bp->choices))
            return clcnn_fail_mem(err, sizeof *bp->choices);
        bp->choices[bp->n_choices] = (struct choice){.candidates = NULL};
        n->choice = ++bp->n_choices;
    }
    struct choice *c = &bp->choices[n->choice - 1];
    if (c->candidates && !still_holds(c, p))
        choice_free(c);
    if (!c->candidates)
        TRY(judge_all(c, p, err));
    for (int i = 0; i < c->n; i++) {
        struct candidate *one = &c->candidates[i];
        if (one->asked && c->of.layouts_open && !p->layouts_open) {
            *one = (struct candidate){.algo = one->algo};
            judge(one, &c->decisions[i], p);
        }
        judge_layouts(one, p);
    }
    *out = c;
done:
    return st;
}

enum clcnn_status select_for_node(const struct algo_def **out, struct blueprint *bp, struct node *n,
                                  const struct problem *p, const struct clcnn_plan_options *options,
                                  struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const int override = override_of(options, p);
    struct choice *c;
    enum candidate_verdict how;
    int pick = -1;
    TRY(judge_node(&c, bp, n, p, err));
    TRY(pick_algo(&pick, &how, c, p, override >= 0 ? &options->overrides[override] : NULL, NULL, err));
    *out = c->candidates[pick].algo;
done:
    return st;
}

/* A part of a merged layer is a problem of its own, which nobody has judged. */
static enum clcnn_status judge_part(struct choice *c, const struct problem *p, struct clcnn_err *err)
{
    const enum clcnn_status st = judge_all(c, p, err);
    for (int i = 0; st == CLCNN_OK && i < c->n; i++)
        judge_layouts(&c->candidates[i], p);
    return st;
}

enum clcnn_status select_for_layer(struct emit *e, struct node *n, const struct problem *p,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct layer *l = &e->bp->layers[e->layer_index];
    /* an override that names one of the parts of a merged layer has been followed when the layer itself was chosen */
    const int override = n ? override_of(e->options, p) : -1;
    struct choice part = {.candidates = NULL}, *c = &part;
    enum candidate_verdict how;
    int pick = -1;
    TRY(n ? judge_node(&c, e->bp, n, p, err) : judge_part(c, p, err));
    TRY(pick_algo(&pick, &how, c, p, override >= 0 ? &e->options->overrides[override] : NULL, &e->bp->notes,
                  err));
    if (how == CANDIDATE_CHOSEN_BY_OVERRIDE)
        e->override_used[override] = true;
    c->candidates[pick].verdict = how;
    c->candidates[pick].reason = "";
    e->algo = l->algo = c->candidates[pick].algo;
    l->effort = c->candidates[pick].effort;
    l->decision = c->decisions[pick];
    l->candidates = c->candidates;
    l->n_candidates = c->n;
    c->candidates = NULL;
done:
    choice_free(c);
    return st;
}
