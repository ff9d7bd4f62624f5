/* program_build.c: one program, from source or from what the disk cache has of it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

/* Part of every key; change it when the same text must not find old binaries. */
#define CACHE_FORMAT "clcnn cache 1"
#define BITCODE_FORMAT "clcnn cache 1, bitcode"

/* Each part with its final zero. */
void program_key(char key[65], const struct clcnn_device *dev, const char *source)
{
    const struct clcnn_device_info *info = &dev->info;
    const char *parts[] = {driver_takes_bitcode(dev) ? BITCODE_FORMAT : CACHE_FORMAT,
                           driver_build_options(dev),
                           info->name,
                           info->vendor,
                           info->version,
                           info->driver,
                           info->platform,
                           info->platform_version,
                           source};
    struct sha256 h;

    sha256_init(&h);
    for (int i = 0; i < COUNT_OF(parts); i++)
        sha256_add(&h, parts[i], strlen(parts[i]) + 1);
    sha256_hex(&h, key);
}

/* The program that p's binary makes once its marked instructions count (ptx.c), in p's place. */
static enum clcnn_status build_marked(struct program *p, struct clcnn_device *dev, const struct unit *unit,
                                      struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    size_t bytes = 0;
    cl_program made = NULL;
    cl_int code, status = CL_SUCCESS;
    unsigned char *binary = program_binary(dev, p->program, &bytes);
    unsigned char *text = binary != NULL ? ptx_unmarked(binary, bytes, &bytes) : NULL;
    const unsigned char *const_text = text;

    if (text == NULL) {
        st = clcnn_fail_mem(err, bytes);
        goto done;
    }
    code = cl_fault("clCreateProgramWithBinary");
    if (code == CL_SUCCESS)
        made = dev->api->clCreateProgramWithBinary(dev->context, 1, &dev->id, &bytes, &const_text, &status,
                                                   &code);
    if (code != CL_SUCCESS) {
        st = cl_fail(err, "clCreateProgramWithBinary", code);
        goto done;
    }
    dev->api->clReleaseProgram(p->program);
    p->program = made;
    CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, driver_build_options(dev), NULL, NULL);
    if (code != CL_SUCCESS)
        st = build_fail(err, dev, p->program, unit, code);
done:
    free(binary);
    free(text);
    return st;
}

enum clcnn_status program_from_source(struct program *p, struct clcnn_device *dev, const struct unit *unit,
                                      const char *source, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_int code;

    CL_MAKE(dev->api, p->program, clCreateProgramWithSource, dev->context, 1, &source, NULL);
    device_count(dev, +1);
    p->from_source = true;
    if (driver_takes_bitcode(dev) && program_by_bitcode(p, dev))
        return CLCNN_OK;
    CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, driver_build_options(dev), NULL, NULL);
    /* a driver that does not know the option speaks 1.1 or 1.2 anyway */
    if (code == CL_INVALID_BUILD_OPTIONS)
        CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, "", NULL, NULL);
    if (code == CL_OUT_OF_HOST_MEMORY)
        st = cl_fail(err, "clBuildProgram", code);
    else if (code != CL_SUCCESS)
        st = build_fail(err, dev, p->program, unit, code);
    else if (ptx_is_marked(source))
        TRY(build_marked(p, dev, unit, err));
done:
    return st;
}

bool program_from_cache(struct program *p, struct clcnn_device *dev)
{
    size_t bytes = 0;
    unsigned char *data = cache_load(dev->cache_dir, p->key, &bytes);

    if (data == NULL)
        return false;
    p->program = program_of_binary(dev, data, bytes);
    free(data);
    if (p->program != NULL)
        device_count(dev, +1);
    return p->program != NULL;
}
