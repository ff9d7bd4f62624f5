/* conv_winograd_gemm.h: minimal filtering around matrix products as a part of other operators; see
 * kernels/conv/conv_winograd_gemm.cl. */
#ifndef CLCNN_ALGOS_CONV_WINOGRAD_GEMM_H
#define CLCNN_ALGOS_CONV_WINOGRAD_GEMM_H

#include "algos/conv/conv_common.h"
#include "conv_cpu/conv_cpu_args.h"

/* Products on NVIDIA's tensor cores, or anywhere. The others take up what winograd_gemm_applicable() has decided. */
bool winograd_gemm_applicable(const struct problem *conv, struct why *why, bool tensor_cores);
size_t winograd_gemm_workspace(const struct problem *conv, bool tensor_cores);
/* y is the convolution's output with pool 0, else what POOL_MAX or POOL_MEAN makes of its windows of 2x2. */
void emit_winograd_gemm(const struct problem *conv, struct emit *e, const struct operand *y, int pool,
                        bool tensor_cores);

#endif
