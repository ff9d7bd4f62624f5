/* linear_strassen: linear layers of constant weights as 1x1 convolutions of rows by Strassen's products; see
 * kernels/conv_cpu/conv_strassen.cl. */
#include "algos/conv_cpu/conv_strassen.h"
#include "algos/matmul/gemm_common.h"
#include "algos/matmul/linear_rows.h"
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"


/* Time in multiply-adds at the peak. */
static double cost_of(const struct problem *p, const struct linear_rows *r, const struct strassen_scheme *s)
{
    const double slices = (double)ceil_div(s->cut.all, s->slice);
    const double all = strassen_cost(&s->cut, &r->conv, LINEAR_STRASSEN_SUM_MACS) +
                       strassen_factors(&s->cut, &r->conv, s->cut.all) * LINEAR_STRASSEN_SPREAD_MACS +
                       slices * STRASSEN_STEP_MACS * (double)device_units(p->device);
    return all * profile_factor(p->device, PROFILE_strassen_small, conv_macs(&r->conv));
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "register tiles are for CPU devices with vectors of 8 or 16 floats");
    const struct linear_rows r = linear_rows_of(p);
    if (!linear_rows_fit(p, &r, why))
        return false;
    REQUIRE(why, strassen_can(p, &r.conv), NO_HALVES);
    const struct strassen_scheme s = strassen_scheme_of(p, &r.conv);
    DECIDE(p, s);
    PREFER(why, p->in[1].constant, "sums of filters in every run take more than the products save");
    PREFER(why, !p->fresh_filters, SUMS_OF_FILTERS);
    PREFER(why, !p->quick, GEMM_BUILT_LATER);
    PREFER(why, r.conv.n * r.gemm.m >= LINEAR_STRASSEN_FEWEST_ROWS,
           "few rows: the weights are what is waited for, and sums of them are more");
    PREFER(why, cost_of(p, &r, &s) < LINEAR_STRASSEN_WORTH_RATIO * blocked_direct_cost(&r.conv),
           "sums cost as much as an eighth of the products");
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct linear_rows r = linear_rows_of(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    return blocked_effort(&r.conv, cost_of(p, &r, &s));
}

static size_t workspace(const struct problem *p)
{
    const struct linear_rows r = linear_rows_of(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    return strassen_workspace(p, &r.conv, &s);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct linear_rows r = linear_rows_of(p);
    struct strassen_scheme s;
    DECIDED(p, s);
    emit_strassen_steps(e, p, &r.conv, &s, r.x_row, r.y_row);
}

const struct algo_def algo_linear_strassen = {
    .name = "strassen",
    .doc = "rows by seven products of halves instead of eight",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = STRASSEN_EFFORT_PERCENT,
    .effort_of = effort_of,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
