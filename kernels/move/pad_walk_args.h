/* pad_walk_args.h: the argument block of padding by number of element; the rules are those of args_base.h. */
#ifndef CLCNN_PAD_WALK_ARGS_H
#define CLCNN_PAD_WALK_ARGS_H

#include "common/walk_args.h"

/* The sizes of `walk` are those of y; operand 0 is x, from its element that is not cropped on. */
struct pad_walk_args {
    struct walk_args walk;
    i32 x_size[WALK_RANK], begin[WALK_RANK];
    f32 value;
};

#endif
