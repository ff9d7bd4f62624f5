/* conv_depthwise: vectors of row pixels with the weights of their channel in registers; see
 * kernels/conv/conv_depthwise.cl. */
#include "algos/conv/conv_common.h"

/* Output rows of a work-item: they share input rows; GPUs share these through their caches. */
#define CPU_ROWS 4

/* Taps are unrolled for the sizes that nets use; others are read from the argument block. */
static int unrolled(const struct conv_args *a)
{
    const int size = a->ker[1];
    const bool known = (size == 3 || size == 5) && a->ker[2] == size && a->dil[1] == 1 && a->dil[2] == 1;
    return known ? size : 0;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const bool cpu = cpu_device(p->device);
    const int v = cpu ? 16 : 4, rows = cpu ? CPU_ROWS : 1, wg = cpu ? 1 : (int)any_group_size(p);
    const size_t items = (size_t)a.n * (size_t)a.k * ceil_div((size_t)a.out[1], (size_t)rows) *
                         ceil_div((size_t)a.out[2], (size_t)v);
    struct step *s = emit_step(e, "conv_depthwise", "main", ceil_div(items, (size_t)wg), (size_t)wg);
    step_define(s, "V", v);
    step_define(s, "RY", rows);
    step_define(s, "KH", unrolled(&a));
    step_define(s, "KW", unrolled(&a));
    /* A fixed stride of 1 is worth 12 to 20 % at batch 32 on an H200; of 2, or on CPU devices, nothing. */
    step_define(s, "SW", !cpu && a.stride[2] == 1 ? 1 : 0);
    step_read_map(s, &p->in[0]);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_depthwise = {
    .name = "depthwise",
    .doc = "one input channel a group: weights in registers, memory bound",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = conv_depthwise_applicable,
    .emit = emit,
};
