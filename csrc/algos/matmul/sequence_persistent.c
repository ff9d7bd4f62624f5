/* sequence_persistent: all steps of a recurrent layer in one launch, with the weights in registers; see
 * kernels/matmul/sequence_persistent.cl. */
#include "algos/matmul/sequence.h"

enum { PARTS = 4, MOST_ROWS = 8 /* of a group */ };

static size_t depth_of(const struct problem *p)
{
    return round_up((size_t)p->in[1].shape.dim[1], SEQUENCE_TOGETHER);
}

/* Local memory: the state, and parts of the sums of four gates. */
static size_t local_bytes(size_t depth, size_t rows)
{
    return sizeof(float) * rows * depth * (1 + PARTS * 4);
}

/* Rows of a group: as few as they can be while each compute unit has as few groups one after the other as it can. */
static int rows_of(const struct problem *p)
{
    const size_t n = (size_t)p->in[1].shape.dim[0], units = p->device->compute_units;
    size_t best = 1;
    for (size_t rows = 2; rows <= MOST_ROWS && local_bytes(depth_of(p), rows) <= p->device->local_mem_bytes;
         rows *= 2)
        if (ceil_div(ceil_div(n, rows), units) < ceil_div(ceil_div(n, best), units))
            best = rows;
    return (int)best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const size_t units = (size_t)p->in[1].shape.dim[1];
    REQUIRE(why, sequence_fits_group((size_t)p->in[0].shape.dim[1] / units, units),
            "its weights would not fit registers");
    REQUIRE(why, PARTS * depth_of(p) <= p->device->max_group_size,
            "a group of this device cannot have all units");
    return true;
}

static struct sequence_packing packing(const struct problem *p, const struct cell *c)
{
    const size_t depth = depth_of(p);
    return (struct sequence_packing){.file = "sequence_persistent",
                                     .depth = (int)depth,
                                     .bytes = sizeof(float) * (size_t)c->gates * depth * depth,
                                     .groups = depth,
                                     .group_size = PARTS * depth};
}

static void emit_whole(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct sequence_packing packed = packing(p, c);
    const int rows = rows_of(p), w = sequence_weights(p, e, c, &packed);
    const size_t groups = ceil_div((size_t)p->in[c->h].shape.dim[0], (size_t)rows);
    struct step *s = emit_step(e, "sequence_persistent", "main", groups, packed.group_size);
    step_define(s, "DEPTH", packed.depth);
    step_define(s, "TB", rows);
    sequence_finish(s, p, c, w, groups * packed.bytes);
    s->alone = true; /* a chain's other kernels would get as many registers */
}

SEQUENCE_PACKED(lstm, persistent, DEVICES_GPU, "all steps in one launch, weights in registers of each group");
SEQUENCE_PACKED(gru, persistent, DEVICES_GPU, "all steps in one launch, weights in registers of each group");
