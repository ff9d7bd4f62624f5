/* conv_direct.h: the register tile of the portable kernels (kernels/conv/conv_direct.clh). */
#ifndef CLCNN_ALGOS_CONV_DIRECT_H
#define CLCNN_ALGOS_CONV_DIRECT_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"

/* Pixels side by side in a group: the fewer filters there are, the more pixels take their place. */
int direct_pixels(const struct conv_args *a);
struct conv_packing direct_packing(int pixels);

#endif
