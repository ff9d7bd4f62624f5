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

/* Dimension d as index i. */
static void set_phases(struct conv_phases *all, int i, const struct conv_args *a, int d)
{
    const struct conv_phase f = conv_phase_of(a, d, 0);
    all->in[i] = a->in[d];
    all->out[i] = a->out[d];
    all->ker[i] = a->ker[d];
    all->stride[i] = a->stride[d];
    all->pad[i] = a->pad[d];
    all->dil[i] = a->dil[d];
    all->every[i] = f.every;
    all->step[i] = f.step;
    all->count[i] = a->stride[d] < a->out[d] ? a->stride[d] : a->out[d];
}

struct conv_phases conv_phases_of(const struct conv_args *a)
{
    struct conv_phases all;
    set_phases(&all, 0, a, 1);
    set_phases(&all, 1, a, 2);
    return all;
}

struct conv_phases conv_depth_phases_of(const struct conv_args *a)
{
    struct conv_phases all = {.in = {0}};
    set_phases(&all, 0, a, 0);
    return all;
}

size_t conv_phase_pixels(const struct conv_args *a)
{
    size_t pixels = 1;
    for (int d = 0; d < 3; d++)
        pixels *= (size_t)conv_phase_of(a, d, 0).outputs;
    return pixels;
}

int conv_phase_taps(const struct conv_args *a)
{
    int taps = 1;
    for (int d = 0; d < 3; d++) {
        const int every = conv_phase_of(a, d, 0).every;
        taps *= (a->ker[d] + every - 1) / every;
    }
    return taps;
}
