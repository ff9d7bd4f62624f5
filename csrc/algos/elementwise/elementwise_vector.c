/* elementwise_vector: element-wise functions one after the other in one pass of vectors, on CPU devices; see
 * kernels/elementwise/elementwise_vector.cl. */
#include "algos/elementwise/elementwise_step.h"
#include "algos/elementwise/vector_rows.h"

#include <string.h>

static void emit(const struct problem *p, struct emit *e)
{
    struct vector_walk w;
    const size_t groups = vector_walk_of(p, &w);
    struct elementwise_vector_args a = {.inner = w.inner, .rows = w.rows, .rank = w.rank};
    memcpy(a.size, w.size, sizeof a.size); /* the rewrite made only what fits */
    for (int i = 0; i <= VECTOR_INPUTS; i++)
        memcpy(a.stride[i].of, w.stride[i], sizeof a.stride[i].of);
    for (int i = 0; i < VECTOR_INPUTS; i++) {
        a.step[i] = w.step[i];
        a.channel_step[i] = w.channel_step[i];
    }
    elementwise_numbers(p, a.p0, a.p1);
    struct step *s = vector_step(e, p, "elementwise_vector", groups);
    elementwise_step(s, p);
    step_args(s, &a, sizeof a);
}

const struct algo_def algo_elementwise_vector = {
    .name = "vector",
    .doc = "vector by vector, all functions in one pass",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .stores_in_place = true,
    .src = LAYOUT_FOLLOWS,
    .dst = LAYOUT_FOLLOWS,
    .applicable = vector_applicable,
    .emit = emit,
};
