/* squeeze_excite_args.h: argument blocks of the gates of squeeze-and-excite blocks; the rules are those of
 * args_base.h. */
#ifndef CLCNN_SQUEEZE_EXCITE_ARGS_H
#define CLCNN_SQUEEZE_EXCITE_ARGS_H

#include "common/args_base.h"

struct squeeze_excite_args {
    i64 length, x_n, y_n;       /* pixels of a channel, batch strides */
    i32 c, hidden, k, parts;    /* channels, values between the layers, results; groups of an image */
    f32 mid_p0, mid_p1, p0, p1; /* of the activations between and at the end */
};

/* Weights of one of the layers. */
struct squeeze_pack_args {
    i32 inputs, outputs;
};

#endif
