/* sgd_update_ref: a step of stochastic gradient descent; see kernels/update/sgd_update_ref.cl. */
#include "algos/update/update.h"
#include "algos/common/blocked.h"

#define SHORTEST_RUN 64 /* vectors of a CPU's group: fewer take less time than a group costs */

struct step *update_step(struct emit *e, const struct problem *p, const char *file, i64 *run,
                         struct commit_gate *gate)
{
    const bool cpu = cpu_device(p->device);
    const int v = p->block ? p->block : 4, wg = cpu ? 1 : (int)any_group_size(p);
    const size_t vectors = ceil_div((size_t)shape_count(&p->out[0].shape), (size_t)v);
    *run = cpu ? blocked_run(p, 1, vectors, SHORTEST_RUN) : wg;
    struct step *s = emit_step(e, file, "main", ceil_div(vectors, (size_t)*run), (size_t)wg);
    step_define(s, "V", v);
    *gate = (struct commit_gate){.commit = !p->in_commit, .when = p->when != VIEW_NONE};
    s->commits = s->alone = p->in_commit;
    step_read(s, p->when);
    for (int i = 0; i < p->n_in; i++)
        step_read(s, p->in[i].view);
    for (int i = 0; i < p->n_out; i++)
        (p->in_commit ? step_update : step_write)(s, p->out[i].view);
    rows_cost(s, p, 0);
    return s;
}

bool momentum_is_fed(const struct problem *p)
{
    return p->in[p->n_in - 1].shape.dim[0] == 3;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct sgd_attrs *attrs = p->attrs;
    struct sgd_args a = {.count = shape_count(&p->out[0].shape),
                         .momentum = attrs->momentum,
                         .weight_decay = attrs->weight_decay,
                         .nesterov = attrs->nesterov,
                         .fed = momentum_is_fed(p)};
    struct step *s = update_step(e, p, "sgd_update_ref", &a.run, &a.gate);
    step_args(s, &a, sizeof a);
}

const struct algo_def algo_sgd_update_ref = {
    .name = "ref",
    .doc = "one pass over flat arrays, on vectors",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
