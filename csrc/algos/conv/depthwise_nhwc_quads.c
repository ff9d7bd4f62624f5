/* depthwise_nhwc_quads: quads of channels of a few columns in registers; see kernels/conv/depthwise_nhwc_quads.cl. */
#include "algos/conv/depthwise_nhwc.h"

#include <stdio.h>

/* MOST_TAPS: the kernel unrolls them. ENOUGH: work-items for a compute unit, to hide the time that reading takes. */
enum { MOST_COLUMNS = 4, MOST_TAPS = 81, MOST_PIXELS = 24, ENOUGH = 512 };

static size_t items_of(const struct conv_args *a, int columns, int lanes)
{
    return (size_t)a->n * (size_t)a->out[1] * ceil_div((size_t)a->out[2], (size_t)columns) *
           (size_t)(a->c / lanes);
}

static bool enough(const struct problem *p, size_t items)
{
    return items >= ENOUGH * device_units(p->device);
}

/* Channels of a work-item: four, if that leaves enough of them for all compute units. */
static int lanes_of(const struct problem *p, const struct conv_args *a)
{
    return a->c % 4 == 0 && enough(p, items_of(a, 1, 4)) ? 4 : 1;
}

static int pixels_under(const struct conv_args *a, int columns)
{
    return (columns - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

/* Columns of a work-item, which share what they read, if there are enough other items. */
static int columns_of(const struct problem *p, const struct conv_args *a, int lanes)
{
    int columns = MOST_COLUMNS;
    while (columns > 1 && (columns > a->out[2] || pixels_under(a, columns) > MOST_PIXELS ||
                           !enough(p, items_of(a, columns, lanes))))
        columns /= 2;
    return columns;
}

static size_t packed_bytes(const struct conv_args *a)
{
    return sizeof(float) * (size_t)a->c * (size_t)conv_taps(a);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    REQUIRE(why, conv_taps(&a) <= MOST_TAPS && pixels_under(&a, 1) <= MOST_PIXELS,
            "the window, and the pixels of a row under it, must be few enough to unroll");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    return p->in[1].constant ? 0 : packed_bytes(&a);
}

static int emit_weights(const struct problem *p, struct emit *e, const struct conv_args *a)
{
    const struct operand *w = &p->in[1];
    const size_t bytes = packed_bytes(a);
    struct step *s;
    char name[64];
    snprintf(name, sizeof name, "depthwise_nhwc c%d t%d", a->c, conv_taps(a));
    const int view = emit_packed(e, w, name, bytes, "depthwise_nhwc_quads", "pack",
                                 ceil_div(bytes / sizeof(float), GROUP_SIZE), GROUP_SIZE, &s);
    if (s) {
        step_read(s, w->view);
        step_write(s, view);
        step_args(s, a, sizeof *a);
        step_cost(s, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    const int lanes = lanes_of(p, &a), columns = columns_of(p, &a, lanes), w = emit_weights(p, e, &a);
    const size_t wg = any_group_size(p);
    struct step *s =
        emit_step(e, "depthwise_nhwc_quads", "main", ceil_div(items_of(&a, columns, lanes), wg), wg);
    step_define(s, "V", lanes);
    step_define(s, "TW", columns);
    step_define(s, "KH", a.ker[1]);
    step_define(s, "KW", a.ker[2]);
    step_define(s, "SW", columns > 1 ? a.stride[2] : 1); /* between columns of an item */
    step_define(s, "DW", a.dil[2]);
    depthwise_nhwc_finish(s, p, w, &a);
}

const struct algo_def algo_depthwise_nhwc_quads = {
    .name = "quads",
    .doc = "four channels of a few columns in registers, neighbours side by side in memory, memory bound",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
