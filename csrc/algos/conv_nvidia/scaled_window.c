/* scaled_window.c: the sizes of windows for wgmma_scaled and its filters. */
#include "algos/conv_nvidia/scaled_window.h"
#include "conv_nvidia/conv_nvidia_args.h"

int scaled_together(const struct conv_args *a)
{
    if (conv_taps(a) == 1)
        return SCALED_MOST_TOGETHER;
    for (int t = SCALED_MOST_TOGETHER; t > 1; t /= 2)
        if (a->stride[1] * a->stride[2] == 1 && a->in[2] % t == 0 && a->src_n % t == 0)
            return t;
    return 1;
}

struct scaled_side scaled_side(const struct conv_args *a, int d)
{
    if (conv_taps(a) == 1)
        return (struct scaled_side){.taps = 1, .line = a->out[d]};
    const int stride = a->stride[d], pad = a->pad[d];
    struct scaled_side s = {.taps = (int)ceil_div((size_t)a->ker[d], (size_t)stride)};
    for (int phase = 0; phase < stride; phase++) {
        const int first = SCALED_FIRST(phase, pad, stride), before = SCALED_BEFORE(phase, pad, stride);
        const int last = (a->ker[d] - 1 - first) / stride * a->dil[d] - before;
        s.begin = before > s.begin ? before : s.begin;
        s.end = last > s.end ? last : s.end;
    }
    const int in = (int)ceil_div((size_t)a->in[d], (size_t)stride) + s.begin, out = a->out[d] + s.end;
    s.line = in > out ? in : out;
    if (d == 2)
        s.line = (int)round_up((size_t)s.line, (size_t)scaled_together(a));
    return s;
}

int scaled_taps(const struct conv_args *a)
{
    return scaled_side(a, 1).taps * scaled_side(a, 2).taps;
}

bool scaled_is_strided(const struct conv_args *a)
{
    return conv_taps(a) > 1 && a->stride[1] * a->stride[2] > 1;
}

int scaled_planes(const struct conv_args *a)
{
    return scaled_is_strided(a) ? a->stride[1] * a->stride[2] : a->ker[0];
}

int scaled_channels(const struct conv_args *a)
{
    return (int)round_up((size_t)(a->c / a->groups), (size_t)SCALED_CHANNELS(scaled_taps(a)));
}

int scaled_chunks(const struct conv_args *a)
{
    return scaled_planes(a) * scaled_channels(a) / SCALED_CHANNELS(scaled_taps(a));
}
