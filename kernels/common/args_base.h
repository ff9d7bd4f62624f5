/* args_base.h: the types of argument blocks, which the C planner (csrc) and the kernels share: the one place where both
 * sides agree on shapes. Each family of kernels has a header of its own, <family>_args.h, so that a block added to one
 * leaves the text of all others, and so the keys of their compiled kernels, alone.
 *
 * Blocks have only i32, i64 and f32 members, the 64-bit ones first, so that host and device lay them out alike. Strides
 * are in elements. A block is passed to its kernel by value, and has no padding at its end, which drivers may count or
 * not: csrc/algos/common/args_check.c holds all of them to it. */
#ifndef CLCNN_ARGS_BASE_H
#define CLCNN_ARGS_BASE_H

#ifdef __OPENCL_VERSION__
typedef int i32;
typedef long i64;
typedef float f32;
#else
#include <stdint.h>
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
#endif

#endif
