/* depthwise_nhwc.h: what the algorithms of depthwise_nhwc share. */
#ifndef CLCNN_ALGOS_DEPTHWISE_NHWC_H
#define CLCNN_ALGOS_DEPTHWISE_NHWC_H

#include "algos/conv/conv_common.h"

/* The argument block, index 1 = height and 2 = width, as of a convolution with channels first. */
struct conv_args depthwise_nhwc_args(const struct problem *p);
/* The end of the step that computes the layer: operands, the weights being at the view `w`, arguments and cost. */
void depthwise_nhwc_finish(struct step *s, const struct problem *p, int w, const struct conv_args *a);
/* What computing the layer costs. */
void depthwise_nhwc_cost(struct step *s, const struct problem *p, const struct conv_args *a);

#endif
