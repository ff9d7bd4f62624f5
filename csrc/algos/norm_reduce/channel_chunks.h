/* channel_chunks.h: the elements of channels in chunks, a group's each: the host's side of
 * kernels/norm_reduce/channel_chunks.clh. */
#ifndef CLCNN_ALGOS_CHANNEL_CHUNKS_H
#define CLCNN_ALGOS_CHANNEL_CHUNKS_H

#include "algos/common/rows.h"

/* How x, and dy where that is not NULL, are cut: for groups of any_group_size(); y is out[0], eps the
 * attributes'. */
struct channel_chunks_args channel_chunks_of(const struct problem *p, const struct operand *x,
                                             const struct operand *dy);
/* Bytes of two sums for each chunk. */
size_t channel_chunks_bytes(const struct channel_chunks_args *a);
/* A step with a group for each chunk. */
struct step *channel_chunks_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                                 const struct channel_chunks_args *a);

/* The same for groups that hold their chunks in registers, in one step: whether they may; the step; and its last
 * operand, by which those of a channel meet. */
struct channel_chunks_args channel_chunks_held(const struct problem *p, const struct operand *x,
                                               const struct operand *dy);
bool channel_chunks_may_hold(const struct problem *p, const struct channel_chunks_args *a, struct why *why);
struct step *channel_chunks_held_step(struct emit *e, const char *file, const struct channel_chunks_args *a);
void channel_chunks_meet(struct emit *e, struct step *s, const struct channel_chunks_args *a);

#endif
