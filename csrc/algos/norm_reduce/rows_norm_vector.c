/* rows_norm_vector: norms of row-major elements in vectors, for CPU devices; see kernels/norm_reduce/rows_norm_vector.cl. */
#include "algos/norm_reduce/rows_norm.h"
#include "algos/cost/cost.h"

/* Of columns, as in the kernel: vectors of a tile, and floats that are kept of one. */
#define TILE 4
#define STAGE 32768
#define ALIAS \
    1024 /* floats: lines of a cache that lie a multiple of this apart take the place of one another */

/* The parts of a row of which an item has too few for all cores; it must not depend on the batch, since sums do on the
 * parts. */
static int64_t parts_of(const struct problem *p, const struct norm_vector_args *a)
{
    const int64_t units = (int64_t)device_units(p->device), parts = a->length / NORM_PART_ELEMENTS;
    if (a->middle >= 2 * units || parts < 2)
        return 1;
    return parts < 4 * units ? parts : 4 * units;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_VECTORS);
    REQUIRE(why, norm_is_rows(p), SEVERAL_ITEMS);
    const struct norm_vector_args a = norm_rows_of(p);
    REQUIRE(why, ROWS_ARE_CONTIGUOUS(&a) || a.inner >= rows_vector(p, a.inner), FEW_NEIGHBOURS);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct norm_vector_args a = norm_rows_of(p);
    const int64_t parts = a.x_step == 1 ? parts_of(p, &a) : 1;
    return parts > 1 ? (size_t)(a.rows * parts) * 2 * sizeof(float) : 0;
}

static struct step *start(const struct problem *p, struct emit *e, const char *entry, int vector,
                          size_t groups)
{
    struct step *s = emit_step(e, "rows_norm_vector", entry, groups, 1);
    step_define(s, "KIND", norm_kind(p));
    step_define(s, "V", vector);
    step_read(s, p->in[0].view);
    return s;
}

static void emit_parts(const struct problem *p, struct emit *e, struct norm_vector_args *a)
{
    const int sums = emit_workspace(e, workspace(p));
    const size_t groups = (size_t)(a->rows * a->parts);
    a->part_length = (int64_t)round_up(ceil_div((size_t)a->length, (size_t)a->parts), (size_t)p->block);
    norm_sums(p, start(p, e, "sums", p->block, groups), a, sums);
    norm_finish(p, start(p, e, "apply", p->block, groups), a, sums);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct norm_vector_args a = norm_rows_of(p);
    if (!ROWS_ARE_CONTIGUOUS(&a)) {
        const int vector = rows_vector(p, a.inner);
        a.parts = (int64_t)ceil_div(ceil_div((size_t)a.inner, (size_t)vector), TILE);
        a.staged = a.x_step % ALIAS == 0 && a.length * TILE * vector <= STAGE;
        norm_finish(p, start(p, e, "columns", vector, (size_t)(a.rows * a.parts)), &a, VIEW_NONE);
        return;
    }
    a.parts = parts_of(p, &a);
    if (a.parts > 1) {
        emit_parts(p, e, &a);
        return;
    }
    a.run = rows_run(p, a.rows, a.length);
    norm_finish(p, start(p, e, "rows", p->block, ceil_div((size_t)a.rows, (size_t)a.run)), &a, VIEW_NONE);
}

#define VECTOR_ALGO(op)                                                  \
    const struct algo_def algo_##op##_vector = {                         \
        .name = "vector",                                                \
        .doc = "vectors, sums about a pivot; each row from memory once", \
        .devices = DEVICES_CPU,                                          \
        .vectors = true,                                                 \
        .error = ERROR_STRICT,                                           \
        .deterministic = true,                                           \
        .applicable = applicable,                                        \
        .workspace = workspace,                                          \
        .emit = emit,                                                    \
    }
VECTOR_ALGO(instance_norm);
VECTOR_ALGO(group_norm);
VECTOR_ALGO(layer_norm);
VECTOR_ALGO(rms_norm);
VECTOR_ALGO(l2_norm);
