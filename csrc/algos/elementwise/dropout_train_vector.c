/* dropout_train_vector: elements dropped at random, many draws at once; see kernels/elementwise/dropout_train_vector.cl. */
#include "algos/common/blocked.h"
#include "algos/elementwise/dropout_train.h"

#define SHORTEST_RUN 8 /* calls of a group, at least */

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct dropout_args a = dropout_args_of(p);
    const int draws = 4 * p->block; /* of one call */
    const size_t chunks = ceil_div((size_t)a.inner, (size_t)draws);
    a.run = (int64_t)draws * blocked_run(p, (size_t)a.rows, chunks, SHORTEST_RUN);
    a.pieces = (int64_t)ceil_div((size_t)a.inner, (size_t)a.run);
    struct step *s = emit_step(e, "dropout_train_vector", "main", (size_t)(a.rows * a.pieces), 1);
    step_define(s, "V", p->block);
    dropout_finish(p, s, &a);
}

const struct algo_def algo_dropout_train_vector = {
    .name = "vector",
    .doc = "vectors of draws, of four numbers each",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
