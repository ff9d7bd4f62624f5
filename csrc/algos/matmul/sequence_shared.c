/* sequence_shared: all steps of a recurrent layer in one launch, with the weights in the registers of all groups; see
 * kernels/matmul/sequence_shared.cl. */
#include "algos/common/rows.h"
#include "algos/matmul/sequence.h"

enum {
    GROUP = 32 * SEQUENCE_UNITS,
    WORDS = 6, /* of four bytes, before those of the state and as far as to a boundary of eight */
    AGAIN = 3, /* the one that tells that a group waited in vain */
    MOST_LOOKS = 1 << 20,
};

static size_t depth_of(const struct problem *p)
{
    return round_up((size_t)p->in[1].shape.dim[1], SEQUENCE_SHARED_TOGETHER);
}

static struct sequence_rows rows_of(const struct problem *p)
{
    const struct clcnn_shape *h = &p->in[1].shape;
    return sequence_shared_rows((size_t)h->dim[1], (size_t)h->dim[0], device_units(p->device));
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, device_traits(p->device).waiting_groups,
            "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, rows_of(p).parts > 0, "the groups that run at once have no room for its weights and rows");
    return true;
}

static struct sequence_packing packing(const struct problem *p, const struct cell *c)
{
    const size_t units = (size_t)p->in[1].shape.dim[1], depth = depth_of(p);
    return (struct sequence_packing){.file = "sequence_shared",
                                     .depth = (int)depth,
                                     .bytes = sizeof(float) * (size_t)c->gates * units * depth,
                                     .groups = units,
                                     .group_size = GROUP};
}

/* The second step does nothing but where a group of the first one waited in vain. */
static void emit_whole(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct clcnn_shape *h = &p->in[c->h].shape;
    const struct sequence_rows rows = rows_of(p);
    const size_t n = (size_t)h->dim[0], tiles = ceil_div(n, (size_t)(rows.at_once * rows.parts));
    const size_t across = ceil_div((size_t)h->dim[1], SEQUENCE_UNITS);
    const struct sequence_packing packed = packing(p, c);
    const int w = sequence_weights(p, e, c, &packed),
              words = emit_counters(e, WORDS + 2 * 2 * n * depth_of(p));
    struct step *s = emit_step(e, "sequence_shared", "main", across * tiles, (size_t)GROUP);
    step_define(s, "DEPTH", packed.depth);
    step_define(s, "TB", rows.at_once);
    step_define(s, "PARTS", rows.parts);
    step_define(s, "BOUND", MOST_LOOKS);
    sequence_finish(s, p, c, w, tiles * packed.bytes);
    step_update(s, words);
    s->alone = true;
    emit_only_if(e, words, AGAIN);
    step_cost(sequence_emit_ref(p, e, c), 0.0, 0.0);
    emit_only_if(e, VIEW_NONE, 0);
}

SEQUENCE_PACKED(lstm, shared, DEVICES_AMPERE, "all steps in one launch, weights in registers of all groups");
SEQUENCE_PACKED(gru, shared, DEVICES_AMPERE, "all steps in one launch, weights in registers of all groups");
