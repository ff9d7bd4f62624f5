/* separable_strassen: the depthwise convolution makes the right factors of Strassen's products, which are the 1x1 convolution; see
 * kernels/separable_strassen.cl and kernels/conv_strassen.cl. */
#include "algos/blocked.h"
#include "algos/conv_strassen.h"
#include "algos/separable_common.h"

#define WORTH 0.97 /* of the direct products' time */

/* Pixels of a row that the depthwise part computes at a time. */
static int row_of(const struct strassen_cut *c)
{
    return c->t % 7 == 0 ? 7 : c->t;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    struct separable parts;
    separable_parts(p, &parts);
    const struct conv_args a = conv_args_of(&parts.pw);
    REQUIRE(why, strassen_halves(p, &a), NO_HALVES);
    const struct strassen_cut c = strassen_cut_of(&parts.pw, &a);
    REQUIRE(why, a.out[2] % row_of(&c) == 0, "rows must be whole tiles of 7 pixels (6 with vectors of 8)");
    PREFER(why, strassen_cost(&c, &a) < WORTH * blocked_direct_cost(&a),
           "sums cost as much as an eighth of the products");
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct separable parts;
    separable_parts(p, &parts);
    const struct conv_args dw = conv_args_of(&parts.dw);
    return depthwise_packing_workspace(&parts.dw, &dw) + strassen_workspace(&parts.pw);
}

struct depthwise {
    const struct problem *p;
    struct separable *parts;
    int packed;
};

static void emit_spread(struct emit *e, const struct strassen_cut *c, int factors,
                        const struct conv_strassen_args *products, const void *with)
{
    const struct depthwise *d = with;
    const struct problem *p = d->p;
    struct separable_strassen_args args = {.shape = separable_args_of(p), .products = *products};
    const double share = (double)products->count / (double)c->all;
    struct step *s = emit_step(e, "separable_strassen", "main", (size_t)products->count * c->c_blocks, 1);
    blocked_middle(s, d->parts, d->packed, &args.shape);
    step_define(s, "DT", row_of(c));
    step_define(s, "T", c->t);
    step_write(s, factors);
    step_args(s, &args, sizeof args);
    conv_cost(s, &d->parts->dw);
    step_cost(s, share * s->macs,
              share * 4.0 * (double)shape_count(&p->in[0].shape) + (double)products->count * c->pair_bytes);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    separable_parts(p, &parts);
    const struct conv_args dw = conv_args_of(&parts.dw);
    const struct depthwise d = {p, &parts, emit_depthwise_packed(e, &parts.dw, &dw)};
    emit_strassen(e, &parts.pw, emit_spread, &d);
}

const struct algo_def algo_separable_strassen = {
    .name = "strassen",
    .doc =
        "depthwise, then 1x1 by seven products of halves instead of eight, over channel blocks (CPU devices)",
    .error = ERROR_HIGHEST,
    .deterministic = true,
    .src = FORM_BLOCKED,
    .dst = FORM_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
