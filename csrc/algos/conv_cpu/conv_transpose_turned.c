/* conv_transpose_turned: at stride 1 the same as a convolution whose filters are turned: channels and filters exchanged, taps from
 * the last to the first, and what it crops taken from the padding that lets every tap meet every pixel. Of constant weights a
 * rewrite does that (csrc/graph/rewrite_transposed.c); computed ones are turned when they are packed. */
#include "algos/common/blocked.h"

/* The convolution, its operands and attributes. */
struct turned {
    struct problem conv;
    struct operand in[3];
    struct conv_attrs attrs;
};

/* False where it is none. */
static bool turn(struct turned *t, const struct problem *p)
{
    t->conv = *p;
    for (int i = 0; i < p->n_in; i++)
        t->in[i] = p->in[i];
    t->in[1].turned = true;
    t->conv.op = &op_conv;
    t->conv.attrs = &t->attrs;
    t->conv.in = t->in;
    return conv_of_transposed(&t->attrs, p->attrs, &p->in[1].shape);
}

static bool applicable(const struct problem *p, struct why *why)
{
    struct turned t;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, turn(&t, p), "only at stride 1, cropped by less than the window, is it a convolution");
    const struct algo_def *conv = algo_preferred(&t.conv);
    REQUIRE(why, conv && conv->src == LAYOUT_BLOCKED && conv->dst == LAYOUT_BLOCKED,
            "the convolution with turned filters is not for channel blocks");
    PREFER(why, shape_count_from(&p->in[0].shape, 2) > 1, "outputs of a single pixel meet one tap each");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct turned t;
    turn(&t, p);
    emit_sub(e, &t.conv);
}

const struct algo_def algo_conv_transpose_turned = {
    .name = "turned",
    .doc = "at stride 1: a convolution by the best algorithm on channel blocks, with its filters turned",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
