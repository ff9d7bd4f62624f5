/* elementwise_together: element-wise functions one after the other in one kernel, on GPUs; see
 * kernels/elementwise/elementwise_together.cl. */
#include "algos/common/walk.h"
#include "elementwise/elementwise_args.h"

static struct elementwise_together_args args_of(const struct problem *p)
{
    const struct elementwise_attrs *attrs = p->attrs;
    struct elementwise_together_args a = {0};
    struct walk_sizes s = walk_sizes_of(&p->out[0], WALK_MOST);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present)
            operand_broadcast(&p->in[i], &p->out[0].shape, s.stride[i]);
    walk_merge(&s);
    walk_of(&a.walk, &s); /* the rewrite made only what fits */
    for (int k = 0; k < attrs->n; k++) {
        a.p0[k] = attrs->part[k].attrs.p0;
        a.p1[k] = attrs->part[k].attrs.p1;
    }
    return a;
}

static void emit(const struct problem *p, struct emit *e)
{
    static const char *const part[] = {"PART0", "PART1", "PART2", "PART3"}, *const how[] = {"HOW0", "HOW1",
                                                                                            "HOW2", "HOW3"};
    const struct elementwise_attrs *attrs = p->attrs;
    const struct elementwise_together_args a = args_of(p);
    struct step *s = walk_step(e, p, "elementwise_together", &a.walk);
    for (int k = 0; k < attrs->n; k++) {
        const struct elementwise_part *at = &attrs->part[k];
        char identifier[40];
        eltwise_identifier(identifier, at->op, &at->attrs, CLCNN_FLOAT32);
        step_define_id(s, part[k], identifier);
        step_define(s, how[k], eltwise_is_unary(at->op) ? 1 : at->turned ? 3 : 2);
    }
    for (int i = 0; i < 1 + ELEMENTWISE_PARTS; i++)
        step_read(s, p->in[i].present ? p->in[i].view : VIEW_NONE);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
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
