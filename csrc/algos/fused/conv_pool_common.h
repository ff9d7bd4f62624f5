/* conv_pool_common.h: a conv_pool problem as the convolution and the pooling that it stands for. */
#ifndef CLCNN_ALGOS_CONV_POOL_COMMON_H
#define CLCNN_ALGOS_CONV_POOL_COMMON_H

#include "algos/conv/conv_common.h"
#include "fused/conv_pool_args.h"

/* The problems point into this struct and into the one it was made from: do not copy it. */
struct conv_pool {
    struct operand mid; /* has no view yet */
    struct problem conv, pool;
};
void conv_pool_parts(const struct problem *p, struct conv_pool *out);

/* For the kernels that do both at once: 2-D problems. */
struct conv_pool_args conv_pool_args_of(const struct problem *p);
int conv_pool_window(const struct problem *p, int dim); /* 0: height, 1: width */
/* Whether the convolution by itself would be computed by `algo`, so that the form of it that pools saves the
 * way through memory and loses nothing. */
bool conv_pool_same_conv(const struct problem *p, const struct algo_def *algo);
/* For REQUIRE: windows of equal size that do not overlap, inside the convolution's output. */
#define NOT_SIDE_BY_SIDE "windows must lie side by side inside the map"
bool conv_pool_side_by_side(const struct problem *p);
/* The same of windows of 2x2, which tiles hold. */
bool conv_pool_two_by_two(const struct problem *p, struct why *why);
int conv_pool_kind(const struct problem *p); /* POOL_MAX or POOL_MEAN (kernels/conv_cpu/conv_cpu_args.h) */
#define CONVOLVED_FASTER "another algorithm is expected to do the convolution faster"
void conv_pool_cost(struct step *s, const struct problem *p); /* of a step that does both */
/* Of windows side by side: defines, x, packed weights, epilogue, y, arguments, cost. */
void conv_pool_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes);
/* Appends such a step, with conv_pool_args. */
struct step *emit_conv_pool(struct emit *e, const struct problem *p, const char *file, size_t groups,
                            size_t group_size, struct conv_packing packing);
size_t conv_pool_packing_workspace(const struct problem *p, struct conv_packing packing);

#endif
