/* conv_phases.c: a transposed convolution cut into phases; see conv_phases.h. */
#include "algos/conv/conv_phases.h"

static int greatest_common_divisor(int a, int b)
{
    while (b) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void conv_phases_of_pixels(struct conv_args *a)
{
    for (int d = 0; d < 3; d++) {
        const int64_t extent = (int64_t)(a->ker[d] - 1) * a->dil[d] + 1, out = (int64_t)a->out[d] + a->pad[d];
        const int64_t outputs = extent > out ? extent : out;
        if (a->in[d] == 1 && a->stride[d] < outputs && outputs <= INT32_MAX)
            a->stride[d] = (int)outputs;
    }
}

struct conv_phase conv_phase_of(const struct conv_args *a, int d, int q)
{
    const int stride = a->stride[d], dil = a->dil[d], common = greatest_common_divisor(stride, dil);
    struct conv_phase f = {.every = stride / common, .step = dil / common};
    const int64_t at = (int64_t)q + a->pad[d];
    while (f.first < a->ker[d] && f.first < f.every && (at - (int64_t)f.first * dil) % stride)
        f.first++;
    if (f.first < a->ker[d] && f.first < f.every) {
        f.taps = (a->ker[d] - 1 - f.first) / f.every + 1;
        f.from = (int)((at - (int64_t)f.first * dil) / stride);
    }
    f.outputs = q < a->out[d] ? (a->out[d] - 1 - q) / stride + 1 : 0;
    return f;
}

struct conv_phases conv_phases_of(const struct conv_args *a)
{
    struct conv_phases all;
    for (int d = 1; d < 3; d++) {
        const struct conv_phase f = conv_phase_of(a, d, 0);
        all.in[d - 1] = a->in[d];
        all.out[d - 1] = a->out[d];
        all.ker[d - 1] = a->ker[d];
        all.stride[d - 1] = a->stride[d];
        all.pad[d - 1] = a->pad[d];
        all.dil[d - 1] = a->dil[d];
        all.every[d - 1] = f.every;
        all.step[d - 1] = f.step;
        all.count[d - 1] = a->stride[d] < a->out[d] ? a->stride[d] : a->out[d];
    }
    return all;
}

size_t conv_phase_pixels(const struct conv_args *a)
{
    return (size_t)conv_phase_of(a, 1, 0).outputs * (size_t)conv_phase_of(a, 2, 0).outputs;
}

int conv_phase_taps(const struct conv_args *a)
{
    int taps = 1;
    for (int d = 1; d < 3; d++) {
        const int every = conv_phase_of(a, d, 0).every;
        taps *= (a->ker[d] + every - 1) / every;
    }
    return taps;
}
