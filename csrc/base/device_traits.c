/* device_traits.c: properties of hardware, from what the driver tells of it; see device_traits.h. */
#include "base/device_traits.h"

#include <string.h>

enum { AMPERE = 80, HOPPER = 90 }; /* compute capabilities of NVIDIA's GPUs; 0 for other devices */

#define HOPPER_LOCAL_BYTES ((uint64_t)227 << 10)

static int channel_block(const struct clcnn_device_info *info)
{
    if (info->type != CLCNN_DEVICE_CPU || info->float_width < 8)
        return 0;
    return info->float_width >= 16 ? 16 : 8;
}

/* Local memory of a multiprocessor (CUDA C Programming Guide, "Technical Specifications per Compute Capability"). */
static size_t unit_local_bytes(unsigned capability)
{
    static const struct {
        unsigned capability;
        size_t kib;
    } known[] = {{80, 164}, {86, 100}, {87, 164}, {89, 100}, {90, 228}, {100, 228}, {103, 228}, {120, 100}};
    for (int i = 0; i < COUNT_OF(known); i++)
        if (known[i].capability == capability)
            return known[i].kib << 10;
    return (size_t)64 << 10;
}

struct device_traits device_traits(const struct clcnn_device_info *info)
{
    const unsigned capability = info->compute_capability;
    const int block = channel_block(info);
    /* PoCL hands assembly on to LLVM; Intel's runtime refuses it. */
    const bool pocl = strcmp(info->platform, "Portable Computing Language") == 0,
               takes_assembly = block == 16 && pocl;
    return (struct device_traits){
        .channel_block = block,
        /* AMD's processors with AVX-512 have two vector adders beside two multiply-adders; Intel's have none. Where vectors
         * are computed in halves they gain nothing (D-053). */
        .separate_adders =
            block == 16 && strcmp(info->cpu_vendor, "AuthenticAMD") == 0 && !info->half_vectors,
        .byte_products = takes_assembly && info->byte_products,
        .byte_permutes = takes_assembly && info->byte_permutes,
        .shares_pages = info->type == CLCNN_DEVICE_CPU && info->host_unified && pocl,
        .amx_tiles = takes_assembly && info->amx_tiles,
        .fetches_maps = block > 0 && strcmp(info->cpu_vendor, "GenuineIntel") == 0,
        .core_cache_bytes = info->core_cache_bytes ? info->core_cache_bytes : (size_t)1 << 20,
        .integrated_gpu = info->type == CLCNN_DEVICE_GPU && info->host_unified,
        .tensor_cores = capability >= AMPERE,   /* the first with mma.sync on tf32 and with cp.async */
        .warpgroups = capability == HOPPER,     /* wgmma is Hopper's alone */
        .waiting_groups = capability >= AMPERE, /* from which on chains of groups have been tried */
        .fixed_addresses = capability > 0,
        .null_operands = capability > 0,
        .builds_in_turn = capability > 0,
        .unit_local_bytes = unit_local_bytes(capability),
        .most_local_bytes = capability == HOPPER ? HOPPER_LOCAL_BYTES : info->local_mem_bytes,
    };
}
