/* linear_rows: see linear_rows.h. */
#include "algos/matmul/linear_rows.h"

struct linear_rows linear_rows_of(const struct problem *p)
{
    struct linear_rows r = {.gemm = linear_as_gemm(p).args};
    gemm_merge_items(&r.gemm, p->in[2].present, p->add.present);
    r.conv = (struct conv_args){
        .src_n = r.gemm.a_b[0],
        .dst_n = r.gemm.y_b[0],
        .add_n = r.gemm.add_b[0],
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
    r.x_row = r.gemm.m > 1 ? r.gemm.a_m : r.gemm.k;
    r.y_row = r.gemm.m > 1 ? r.gemm.y_m : r.gemm.n;
    return r;
}

bool linear_rows_fit(const struct problem *p, const struct linear_rows *r, struct why *why)
{
    REQUIRE(why, !p->add.present || r->gemm.add_m == r->gemm.y_m,
            "rows of what is added must lie as far apart as those of the result");
    return true;
}
