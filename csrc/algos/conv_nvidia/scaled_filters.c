/* scaled_filters.c: packs filters as scaled halves; see kernels/conv_nvidia/conv_wgmma_scaled_pack.cl. */
#include <stdio.h>

#include "algos/conv_nvidia/scaled_filters.h"
#include "algos/conv_nvidia/scaled_window.h"
#include "conv_nvidia/conv_nvidia_args.h"

size_t filter_halves_bytes(const struct conv_args *a, int block, bool pairs)
{
    const size_t blocks = (size_t)conv_blocks(a, block),
                 each = (size_t)(scaled_planes(a) * scaled_channels(a) * scaled_taps(a));
    const size_t chunks = (size_t)scaled_chunks(a);
    return blocks * ((pairs ? 2 : 1) * sizeof(uint16_t) * each * (size_t)block +
                     sizeof(float) * (chunks * SCALED_GAINS(scaled_taps(a)) + (size_t)block));
}

size_t channel_sizes_bytes(const struct conv_args *a, int block)
{
    return sizeof(float) * (size_t)conv_blocks(a, block) * (size_t)(scaled_planes(a) * scaled_channels(a));
}

static struct conv_scaled_pack_args pack_args(const struct conv_args *a)
{
    return (struct conv_scaled_pack_args){
        .w_k = a->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .taps = scaled_taps(a),
        .planes = scaled_planes(a),
        .padded = scaled_channels(a),
        .ker = {a->ker[1], a->ker[2]},
        .stride = {a->stride[1], a->stride[2]},
        .pad = {a->pad[1], a->pad[2]},
        .wide = scaled_side(a, 2).taps,
    };
}

/* How filters are packed, which tells views of them apart. */
static void name_pack(char name[128], const char *what, const struct conv_scaled_pack_args *args, int block,
                      enum filter_gains gains, bool pairs)
{
    snprintf(name, 128, "%s g%d k%d c%d t%d p%d s%dx%d o%dx%d w%d b%d a%d h%d", what, args->groups, args->kg,
             args->c, args->taps, args->planes, args->stride[0], args->stride[1], args->pad[0], args->pad[1],
             args->wide, block, (int)gains, 1 + pairs);
}

static void define_pack(struct step *s, const struct conv_args *a, int block, enum filter_gains gains)
{
    step_define(s, "BM", block);
    if (scaled_is_strided(a))
        step_define(s, "STRIDED", 1);
    if (gains == GAINS_OF_ALL)
        step_define(s, "ALL_FILTERS", 1);
}

/* The largest scaled weight of each channel, for filters that have gains together. */
static int emit_channel_sizes(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                              enum filter_gains gains, int sizes)
{
    const struct conv_scaled_pack_args args = pack_args(a);
    const size_t channels = channel_sizes_bytes(a, block) / sizeof(float);
    char name[128];
    name_pack(name, "conv_channel_sizes", &args, block, gains, false);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, channels * sizeof(float), "conv_wgmma_scaled_pack", "channels",
                    ceil_div(channels, GROUP_SIZE / FILTER_TEAM), GROUP_SIZE, &setup);
    if (setup) {
        define_pack(setup, a, block, gains);
        step_read(setup, p->in[1].view);
        step_read(setup, sizes);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 4.0 * (double)a->k * args.c * args.taps);
    }
    return view;
}

int emit_filter_halves(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                       enum filter_gains gains, bool pairs)
{
    const struct conv_scaled_pack_args args = pack_args(a);
    const size_t bytes = filter_halves_bytes(a, block, pairs);
    const size_t slabs = (size_t)(args.planes * args.padded / 16 * args.taps);
    char name[128];
    name_pack(name, "conv_wgmma_scaled_pack", &args, block, gains, pairs);
    const int sizes = emit_filter_sizes(e, p, a, 0);
    const int largest = gains == GAINS_NONE ? VIEW_NONE : emit_channel_sizes(e, p, a, block, gains, sizes);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "conv_wgmma_scaled_pack", "main",
                                 (size_t)conv_blocks(a, block) * slabs, GROUP_SIZE, &setup);
    if (setup) {
        define_pack(setup, a, block, gains);
        if (gains == GAINS_NONE)
            step_define(setup, "GAINS", 0);
        if (pairs)
            step_define(setup, "PAIRS", 1);
        step_read(setup, p->in[1].view);
        step_read(setup, sizes);
        step_read(setup, largest);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}
