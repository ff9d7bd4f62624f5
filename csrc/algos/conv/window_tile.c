/* window_tile: tiles of outputs under a sliding window, which conv_depthwise_tile and conv_group_tile have; see
 * kernels/conv/window_tile.clh. */
#include "algos/conv/conv_common.h"
#include "algos/conv/window_tile.h"

enum { COLUMNS = 4, MOST_TAPS = 81, MOST_PIXELS = 24 };

bool window_tile_fits(const struct conv_args *a)
{
    return conv_taps(a) <= MOST_TAPS &&
           (COLUMNS - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] < MOST_PIXELS;
}

size_t window_tiles(const struct conv_args *a, int rows)
{
    return (size_t)a->n * ceil_div((size_t)a->out[1], (size_t)rows) * ceil_div((size_t)a->out[2], COLUMNS);
}

void step_define_window(struct step *s, const struct conv_args *a, int rows)
{
    step_define(s, "RY", rows);
    step_define(s, "KH", a->ker[1]);
    step_define(s, "KW", a->ker[2]);
    step_define(s, "SH", a->stride[1]);
    step_define(s, "SW", a->stride[2]);
    step_define(s, "DH", a->dil[1]);
    step_define(s, "DW", a->dil[2]);
    step_define(s, "PAD_W", a->pad[2]);
}
