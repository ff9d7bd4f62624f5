/* softmax_vector: softmax and log_softmax in vectors, for CPU devices; see kernels/norm_reduce/softmax_vector.cl. */
#include "algos/norm_reduce/rows_norm.h"

#define TILE 4 /* vectors of columns at most */

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_VECTORS);
    const struct softmax_args a = softmax_rows_of(p);
    REQUIRE(why, ROWS_ARE_CONTIGUOUS(&a) || a.inner >= rows_vector(p, a.inner), FEW_NEIGHBOURS);
    return true;
}

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_args a = softmax_rows_of(p);
    const bool rows = ROWS_ARE_CONTIGUOUS(&a);
    const int vector = rows ? p->block : rows_vector(p, a.inner);
    a.run = rows_run(p, a.rows, a.length);
    const size_t vectors = ceil_div((size_t)a.inner, (size_t)vector), tile = vectors < 3 ? vectors : TILE;
    a.pieces = (int64_t)ceil_div(vectors, tile);
    const size_t groups = rows ? ceil_div((size_t)a.rows, (size_t)a.run) : (size_t)(a.rows * a.pieces);
    struct step *s = emit_step(e, "softmax_vector", rows ? "rows" : "columns", groups, 1);
    softmax_finish(p, s, &a, logarithm);
    step_define(s, "V", vector);
    if (!rows && tile < TILE)
        step_define(s, "TILE", (int)tile);
}

SOFTMAX_ALGOS(vector, .doc = "vectors, with exponentials of its own", .devices = DEVICES_CPU, .vectors = true,
              .applicable = applicable);
