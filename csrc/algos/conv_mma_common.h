/* conv_mma_common.h: convolutions and linear layers on NVIDIA's tensor cores, kernels/conv_mma.cl. */
#ifndef CLCNN_ALGOS_CONV_MMA_COMMON_H
#define CLCNN_ALGOS_CONV_MMA_COMMON_H

#include "algos/conv_common.h"

/* How many products of tf32 values stand for one of float32 values: three keep the error of float32. */
enum mma_products { MMA_TF32 = 1, MMA_FLOAT32 = 3 };

/* Whether the device has the instructions: mma.sync on tf32 and cp.async. */
bool mma_on_device(const struct problem *p);

/* a is the convolution, p what its operands and epilogue are taken from: in[0] x, in[1] filters, in[2] bias. */
size_t mma_workspace(const struct problem *p, const struct conv_args *a, enum mma_products products);
/* Returns the step of the products, whose cost is the caller's to state. */
struct step *emit_mma(struct emit *e, const struct problem *p, const struct conv_args *a,
                      enum mma_products products);

#endif
