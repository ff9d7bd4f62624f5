/* norm_rows.h: norms and softmax as rows of elements, whichever dimensions they go along. */
#ifndef CLCNN_ALGOS_NORM_ROWS_H
#define CLCNN_ALGOS_NORM_ROWS_H

#include "plan/emit.h"
#include "norm_reduce/norm_reduce_args.h"

/* KIND of the kernels: what a row is divided by. */
enum norm_kind { NORM_VARIANCE, NORM_MEAN_SQUARE, NORM_LENGTH };

static inline enum norm_kind norm_kind(const struct problem *p)
{
    return p->op == &op_rms_norm ? NORM_MEAN_SQUARE : p->op == &op_l2_norm ? NORM_LENGTH : NORM_VARIANCE;
}

/* View of input i, VIEW_NONE where there is none. */
static inline int norm_operand(const struct problem *p, int i)
{
    return i < p->n_in && p->in[i].present ? p->in[i].view : VIEW_NONE;
}

/* Whether a row is a group of channels, not elements along dimensions. */
static inline bool norm_by_groups(const struct problem *p)
{
    return p->op == &op_instance_norm || p->op == &op_group_norm;
}

/* Whether the norm's rows are rows of norm_rows_of(): not where one has several dimensions of several items. */
bool norm_is_rows(const struct problem *p);
/* All but run, parts, part_length and staged. */
struct norm_vector_args norm_rows_of(const struct problem *p);

/* Softmax, with rows along its dimension: all but what cuts them. */
struct softmax_args softmax_rows_of(const struct problem *p);

/* Whether a row's elements are neighbours, in x and in y; else those of different rows are. */
#define ROWS_ARE_CONTIGUOUS(a) ((a)->inner == 1 && (a)->x_step == 1 && (a)->y_step == 1)

/* How work-items share rows (kernels/norm_reduce/lanes.clh). */
struct lanes {
    int lanes, kept;
    size_t group; /* work-items */
    bool columns, loops;
    int64_t tiles; /* of columns: those of a row of them */
};
/* For `middle` rows an item of `length` elements, `inner` of each side by side; it does not depend on the batch, since
 * sums depend on it. */
struct lanes lanes_of(const struct problem *p, bool columns, int64_t middle, int64_t inner, int64_t length);
/* Groups that are larger, for more columns side by side, where there are enough of them for all multiprocessors; who shares
 * a row stays as it is. `rows`: of `inner` columns each. */
void lanes_widen(const struct problem *p, struct lanes *l, int64_t rows, int64_t inner);
/* The same as lanes_of() with wide tiles, for columns that are cut into parts. */
struct lanes lanes_wide(const struct problem *p, int64_t inner, int64_t length);
/* Groups for `rows` rows; of columns, those that `inner` ones are not counted in. */
size_t lanes_groups(const struct lanes *l, int64_t rows);
/* A step with the defines of lanes.clh, and INDEX for groups and for `length`. */
struct step *lanes_emit(struct emit *e, const char *file, const char *entry, size_t groups,
                        const struct lanes *l, int64_t length);

#endif
