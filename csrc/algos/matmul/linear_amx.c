/* linear_amx: linear layers as 1x1 convolutions of rows by tiles of bfloat16; see kernels/conv_cpu/conv_amx.cl. */
#include "algos/conv_cpu/conv_amx.h"
#include "algos/cost/cost.h"
#include "algos/matmul/linear_rows.h"

static struct amx_cut cut_of(const struct problem *p)
{
    const struct linear_rows r = linear_rows_of(p);
    return amx_cut_of(p, amx_format_of(p), &r.conv, 0, r.x_row, r.y_row);
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "register tiles are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, p->block == 16, NARROW_LANES);
    const struct linear_rows r = linear_rows_of(p);
    if (!linear_rows_fit(p, &r, why))
        return false;
    const struct amx_cut c = cut_of(p);
    return amx_pays(p, &c, LINEAR_AMX_FEWEST_CHANNELS, why);
}

static size_t workspace(const struct problem *p)
{
    const struct amx_cut c = cut_of(p);
    return amx_workspace(p, &c);
}

static double effort_of(const struct problem *p)
{
    const struct amx_cut c = cut_of(p);
    return amx_effort(p, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct linear_rows r = linear_rows_of(p);
    const struct amx_cut c = cut_of(p);
    gemm_cost(emit_amx_conv(e, p, &c), p, &r.gemm);
}

const struct algo_def algo_linear_amx = {
    .name = "amx",
    .doc = "rows by tiles of bfloat16, three for each float",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_BF16_PARTS,
    .deterministic = true,
    .stores_in_place = true,
    .effort = AMX_EFFORT_PERCENT,
    .effort_of = effort_of,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
