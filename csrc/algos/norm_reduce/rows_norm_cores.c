/* rows_norm_cores: layer and RMS norm whose result becomes scaled halves in cores, for products on Hopper's tensor cores; see
 * kernels/norm_reduce/rows_norm_cores.cl. */
#include "algos/common/octets.h"
#include "algos/norm_reduce/rows_norm.h"

/* Octets of a work-item, which are all of its position's: parameters take as many registers. */
enum { MOST_KEPT = 6 };

/* Rows whose elements are neighbours; else those of a map's channels. */
static bool is_deep(const struct norm_vector_args *a)
{
    return a->inner == 1 && a->x_step == 1;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, norm_is_rows(p), SEVERAL_ITEMS);
    const struct norm_vector_args a = norm_rows_of(p);
    REQUIRE(why, a.length % 16 == 0 && a.length / 8 <= octets_most(is_deep(&a), MOST_KEPT),
            "rows of whole steps of tensor cores that registers hold are needed");
    REQUIRE(why, is_deep(&a) ? operand_dense(&p->in[0]) : a.middle == 1,
            "rows must follow each other, or be the channels of a map");
    REQUIRE(why, p->out[0].cores != 0.0f, "its result is for those who read halves in cores");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct norm_vector_args rows = norm_rows_of(p);
    const bool deep = is_deep(&rows);
    const struct norm_cores_args a = {
        .x_n = deep ? rows.length : rows.x_n,
        .positions = (int32_t)(rows.rows * rows.inner),
        .plane = deep ? 1 : (int32_t)rows.inner,
        .channels = (int32_t)rows.length,
        .weight = rows.weight,
        .bias = rows.bias,
        .eps = rows.eps,
        .p0 = rows.p0,
        .p1 = rows.p1,
        .up = p->out[0].cores,
    };
    struct step *s = emit_octets(e, "rows_norm_cores", (size_t)a.positions, deep, a.channels / 8, MOST_KEPT);
    step_define(s, "KIND", norm_kind(p));
    step_define(s, "PAIRS", p->out[0].pairs);
    step_read(s, p->in[0].view);
    norm_finish_with(p, s, VIEW_NONE, &a, sizeof a);
}

#define CORES_ALGO(op, of, class, form)                                                  \
    const struct algo_def algo_##op##_##of = {                                           \
        .name = #of,                                                                     \
        .doc = "several work-items a row, which becomes halves for the products behind", \
        .devices = DEVICES_HOPPER,                                                       \
        .error = class,                                                                  \
        .cores = form,                                                                   \
        .deterministic = true,                                                           \
        .applicable = applicable,                                                        \
        .emit = emit,                                                                    \
    }
CORES_ALGO(layer_norm, cores, ERROR_HIGH, CORES_DST);
CORES_ALGO(rms_norm, cores, ERROR_HIGH, CORES_DST);
CORES_ALGO(layer_norm, pairs, ERROR_HIGHEST, CORES_DST | CORES_PAIRS);
CORES_ALGO(rms_norm, pairs, ERROR_HIGHEST, CORES_DST | CORES_PAIRS);
