/* reduce_quads: sum, mean, max and min of a few elements along a dimension that is not the innermost one, for GPUs; see
 * kernels/norm_reduce/reduce_quads.cl. */
#include "algos/common/norm_rows.h"
#include "algos/common/reduction.h"

enum { QUAD = 4, MOST = 16 };

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "elements are no floats");
    const struct reduction r = reduction_of(p);
    REQUIRE(why, r.args.outer == 1, "what is reduced is not one walk");
    REQUIRE(why, r.columns, "no neighbours that are kept");
    REQUIRE(why, r.length <= MOST, "longer sums are for work-items that share them");
    return true;
}

static void emit_pass(const struct problem *p, struct emit *e, const struct reduction *r, const char *red,
                      int from, int to)
{
    struct lanes_reduce_args a = reduction_lanes_args(r);
    a.pieces = (int64_t)ceil_div((size_t)a.inner, QUAD);
    const size_t wg = any_group_size(p), groups = ceil_div((size_t)(a.rows * a.pieces), wg);
    struct step *s = emit_step(e, "reduce_quads", "main", groups, wg);
    step_define_id(s, "RED", red);
    step_define_id(s, "INDEX", groups * wg * QUAD <= UINT32_MAX ? "uint" : "ulong");
    step_read(s, from);
    step_write(s, to);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[0].shape));
}

REDUCTION_ALGOS(quads, reduction_of,
                .doc = "a few elements along a dimension whose neighbours are kept, four outputs a work-item",
                .devices = DEVICES_GPU, .applicable = applicable);
