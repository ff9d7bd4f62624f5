/* device_traits.h: what the hardware of a device can do, where rules depend on it. The one place that judges a
 * device by its vendor or its compute capability: everyone else asks for the property. What the driver tells in
 * words of its own (vector width, compute units, memories) is in struct clcnn_device_info. */
#ifndef CLCNN_BASE_DEVICE_TRAITS_H
#define CLCNN_BASE_DEVICE_TRAITS_H

#include "base/base.h"

struct device_traits {
    int channel_block;    /* floats of a vector, which channel blocks fill: 16 or 8; 0: no such vectors */
    bool separate_adders; /* vector adders that work beside the multiply-adders (D-021) */
    bool byte_products;   /* vpdpbusd on vectors of 64 bytes, which kernels reach by assembly (D-098) */
    bool byte_permutes;   /* vpermi2b on them, the same way (D-147) */
    bool shares_pages;    /* buffers may be memory of the host's, where it lies, without a cost */
    bool amx_tiles;       /* tdpbf16ps and tdpbusd on tiles of 16 rows of 64 bytes, the same way (D-144) */
    bool fetches_maps; /* cores bring maps near by themselves: prefetches take time from products (D-132) */
    size_t core_cache_bytes; /* second-level cache of a CPU's core; unknown: 1 MiB */
    bool integrated_gpu;     /* built into a processor: no memory of its own, fewer registers */
    bool tensor_cores;       /* mma.sync on tf32, and cp.async (D-025) */
    bool warpgroups;         /* wgmma: tensor cores that read local memory, for four warps at once (D-025) */
    bool waiting_groups;     /* groups that run at once may wait for each other's counters (D-013) */
    bool fixed_addresses;    /* memory never moves, and kernels may use it without being handed its object */
    bool null_operands;  /* kernels take NULL for an absent operand, which makes a launch shorter (D-013) */
    bool builds_in_turn; /* one program after another in a process, whatever the threads (D-148) */
    size_t unit_local_bytes;   /* local memory of a compute unit, shared by its groups; unknown: 64 KiB */
    uint64_t most_local_bytes; /* that a group can have; a driver may tell of less (D-029) */
};

struct device_traits device_traits(const struct clcnn_device_info *info);

#endif
