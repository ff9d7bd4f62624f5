/* binary_vector: element-wise functions of two broadcast arguments, and prelu, on vectors; see
 * kernels/elementwise/binary_vector.cl. */
#include "algos/elementwise/vector_rows.h"

#include <string.h>

static void emit(const struct problem *p, struct emit *e)
{
    struct vector_walk w;
    char identifier[40] = "bin_prelu";
    const size_t groups = vector_walk_of(p, &w);
    struct binary_vector_args a = {.inner = w.inner, .rows = w.rows, .rank = w.rank};
    memcpy(a.size, w.size, sizeof a.size);
    for (int i = 0; i < 2; i++) {
        a.step[i] = w.step[i];
        a.channel_step[i] = w.channel_step[i];
        memcpy(a.stride[i].of, w.stride[i], sizeof w.stride[i]);
    }
    memcpy(a.stride[2].of, w.stride[VECTOR_INPUTS], sizeof w.stride[VECTOR_INPUTS]);
    if (p->op != &op_prelu)
        eltwise_identifier(identifier, p->op, p->attrs, CLCNN_FLOAT32);
    struct step *s = vector_step(e, p, "binary_vector", groups);
    step_define_id(s, "OP", identifier);
    if (p->op == &op_pow && a.step[1] == SAME_VALUE)
        step_define(s, "POWER", 1);
    step_read_like(s, p, 0);
    step_read_like(s, p, 1);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

#define VECTOR_ALGO(op)                                                                              \
    const struct algo_def algo_##op##_vector = {                                                     \
        .name = "vector",                                                                            \
        .doc = "vector by vector, row-major or on channel blocks with a value a channel or a pixel", \
        .devices = DEVICES_CPU,                                                                      \
        .error = ERROR_STRICT,                                                                       \
        .deterministic = true,                                                                       \
        .stores_in_place = true,                                                                     \
        .src = LAYOUT_FOLLOWS,                                                                       \
        .dst = LAYOUT_FOLLOWS,                                                                       \
        .applicable = vector_applicable,                                                             \
        .emit = emit,                                                                                \
    }
VECTOR_ALGO(binary);
VECTOR_ALGO(prelu);
