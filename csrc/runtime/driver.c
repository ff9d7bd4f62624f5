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

/* Mesa counts what a kernel declares twice. */
size_t driver_local_bytes(const struct clcnn_device *dev, cl_ulong reported)
{
    return (size_t)(is_platform(dev, "rusticl") ? reported / 2 : reported);
}

/* NVIDIA's driver tells of 48 KiB, and gives programs from binaries (ptx.c) all that a group of the device can have. */
#define HOPPER_LOCAL_BYTES ((uint64_t)227 << 10)
uint64_t driver_local_limit(const struct clcnn_device *dev)
{
    return dev->info.compute_capability == 90 ? HOPPER_LOCAL_BYTES : dev->info.local_mem_bytes;
}

/* PoCL has a disk cache of its own, and would compile everything once more for the binary. */
bool driver_keeps_kernels(const struct clcnn_device *dev)
{
    const char *cache = getenv("POCL_KERNEL_CACHE");

    return is_platform(dev, "Portable Computing Language") && (cache == NULL || strcmp(cache, "0") != 0);
}
