/* adamw_update_ref: a step of AdamW or Adam; see kernels/update/adamw_update_ref.cl. */
#include "algos/update/update.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The number that was meant by a float: 0.999 and not 0.99900001, since 1 less that is off by 1e-5 of itself. */
static double meant_by(float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)value);
    return strtod(text, NULL);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct adamw_attrs *attrs = p->attrs;
    const float betas[] = {attrs->beta1, attrs->beta2};
    struct adamw_args a = {.count = shape_count(&p->out[0].shape),
                           .epsilon = attrs->epsilon,
                           .weight_decay = attrs->weight_decay,
                           .decoupled = attrs->decoupled,
                           .fed = momentum_is_fed(p)};
    for (int i = 0; i < 2; i++) {
        const double beta = meant_by(betas[i]);
        a.beta[i] = (float)beta;
        a.log[i] = (float)log(beta);
        a.rest[i] = (float)(1.0 - beta);
    }
    struct step *s = update_step(e, p, "adamw_update_ref", &a.run, &a.gate);
    step_args(s, &a, sizeof a);
}

const struct algo_def algo_adamw_update_ref = {
    .name = "ref",
    .doc = "one pass over flat arrays, on vectors",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
