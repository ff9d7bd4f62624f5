/* driver.c: where drivers differ. */
#include <stdlib.h>
#include <string.h>

#include "runtime/room.h"

#define BUILD_OPTIONS "-cl-std=CL1.2"

static bool is_platform(const struct clcnn_device *dev, const char *name)
{
    return strcmp(dev->info.platform, name) == 0;
}

const char *driver_build_options(const struct clcnn_device *dev)
{
    return is_platform(dev, "rusticl") ? BUILD_OPTIONS " -DCOPY_ARGS" : BUILD_OPTIONS; /* kernels/clcnn.clh */
}

/* PoCL has a disk cache of its own, and would compile everything once more for the binary. */
bool driver_keeps_kernels(const struct clcnn_device *dev)
{
    const char *cache = getenv("POCL_KERNEL_CACHE");

    return is_platform(dev, "Portable Computing Language") && (cache == NULL || strcmp(cache, "0") != 0);
}
