/* processor.c: what CPUID tells of this machine's processor, beyond what drivers tell of a CPU device. */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "runtime/runtime_private.h"

/* Whether this machine's processor computes vectors of 512 bits as two halves, as AMD's before Zen 5 do. From CPUID's
 * "performance optimization identifiers" (AMD's Processor Programming References, Fn8000_001A): bits 2 and 3 of EAX say
 * that data paths have 256 or 512 bits. */
bool processor_halves_vectors(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(0x8000001a, &a, &b, &c, &d) && (a & 4) != 0 && (a & 8) == 0;
#else
    return false;
#endif
}

/* The second-level cache of a core of this machine: AMD64 Architecture Programmer's Manual 3 and Intel's Software Developer's
 * Manual 2, "CPUID", Fn8000_0006: KiB in the upper half of ECX. */
uint32_t processor_cache_bytes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000006, &a, &b, &c, &d) ? (c >> 16) << 10 : 0;
#else
    return 0;
#endif
}

/* Whether this machine's processor has vpdpbusd on vectors of 64 bytes: Intel's Software Developer's Manual 2, "CPUID", leaf 7: bit 11
 * of ECX (AVX512_VNNI), and of what they are loaded and packed by bits 16 and 30 of EBX (AVX512F, AVX512BW). Drivers may
 * name an older processor. */
bool processor_has_byte_products(void)
{
#if defined(__x86_64__) || defined(__i386__)
    const unsigned wide = 1u << 16 | 1u << 30;
    const char *wanted = getenv("CLCNN_BYTE_PRODUCTS");
    unsigned a, b, c, d;
    return !(wanted && strcmp(wanted, "0") == 0) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & wide) == wide && (c & 1u << 11) != 0;
#else
    return false;
#endif
}

/* Whether it has vpermi2b on such vectors: bit 1 of ECX of the same leaf (AVX512_VBMI). */
bool processor_has_byte_permutes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return processor_has_byte_products() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 1) != 0;
#else
    return false;
#endif
}

/* Whether this machine's processor has tdpbf16ps, tdpbusd and, to make the operands of the first, vcvtne2ps2bf16 (Intel's
 * Software Developer's Manual 2, "CPUID", leaf 7: bits 22, 24 and 25 of EDX, AMX-BF16, AMX-TILE and AMX-INT8; bit 5 of EAX
 * of subleaf 1, AVX512_BF16), and the system lets this process use tiles: Linux asks for that, since a thread's saved state grows by 8 KiB (Documentation/arch/x86/xstate.rst). */
bool processor_has_amx_tiles(void)
{
#if defined(__x86_64__) && defined(__linux__)
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    const unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25;
    const char *wanted = getenv("CLCNN_AMX_TILES");
    unsigned a, b, c, d;
    if ((wanted && strcmp(wanted, "0") == 0) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & tiles) != tiles)
        return false;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5) != 0 &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Who made this machine's processor: drivers tell of themselves, so Intel's names Intel on every processor. */
void processor_vendor(char out[16])
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned most, words[3];
    if (__get_cpuid(0, &most, &words[0], &words[2], &words[1])) /* EBX, EDX, ECX in this order */
        memcpy(out, words, sizeof words);
#else
    (void)out;
#endif
}
