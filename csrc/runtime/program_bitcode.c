/* program_bitcode.c: programs by way of LLVM's bitcode, for drivers that take it as a binary (driver_takes_bitcode). A
 * program that is compiled but not linked has bitcode for a binary, whatever the driver puts around it; the disk cache
 * keeps that, and the next process needs no source. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

/* LLVM Bitcode File Format, "Magic Numbers" */
static const unsigned char magic[4] = {'B', 'C', 0xC0, 0xDE};

static uint32_t little_endian(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Where the bitcode lies in a binary that begins with it or has it as a file, behind its length. NULL: nowhere. */
static const unsigned char *bitcode_in(const unsigned char *binary, size_t bytes, size_t *length)
{
    *length = bytes;
    if (bytes >= sizeof magic && memcmp(binary, magic, sizeof magic) == 0)
        return binary;
    for (size_t at = sizeof(uint32_t); at + sizeof magic <= bytes; at++) {
        *length = little_endian(binary + at - sizeof(uint32_t));
        if (memcmp(binary + at, magic, sizeof magic) == 0 && *length > 0 && *length <= bytes - at)
            return binary + at;
    }
    return NULL;
}

bool program_by_bitcode(struct program *p, struct clcnn_device *dev)
{
    const unsigned char *bitcode = NULL;
    unsigned char *binary = NULL;
    cl_program made = NULL;
    size_t bytes = 0, length = 0;
    cl_int code;

    if (dev->cache_dir == NULL)
        return false;
    CL_CODE(code, dev->api, clCompileProgram, p->program, 1, &dev->id, driver_build_options(dev), 0, NULL,
            NULL, NULL, NULL);
    if (code == CL_SUCCESS)
        binary = program_binary(dev, p->program, &bytes);
    if (binary != NULL)
        bitcode = bitcode_in(binary, bytes, &length);
    if (bitcode != NULL)
        made = program_of_binary(dev, bitcode, length);
    if (made != NULL) {
        cache_save(dev->cache_dir, p->key, bitcode, length);
        dev->api->clReleaseProgram(p->program);
        p->program = made;
    }
    free(binary);
    return made != NULL;
}
