/* profile.c: see profile.h. */
#include "algos/cost/profile.h"
#include "algos/cost/cost.h"

#include <math.h>

static const struct clcnn_profile_row rows[] = {
#define PROFILE(name, op, algo, kernel, channels, filters, size, stride) \
    {#name, #op, #algo, kernel, channels, filters, size, stride},
#include "algos/cost/profile.def"
#undef PROFILE
};
_Static_assert(PROFILE_COUNT <= CLCNN_PROFILE_MAX, "a profile must hold all rows");

int clcnn_profile_count(void)
{
    return PROFILE_COUNT;
}

const struct clcnn_profile_row *clcnn_profile_get(int row)
{
    return row >= 0 && row < PROFILE_COUNT ? &rows[row] : NULL;
}

/* A built-in constant stands where it is nearly right, so that noise of a measurement does not change choices. */
static double known(const struct clcnn_device_info *device, enum profile_row row)
{
    const double factor = device->profile.factor[row];
    return factor > 0.0 && fabs(factor - 1.0) > PROFILE_LEAST_RATIO ? factor : 1.0;
}

static double macs_of(const struct clcnn_profile_row *r)
{
    const double side = (double)(r->size / r->stride);
    return (double)r->kernel * r->kernel * r->channels * r->filters * side * side;
}

double profile_factor(const struct clcnn_device_info *device, enum profile_row small, double macs)
{
    const double least = macs_of(&rows[small]), most = macs_of(&rows[small + 1]);
    const double at = macs <= least ? 0.0 : macs >= most ? 1.0 : log(macs / least) / log(most / least);
    return known(device, small) * (1.0 - at) + known(device, small + 1) * at;
}

double profile_memory(const struct clcnn_device_info *device)
{
    return known(device, PROFILE_memory);
}
