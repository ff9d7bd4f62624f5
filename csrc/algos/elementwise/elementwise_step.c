/* elementwise_step.c: see elementwise_step.h. */
#include "algos/elementwise/elementwise_step.h"

void elementwise_numbers(const struct problem *p, f32 *p0, f32 *p1)
{
    const struct elementwise_attrs *attrs = p->attrs;
    for (int k = 0; k < attrs->n; k++) {
        p0[k] = attrs->part[k].attrs.p0;
        p1[k] = attrs->part[k].attrs.p1;
    }
}

void elementwise_step(struct step *s, const struct problem *p)
{
    static const char *const part[] = {"PART0", "PART1", "PART2", "PART3"}, *const how[] = {"HOW0", "HOW1",
                                                                                            "HOW2", "HOW3"};
    const struct elementwise_attrs *attrs = p->attrs;
    for (int k = 0; k < attrs->n; k++) {
        const struct elementwise_part *at = &attrs->part[k];
        char identifier[40];
        eltwise_identifier(identifier, at->op, &at->attrs, CLCNN_FLOAT32);
        step_define_id(s, part[k], identifier);
        step_define(s, how[k], eltwise_is_unary(at->op) ? 1 : at->turned ? 3 : 2);
    }
    for (int i = 0; i < 1 + ELEMENTWISE_PARTS; i++)
        step_read_like(s, p, i);
    step_write(s, p->out[0].view);
    rows_cost(s, p, 0);
}
