/* elementwise_together: element-wise functions one after the other in one kernel, on GPUs; see
 * kernels/elementwise/elementwise_together.cl. */
#include "algos/common/walk.h"
#include "algos/elementwise/elementwise_step.h"
#include "elementwise/elementwise_args.h"

static struct elementwise_together_args args_of(const struct problem *p)
{
    struct elementwise_together_args a = {0};
    struct walk_sizes s = walk_sizes_of(&p->out[0], WALK_MOST);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present)
            operand_broadcast(&p->in[i], &p->out[0].shape, s.stride[i]);
    walk_merge(&s);
    walk_of(&a.walk, &s); /* the rewrite made only what fits */
    elementwise_numbers(p, a.p0, a.p1);
    return a;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct elementwise_together_args a = args_of(p);
    struct step *s = walk_step(e, p, "elementwise_together", &a.walk);
    elementwise_step(s, p);
    step_args(s, &a, sizeof a);
}

const struct algo_def algo_elementwise_together = {
    .name = "together",
    .doc = "four elements a work-item, all functions in one pass",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
