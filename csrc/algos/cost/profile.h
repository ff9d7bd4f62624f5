/* profile.h: what was measured of a CPU device (clcnn_device_info.profile), for the rules: factors by which their costs are off on this
 * processor. The layers that are measured are rows of profile.def. */
#ifndef CLCNN_ALGOS_PROFILE_H
#define CLCNN_ALGOS_PROFILE_H

#include "base/base.h"

enum profile_row {
#define PROFILE(name, ...) PROFILE_##name,
#include "algos/cost/profile.def"
#undef PROFILE
    PROFILE_COUNT
};

/* What an algorithm takes here, over what its constants say; 1 where that is near enough, or not known. Of a layer of so many
 * multiply-adds, between the row `small` and the one after it. */
double profile_factor(const struct clcnn_device_info *device, enum profile_row small, double macs);
/* The same for bytes that come from memory. */
double profile_memory(const struct clcnn_device_info *device);

#endif
