/* conv_phases.h: a transposed convolution cut into phases.
 *
 * Along one dimension, tap t of input i adds to output o = i * stride + t * dilation - pad. So the outputs q, q + stride, q +
 * 2 * stride ... meet the same taps, every few of them: these outputs are a convolution at stride 1 with those taps, flipped.
 * The data gradient of a strided convolution has the same form. What is here asks for numbers only. */
#ifndef CLCNN_ALGOS_CONV_PHASES_H
#define CLCNN_ALGOS_CONV_PHASES_H

#include <stddef.h>

#include "conv/conv_args.h"
#include "conv/conv_phases_args.h"

/* Outputs q + m * stride, m < outputs, of one dimension: output m is the sum over j < taps of tap first + j * every with input
 * m + from - j * step, where that is inside of the image. */
struct conv_phase {
    int outputs, taps;
    int first, every;
    int from, step;
};
/* Where the input has one pixel along a dimension its stride does not matter: sets one so large that each output has a phase
 * of its own, of one tap at most. */
void conv_phases_of_pixels(struct conv_args *a);
/* Phase q < stride of dimension d of a transposed convolution. */
struct conv_phase conv_phase_of(const struct conv_args *a, int d, int q);

/* The two last dimensions, as kernels/conv/conv_phases.clh takes them. */
struct conv_phases conv_phases_of(const struct conv_args *a);
/* The first one, as index 0. */
struct conv_phases conv_depth_phases_of(const struct conv_args *a);
/* Pixels of the largest phase of an image. */
size_t conv_phase_pixels(const struct conv_args *a);
/* The most taps that a phase has. */
int conv_phase_taps(const struct conv_args *a);

#endif
