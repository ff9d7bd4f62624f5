/* byte_depthwise: dot products along the rows of a channel's windows; see kernels/bytes/byte_depthwise.cl. */
#include "algos/bytes/byte_common.h"

enum { MOST_ROWS = 5 }; /* of a window that are unrolled: its filters stay in registers */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct byte_conv_attrs *a = p->attrs;
    const struct byte_sizes s = byte_sizes_of(p);
    REQUIRE(why,
            p->in[1].shape.dim[1] == 1 && a->conv.groups == s.k && s.block == 16 && s.dil[0] == 1 &&
                s.dil[1] == 1,
            "for one filter a channel, on neighbours of blocks of 16 channels");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct byte_sizes s = byte_sizes_of(p);
    const int fours = (s.ker[1] + 3) / 4, ones[2] = {1, 1};
    const int size[2] = {(s.out[0] - 1) * s.stride[0] + s.ker[0], (s.out[1] - 1) * s.stride[1] + 4 * fours};
    const struct byte_map x = emit_byte_pad(e, p, &s, size, ones);
    const struct byte_pack_args pack = {
        .w_k = p->in[1].batch_stride,
        .k = s.k,
        .c = s.ker[1],
        .taps = s.ker[0] * s.ker[1],
        .q = fours,
        .k_blocks = s.blocks,
    };
    const int packed = emit_byte_packed(e, p, &pack, "depthwise", 1);
    const size_t parts = (size_t)s.n * (size_t)s.blocks;
    const int per_item = bytes_run(p, parts, (size_t)s.out[0]);
    struct byte_conv_args a = {
        .together = 1,
        .k_blocks = s.blocks,
        .out = {s.out[0], s.out[1]},
        .ker = {s.ker[0], s.ker[1]},
        .row = x.size[1] * s.block,
        .stride = s.stride[0],
        .chunks = (i32)ceil_div((size_t)s.out[0], (size_t)per_item),
        .per_item = per_item,
    };
    struct step *step = emit_step(e, "byte_depthwise", "main", parts * (size_t)a.chunks, 1);
    step_define(step, "R", s.ker[0] <= MOST_ROWS && fours < 3 ? s.ker[0] : 0);
    step_define(step, "S4", fours);
    step_define(step, "SW", s.stride[1]);
    byte_conv_step(step, p, &s, &x, packed, &a);
}

const struct algo_def algo_byte_conv_depthwise = {
    .name = "depthwise",
    .doc = "dot products along the rows of a channel's windows",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
