/* binary_quads: element-wise functions of two broadcast arguments, and prelu, on GPUs; see
 * kernels/elementwise/binary_quads.cl. */
#include "algos/common/walk.h"
#include "algos/elementwise/vector_rows.h"

static bool walk_operands(const struct problem *p, struct walk_args *w)
{
    struct walk_sizes s = walk_sizes_of(&p->out[0], 3);
    for (int i = 0; i < 2; i++)
        broadcast_strides(p, &p->in[i], s.stride[i]);
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
    struct walk_args w;
    char identifier[40] = "bin_prelu";
    walk_operands(p, &w);
    if (p->op != &op_prelu)
        eltwise_identifier(identifier, p->op, p->attrs, p->in[0].shape.dtype);
    struct step *s = walk_step(e, p, "binary_quads", &w);
    step_define_id(s, "OP", identifier);
    step_define_type(s, "T", p->in[0].shape.dtype);
    if (p->out[0].shape.dtype != p->in[0].shape.dtype)
        step_define_type(s, "R", p->out[0].shape.dtype);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, &w, sizeof w);
    rows_cost(s, p, 0);
}

#define QUADS_ALGO(op)                                                      \
    const struct algo_def algo_##op##_quads = {                             \
        .name = "quads",                                                    \
        .doc = "four elements a work-item, dimensions merged, no division", \
        .devices = DEVICES_GPU,                                             \
        .error = ERROR_STRICT,                                              \
        .deterministic = true,                                              \
        .applicable = applicable,                                           \
        .emit = emit,                                                       \
    }
QUADS_ALGO(binary);
QUADS_ALGO(prelu);
