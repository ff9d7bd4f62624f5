/* squeeze_excite_split: the means, then two layers, each by its own best algorithm. */
#include "algos/conv/conv_common.h"
#include "algos/fused/squeeze_excite_common.h"

/* The problems point into this struct: do not copy it. */
struct parts {
    struct operand mean, in1[3], in2[3]; /* in1[0]: the means as the first layer reads them */
    struct adaptive_attrs pool_attrs;
    struct conv_attrs conv_attrs;
    struct problem pool, fc1, fc2;
};

/* One number for each of `count` channels, in the form that layers of these weights take. */
static struct operand values_of(const struct problem *p, int32_t count)
{
    struct operand o = {.shape = p->in[SQUEEZE_W1].shape, .view = VIEW_NONE, .present = true};
    o.shape.dim[0] = p->in[0].shape.dim[0];
    o.shape.dim[1] = count;
    o.batch_stride = count;
    return o;
}

static struct problem layer_of(const struct problem *p, struct parts *parts, const struct operand *in,
                               const struct operand *out)
{
    struct problem layer = *p;
    const bool linear = in[1].shape.rank == 2;
    layer.op = linear ? &op_linear : &op_conv;
    layer.attrs = linear ? NULL : &parts->conv_attrs;
    layer.n_in = 3;
    layer.in = in;
    layer.out = out;
    layer.zeros = (struct clcnn_zeros){0};
    layer.rectified = false;
    return layer;
}

static void parts_of(const struct problem *p, struct parts *out)
{
    const struct squeeze_excite_attrs *at = p->attrs;
    const int spatial = p->in[0].shape.rank - 2;
    *out = (struct parts){
        .in1 = {values_of(p, p->in[0].shape.dim[1]), p->in[SQUEEZE_W1], p->in[SQUEEZE_B1]},
        .in2 = {values_of(p, p->in[SQUEEZE_W1].shape.dim[0]), p->in[SQUEEZE_W2], p->in[SQUEEZE_B2]},
        .pool_attrs.output_size.n = spatial,
        .conv_attrs = conv_pointwise_attrs(spatial),
    };
    out->mean = out->in1[0];
    out->mean.shape = p->in[0].shape;
    for (int d = 0; d < spatial; d++)
        out->mean.shape.dim[2 + d] = out->pool_attrs.output_size.v[d] = 1;
    out->pool = layer_of(p, out, out->in1, &out->mean);
    out->pool.op = &op_adaptive_avg_pool;
    out->pool.attrs = &out->pool_attrs;
    out->pool.n_in = 1;
    out->pool.in = p->in;
    out->pool.act = ACT_none;
    out->fc1 = layer_of(p, out, out->in1, &out->in2[0]);
    out->fc1.act = (enum act)at->mid_act;
    out->fc1.p0 = at->mid_p0;
    out->fc1.p1 = at->mid_p1;
    out->fc2 = layer_of(p, out, out->in2, p->out);
}

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static unsigned fp16_of(const struct problem *p)
{
    struct parts parts;
    parts_of(p, &parts);
    return (preferred_fp16(&parts.pool) & FP16_SRC) | (preferred_fp16(&parts.fc2) & FP16_DST);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct parts parts;
    parts_of(p, &parts);
    emit_middle(e, &parts.mean);
    emit_middle(e, &parts.in2[0]);
    parts.in1[0].view = parts.mean.view;
    parts.in1[0].batch_stride = parts.mean.batch_stride;
    emit_sub(e, &parts.pool);
    emit_sub(e, &parts.fc1);
    emit_sub(e, &parts.fc2);
}

const struct algo_def algo_squeeze_excite_split = {
    .name = "split",
    .doc = "the means, then two layers, each by its own algorithm",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = applicable,
    .emit = emit,
};
