/* unary_quads: element-wise functions of one argument on GPUs; see kernels/elementwise/unary_quads.cl. */
#include "algos/common/walk.h"
#include "elementwise/elementwise_args.h"

static bool walk_operands(const struct problem *p, struct walk_args *w)
{
    struct walk_sizes s = walk_sizes_of(&p->out[0], 2);
    operand_strides(&p->in[0], s.stride[0]);
    walk_merge(&s);
    return walk_of(w, &s);
}

static bool applicable(const struct problem *p, struct why *why)
{
    struct walk_args w;
    REQUIRE(why, walk_operands(p, &w), WALK_TOO_LARGE);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct eltwise_attrs *attrs = p->attrs;
    struct unary_walk_args a = {.p0 = attrs->p0, .p1 = attrs->p1};
    char identifier[40];
    walk_operands(p, &a.walk);
    struct step *s = walk_step(e, p, "unary_quads", &a.walk);
    eltwise_identifier(identifier, p->op, p->attrs, p->in[0].shape.dtype);
    step_define_id(s, "OP", identifier);
    step_define_type(s, "T", p->in[0].shape.dtype);
    if (p->out[0].shape.dtype != p->in[0].shape.dtype) {
        step_define_id(s, "R", dtype_opencl(p->out[0].shape.dtype));
        s->alone = true;
    }
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_unary_quads = {
    .name = "quads",
    .doc = "four elements a work-item",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
