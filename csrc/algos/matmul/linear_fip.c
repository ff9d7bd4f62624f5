/* linear_fip: linear layers of constant weights as 1x1 convolutions of rows by the fast inner product; see kernels/conv_cpu/conv_fip.cl. */
#include "algos/conv_cpu/conv_fip.h"
#include "algos/matmul/gemm_common.h"

/* Each row is a pixel; items that do not go on where the one before ends are images. */
struct rows {
    struct gemm_args gemm;
    struct conv_args conv;
};

static struct rows rows_of(const struct problem *p)
{
    struct rows r = {.gemm = linear_as_gemm(p).args};
    gemm_merge_items(&r.gemm, p->in[2].present, p->add.present);
    r.conv = (struct conv_args){
        .src_n = r.gemm.a_b[0],
        .dst_n = r.gemm.y_n,
        .add_n = r.gemm.add_n,
        .w_k = r.gemm.b_n,
        .n = (int)gemm_items(&r.gemm),
        .c = r.gemm.k,
        .k = r.gemm.n,
        .groups = 1,
        .in = {1, 1, r.gemm.m},
        .out = {1, 1, r.gemm.m},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
    };
    return r;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "register tiles are for CPU devices with vectors of 8 or 16 floats");
    const struct rows r = rows_of(p);
    const struct gemm_args *g = &r.gemm;
    REQUIRE(why, !p->add.present || g->add_m == g->y_m,
            "rows of what is added must lie as far apart as those of the result");
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
    const struct rows r = rows_of(p);
    return BLOCKED_EFFORT_PERCENT * fip_ratio(p, &r.conv);
}

static size_t workspace(const struct problem *p)
{
    const struct rows r = rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    return fip_filter_workspace(p, &r.conv, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct rows r = rows_of(p);
    struct fip_cut c;
    DECIDED(p, c);
    const int64_t x_row = r.gemm.m > 1 ? r.gemm.a_m : r.gemm.k, y_row = r.gemm.m > 1 ? r.gemm.y_m : r.gemm.n;
    gemm_cost(emit_fip_products(e, p, &r.conv, &c, x_row, y_row), p, &r.gemm);
}

const struct algo_def algo_linear_fip = {
    .name = "fip",
    .doc = "rows by the fast inner product",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort_of = effort_of,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
