/* device_traits_of.c: prints what csrc/base/device_traits.c makes of a device: type (CPU, GPU), processor's vendor, floats of a vector, compute
 * capability, whether it works in the host's memory, whether it computes vectors in halves, KiB of a core's cache,
 * whether it has products of bytes, the platform, and whether it has tiles of bfloat16. Built with it by tests/runtime/test_traits.py. */
#include "base/device_traits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **argument)
{
    struct clcnn_device_info info = {.compute_units = 1, .local_mem_bytes = 48 << 10};
    struct device_traits t;

    if (count != 11)
        return 2;
    info.type = strcmp(argument[1], "CPU") == 0 ? CLCNN_DEVICE_CPU : CLCNN_DEVICE_GPU;
    snprintf(info.cpu_vendor, sizeof info.cpu_vendor, "%s", argument[2]);
    info.float_width = (uint32_t)atoi(argument[3]);
    info.compute_capability = (uint32_t)atoi(argument[4]);
    info.host_unified = atoi(argument[5]) != 0;
    info.half_vectors = atoi(argument[6]) != 0;
    info.core_cache_bytes = (uint32_t)atoi(argument[7]) << 10;
    info.byte_products = info.byte_permutes = atoi(argument[8]) != 0;
    snprintf(info.platform, sizeof info.platform, "%s", argument[9]);
    info.amx_tiles = atoi(argument[10]) != 0;
    t = device_traits(&info);
    printf(
        "channel_block=%d separate_adders=%d fetches_maps=%d integrated_gpu=%d tensor_cores=%d warpgroups=%d "
        "waiting_groups=%d "
        "fixed_addresses=%d null_operands=%d builds_in_turn=%d byte_products=%d byte_permutes=%d shares_pages=%d amx_tiles=%d "
        "core_cache_bytes=%zu "
        "unit_local_bytes=%zu "
        "most_local_bytes=%zu\n",
        t.channel_block, t.separate_adders, t.fetches_maps, t.integrated_gpu, t.tensor_cores, t.warpgroups,
        t.waiting_groups, t.fixed_addresses, t.null_operands, t.builds_in_turn, t.byte_products, t.byte_permutes,
        t.shares_pages, t.amx_tiles, t.core_cache_bytes >> 10, t.unit_local_bytes >> 10,
        (size_t)t.most_local_bytes >> 10);
    return 0;
}
