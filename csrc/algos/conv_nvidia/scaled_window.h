/* scaled_window.h: windows as wgmma_scaled sees them: at stride 1, in planes of channels that follow one another, which are those
 * of a volume or the phases of strided windows. */
#ifndef CLCNN_ALGOS_SCALED_WINDOW_H
#define CLCNN_ALGOS_SCALED_WINDOW_H

#include "algos/conv/conv_common.h"

enum { SCALED_MOST_TOGETHER = 4 }; /* pixels in a copy */

/* A dimension of the windows, of which strided ones have several phases: taps of the largest one, where it begins before an output's
 * pixel and ends behind it, and the length of a line that has zeros enough. */
struct scaled_side {
    int taps, begin, end, line;
};

struct scaled_side scaled_side(const struct conv_args *a, int d);
/* Pixels of a row that are copied to local memory at once. */
int scaled_together(const struct conv_args *a);
/* Of the largest window of a plane. */
int scaled_taps(const struct conv_args *a);
/* Whether windows have phases. */
bool scaled_is_strided(const struct conv_args *a);
/* Planes of channels that windows have: those of volumes, or phases. */
int scaled_planes(const struct conv_args *a);
/* Channels of a conv group's plane as filters and halves have them: zeros fill the last chunk. */
int scaled_channels(const struct conv_args *a);
/* Chunks of all planes. */
int scaled_chunks(const struct conv_args *a);

#endif
