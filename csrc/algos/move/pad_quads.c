/* pad_quads: padding and cropping on GPUs; see kernels/move/pad_quads.cl. */
#include "algos/common/walk.h"
#include "algos/move/pads.h"
#include "move/pad_walk_args.h"

#include <string.h>

static bool pad_walk_of(const struct problem *p, struct pad_walk_args *w, int64_t *offset)
{
    const struct pad_args a = pad_args_of(p, offset);
    struct walk_sizes sizes = {.rank = a.rank, .operands = 2};
    memcpy(sizes.size, a.y_size, sizeof sizes.size);
    memcpy(sizes.stride[0], a.x, sizeof a.x);
    memcpy(sizes.stride[1], a.y, sizeof a.y);
    *w = (struct pad_walk_args){.value = a.value};
    if (!walk_of(&w->walk, &sizes))
        return false;
    memcpy(w->x_size, a.x_size, sizeof w->x_size);
    memcpy(w->begin, a.begin, sizeof w->begin);
    return true;
}

static bool applicable(const struct problem *p, struct why *why)
{
    struct pad_walk_args w;
    int64_t offset;
    REQUIRE(why, pad_walk_of(p, &w, &offset), WALK_TOO_LARGE);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct pad_walk_args w;
    int64_t offset;
    pad_walk_of(p, &w, &offset);
    struct step *s = walk_step(e, p, "pad_quads", &w.walk);
    pad_step(s, p, offset);
    step_args(s, &w, sizeof w);
}

const struct algo_def algo_pad_quads = {
    .name = "quads",
    .doc = "four elements a work-item, no division",
    .devices = DEVICES_GPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
