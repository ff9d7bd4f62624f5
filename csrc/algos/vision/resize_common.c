/* resize_common.c: coordinates of a resampling in exact numbers; see resize.h. */
#include "algos/vision/resize.h"

#include <math.h>
#include <stdlib.h>

/* The first convergent of the continued fraction that is `value` as a float: 0.6f means 3/5. Coordinates
 * in such exact numbers fall on whole and half pixels where they are meant to. */
static struct ratio ratio_of(float value)
{
    struct ratio before = {0, 1}, now = {1, 0};
    double rest = value;
    for (int i = 0; i < 24; i++) {
        const int64_t whole = (int64_t)floor(rest);
        const struct ratio next = {whole * now.num + before.num, whole * now.den + before.den};
        before = now;
        now = next;
        if ((float)((double)now.num / (double)now.den) == value || rest - (double)whole < 1e-9)
            break;
        rest = 1.0 / (rest - (double)whole);
    }
    return now;
}

/* Products of three such numbers and sizes must stay below 2^63. */
static struct ratio bounded(struct ratio r, float value)
{
    const int64_t most = 1 << 16;
    return r.den <= most ? r : (struct ratio){(int64_t)floor((double)value * most + 0.5), most};
}

/* in_per_out: input pixels for each output pixel. */
static struct resize_line line_of(int coordinates, struct ratio in_per_out, int64_t in, int64_t out)
{
    const int64_t p = in_per_out.num, q = in_per_out.den;
    switch (coordinates) {
    case RESIZE_ASYMMETRIC:
        return (struct resize_line){p, 0, q};
    case RESIZE_ALIGN_CORNERS:
        return out > 1 ? (struct resize_line){in - 1, 0, out - 1} : (struct resize_line){0, 0, 1};
    case RESIZE_PYTORCH_HALF_PIXEL:
        if (out == 1)
            return (struct resize_line){0, 0, 1};
        break;
    case RESIZE_HALF_PIXEL_SYMMETRIC: /* the centres of both meet where out is a rounded size */
        return (struct resize_line){2 * p, p - out * p + (in - 1) * q, 2 * q};
    default:
        break;
    }
    return (struct resize_line){2 * p, p - q, 2 * q}; /* (i + 1/2) p/q - 1/2 */
}

/* start + i * (end - start) / (out - 1), or the middle of both, over the size less one. */
static struct resize_line line_in_crop(float from, float to, int64_t in, int64_t out)
{
    const struct ratio s = bounded(ratio_of(from), from), e = bounded(ratio_of(to), to);
    const int64_t den = s.den * e.den, first = s.num * e.den, last = e.num * s.den;
    if (out == 1)
        return (struct resize_line){0, (first + last) * (in - 1), 2 * den};
    return (struct resize_line){(last - first) * (in - 1), first * (out - 1) * (in - 1), den * (out - 1)};
}

struct ratio resize_in_per_out(const struct resize_attrs *attrs, int i, int64_t in, int64_t out)
{
    if (attrs->scales.n == 0)
        return (struct ratio){in, out};
    const struct ratio scale = ratio_of(attrs->scales.v[attrs->scales.n > 1 ? i : 0]);
    return (struct ratio){scale.den, scale.num};
}

struct resize_line resize_line_of(const struct resize_attrs *attrs, int i, int dims, int64_t in, int64_t out)
{
    if (attrs->coordinates == RESIZE_TF_CROP_AND_RESIZE)
        return line_in_crop(attrs->roi.v[i], attrs->roi.v[dims + i], in, out);
    return line_of(attrs->coordinates, resize_in_per_out(attrs, i, in, out), in, out);
}

enum { FLOOR, ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, CEIL };

/* The line whose floor is the rounded coordinate. */
static struct resize_line line_rounded(struct resize_line l, int rounding)
{
    switch (rounding) {
    case CEIL:
        return (struct resize_line){l.mul, l.add + l.div - 1, l.div};
    case ROUND_PREFER_CEIL: /* floor(x + 1/2) */
        return (struct resize_line){2 * l.mul, 2 * l.add + l.div, 2 * l.div};
    case ROUND_PREFER_FLOOR: /* ceil(x - 1/2) */
        return (struct resize_line){2 * l.mul, 2 * l.add + l.div - 1, 2 * l.div};
    default:
        return l;
    }
}

struct resize_map resize_map_of(const struct problem *p)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct clcnn_shape *x = &p->in[0].shape, *y = &p->out[0].shape;
    const int dims = x->rank - 2;
    struct resize_map m = {
        .line = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}},
        .in = {1, 1, 1},
        .out = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        const int d = 3 - dims + i;
        m.in[d] = x->dim[2 + i];
        m.out[d] = y->dim[2 + i];
        m.line[d] = resize_line_of(attrs, i, dims, m.in[d], m.out[d]);
        if (attrs->mode == RESIZE_NEAREST)
            m.line[d] = line_rounded(m.line[d], attrs->nearest_rounding);
    }
    return m;
}

bool resize_is_plain(const struct resize_attrs *attrs)
{
    return attrs->mode != RESIZE_CUBIC && !(attrs->mode == RESIZE_LINEAR && attrs->antialias) &&
           attrs->coordinates != RESIZE_TF_CROP_AND_RESIZE;
}

bool resize_fits_int(const i64 *mul, const i64 *add, const i64 *div, const i32 *in, const i32 *out)
{
    for (int d = 0; d < 3; d++)
        if (2 * (llabs(mul[d]) * out[d] + llabs(add[d]) + div[d] * (in[d] + 1)) > INT32_MAX)
            return false;
    return true;
}
