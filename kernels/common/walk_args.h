/* walk_args.h: argument blocks of operands walked by the number of an element; the rules are those of args_base.h. */
#ifndef CLCNN_WALK_ARGS_H
#define CLCNN_WALK_ARGS_H

#include "common/args_base.h"

#define WALK_MOST 6
#define WALK_RANK 6 /* dimensions, after those have been merged that are one walk */

/* `count` elements in row-major order of the sizes, and where up to WALK_MOST operands have them (walk.clh). `factor`
 * and `shift` divide by a size. */
struct walk_args {
    struct {
        i32 of[WALK_RANK];
    } stride[WALK_MOST];
    i32 size[WALK_RANK], factor[WALK_RANK], shift[WALK_RANK];
    /* whether an operand's four neighbours are a vector, if its first element is on a boundary of one */
    i32 even[WALK_MOST];
    i32 count, rank;
};

#endif
