/* linear_fip: linear layers of constant weights as 1x1 convolutions of rows by the fast inner product; see kernels/conv_cpu/conv_fip.cl. */
#include "algos/conv_cpu/conv_fip.h"
#include "algos/matmul/linear_rows.h"

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "register tiles are for CPU devices with vectors of 8 or 16 floats");
    const struct linear_rows r = linear_rows_of(p);
    const struct gemm_args *g = &r.gemm;
    if (!linear_rows_fit(p, &r, why))
        return false;
    const struct fip_cut c = fip_cut_of(p, &r.conv);
    REQUIRE(why, c.groups > 0, FIP_TOO_LARGE);
    DECIDE(p, c);
    PREFER(why, p->in[1].constant, "scaling filters in every run takes more than the products save");
    PREFER(why, fip_pays(p, &r.conv), NO_ADDERS);
    PREFER(why, g->k >= 2 * p->block && g->n >= LINEAR_FIP_FEWEST_COLUMNS, FEW_FILTERS);
    PREFER(why,
           sizeof(float) * (size_t)shape_count(&p->in[1].shape) <= LINEAR_FIP_NEAR_BYTES ||
               c.groups <= device_units(p->device),
           "groups of rows would each read the weights from memory");
    PREFER(why, r.conv.n * g->m >= LINEAR_FIP_FEWEST_ROWS, "few rows: the weights are what is waited for");
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct linear_rows r = linear_rows_of(p);
    return BLOCKED_EFFORT_PERCENT * fip_ratio(p, &r.conv);
}

static size_t workspace(const struct problem *p)
{
    const struct linear_rows r = linear_rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    return fip_filter_workspace(p, &r.conv, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct linear_rows r = linear_rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    gemm_cost(emit_fip_products(e, p, &r.conv, &c, r.x_row, r.y_row), p, &r.gemm);
}

const struct algo_def algo_linear_fip = {
    .name = "fip",
    .doc = "rows by the fast inner product",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .stores_in_place = true,
    .effort_of = effort_of,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
