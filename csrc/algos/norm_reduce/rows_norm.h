/* rows_norm.h: what the algorithms of instance, group, layer, RMS and L2 norm share. */
#ifndef CLCNN_ALGOS_ROWS_NORM_H
#define CLCNN_ALGOS_ROWS_NORM_H

#include "algos/common/norm_rows.h"
#include "algos/common/rows.h"

/* For REQUIRE, where rows are computed in vectors. */
#define NO_VECTORS "only CPU devices with vectors of 8 floats or more compute rows in vectors"
#define FEW_NEIGHBOURS "fewer rows lie side by side than a vector has floats"
#define SEVERAL_ITEMS "a row has several dimensions of several items"

/* What a norm's last step has behind its view of x: parameters, `sums` of parts or VIEW_NONE, the result and its activation;
 * args: its argument block. */
static inline void norm_finish_with(const struct problem *p, struct step *s, int sums, const void *args,
                                    size_t bytes)
{
    step_define_id(s, "EPI_ACT", act_identifier(p->act));
    step_read(s, norm_operand(p, 1));
    step_read(s, norm_operand(p, 2));
    if (sums != VIEW_NONE)
        step_read(s, sums);
    step_write(s, p->out[0].view);
    step_args(s, args, bytes);
    rows_cost(s, p, 2 * (double)shape_count(&p->in[0].shape));
}

static inline void norm_finish(const struct problem *p, struct step *s, const struct norm_vector_args *a,
                               int sums)
{
    norm_finish_with(p, s, sums, a, sizeof *a);
}

/* The end of a step that adds up parts. */
static inline void norm_sums(const struct problem *p, struct step *s, const struct norm_vector_args *a,
                             int sums)
{
    step_write(s, sums);
    step_args(s, a, sizeof *a);
    step_cost(s, (double)shape_count(&p->in[0].shape), (double)shape_bytes(&p->in[0].shape));
}

/* The end of a step of softmax. */
static inline void softmax_finish(const struct problem *p, struct step *s, const struct softmax_args *a,
                                  bool logarithm)
{
    step_define(s, "LOG", logarithm);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

/* softmax and log_softmax by the algorithm `way`, from this file's emit_softmax(); the rest: its other fields. */
#define SOFTMAX_ALGO(op, way, logarithm, ...)                      \
    static void op##_emit(const struct problem *p, struct emit *e) \
    {                                                              \
        emit_softmax(p, e, logarithm);                             \
    }                                                              \
    const struct algo_def algo_##op##_##way = {                    \
        .name = #way,                                              \
        .error = ERROR_STRICT,                                     \
        .deterministic = true,                                     \
        .emit = op##_emit,                                         \
        __VA_ARGS__,                                               \
    }
#define SOFTMAX_ALGOS(way, ...)                     \
    SOFTMAX_ALGO(softmax, way, false, __VA_ARGS__); \
    SOFTMAX_ALGO(log_softmax, way, true, __VA_ARGS__)

/* Rows of a work-item on a CPU device: enough to be worth a group, and groups enough for all cores. */
static inline int64_t rows_run(const struct problem *p, int64_t rows, int64_t length)
{
    const size_t groups = device_units(p->device) * 16, least = ceil_div(2048, (size_t)length);
    const size_t run = ceil_div((size_t)rows, groups);
    return (int64_t)(run < least ? least : run);
}

#endif
