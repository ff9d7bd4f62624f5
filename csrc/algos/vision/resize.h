/* resize.h: coordinates of a resampling in exact numbers. */
#ifndef CLCNN_ALGOS_RESIZE_H
#define CLCNN_ALGOS_RESIZE_H

#include "algos/common/rows.h"
#include "vision/vision_args.h"

/* Output index i reads at (i * mul + add) / div. */
struct resize_line {
    int64_t mul, add, div;
};

struct ratio {
    int64_t num, den;
};

/* For spatial dimension i of `dims`, from `in` to `out` elements. */
struct resize_line resize_line_of(const struct resize_attrs *attrs, int i, int dims, int64_t in, int64_t out);
struct ratio resize_in_per_out(const struct resize_attrs *attrs, int i, int64_t in, int64_t out);

/* Whether coordinates of three dimensions can be worked out in 32 bits, twice as large as they are for rounding: there
 * division is far faster. */
bool resize_fits_int(const i64 *mul, const i64 *add, const i64 *div, const i32 *in, const i32 *out);

/* Sizes of the spatial dimensions, the last one at index 2 and missing ones 1, and the lines of `nearest` and `linear`, of which the
 * former's floor is the index. */
struct resize_map {
    struct resize_line line[3];
    int in[3], out[3];
};
struct resize_map resize_map_of(const struct problem *p);
/* Whether that is all there is to it: one element, or a blend of neighbours, of a whole input. */
bool resize_is_plain(const struct resize_attrs *attrs);

/* Cubic and stretched kernels, and crops: kernels/vision/resize_taps.cl. The arguments but `rows` and `pieces`; and how many whole
 * numbers are in an interval as long as the kernel, in any dimension. */
struct resize_taps_args resize_taps_args_of(const struct problem *p);
int resize_span(const struct resize_taps_args *a, int kind);
/* Defines DIMS, and those of kernels/vision/resize_taps.clh but CROP. */
void resize_define_taps(struct step *s, const struct problem *p, const struct resize_taps_args *a);
void emit_resize_taps(const struct problem *p, struct emit *e);

#endif
