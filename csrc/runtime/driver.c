/* driver.c: where drivers differ. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define BUILD_OPTIONS "-cl-std=CL1.2"

static bool is_platform(const struct clcnn_device *dev, const char *name)
{
    return strcmp(dev->info.platform, name) == 0;
}

const char *driver_build_options(const struct clcnn_device *dev)
{
    /* COPY_ARGS: kernels/common/clcnn.clh; OWN_MATH: kernels/common/activation.clh */
    static const char *const options[2][2] = {
        {BUILD_OPTIONS, BUILD_OPTIONS " -DOWN_MATH"},
        {BUILD_OPTIONS " -DCOPY_ARGS", BUILD_OPTIONS " -DCOPY_ARGS -DOWN_MATH"},
    };
    return options[is_platform(dev, "rusticl")][dev->info.type == CLCNN_DEVICE_CPU];
}

/* Mesa counts what a kernel declares twice. */
size_t driver_local_bytes(const struct clcnn_device *dev, cl_ulong reported)
{
    return (size_t)(is_platform(dev, "rusticl") ? reported / 2 : reported);
}

/* NVIDIA's driver tells of 48 KiB, and gives programs from binaries (ptx.c) all that a group of the device can have. */
uint64_t driver_local_limit(const struct clcnn_device *dev)
{
    return device_traits(&dev->info).most_local_bytes;
}

/* A multiprocessor's registers, and the most that a work-item can have: how many a kernel takes, no query tells. */
#define REGISTER_FILE 65536
#define MOST_REGISTERS 256

/* Each group takes a KiB more than it asks for. */
size_t driver_resident(const struct clcnn_device *dev, size_t group_size, uint64_t local)
{
    const size_t by_registers = REGISTER_FILE / (MOST_REGISTERS * group_size);
    const size_t by_local = device_traits(&dev->info).unit_local_bytes / (local + 1024);
    const size_t least = by_registers < by_local ? by_registers : by_local;
    return least > 0 ? least : 1;
}

/* PoCL has a disk cache of its own, and would compile everything once more for the binary. */
bool driver_keeps_kernels(const struct clcnn_device *dev)
{
    const char *cache = getenv("POCL_KERNEL_CACHE");

    return is_platform(dev, "Portable Computing Language") && (cache == NULL || strcmp(cache, "0") != 0);
}

/* PoCL finds the kernels that it keeps by the preprocessed text of the source, which takes it 25 ms and more a program;
 * those of a program of LLVM's bitcode it finds by the bytes. */
bool driver_takes_bitcode(const struct clcnn_device *dev)
{
    return driver_keeps_kernels(dev);
}

/* PoCL's compiler has one lock: threads would wait for it in any order, and the one that may be asked to stop the longest. */
bool driver_builds_singly(const struct clcnn_device *dev)
{
    return is_platform(dev, "Portable Computing Language");
}

/* PoCL's CPU devices know no other memory than the host's: a map does nothing, and takes two commands, of which each wakes a
 * thread. Together 15 us. */
bool driver_works_in_place(const struct clcnn_device *dev)
{
    return is_platform(dev, "Portable Computing Language") && cpu_device(&dev->info) &&
           dev->info.host_unified;
}

/* A thread that waits for PoCL's CPU devices sleeps until one of their threads wakes it: 20 to 40 us after a run of some ms. */
bool driver_wakes_late(const struct clcnn_device *dev)
{
    return driver_works_in_place(dev);
}

/* Rusticl refuses to unmap what it has not come to map yet. Elsewhere a run waits once, at its end. */
bool driver_waits_for_maps(const struct clcnn_device *dev)
{
    return is_platform(dev, "rusticl");
}
