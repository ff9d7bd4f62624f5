/* driver_offer.c: a driver that no ICD file names, as pip installs one. Its platforms follow those of the loader, whose entry
 * points lead to it as to any other: an OpenCL object begins with its driver's table of functions (cl_khr_icd). Without a
 * loader the driver takes the loader's place. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime_private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char offered[PATH_MAX]; /* empty: none */

/* Written under cl.c's pthread_once, and only read afterwards. */
static cl_int(CL_API_CALL *list_platforms)(cl_uint, cl_platform_id *, cl_uint *);
static char failure[512];

void clcnn_driver_offer(const char *path)
{
    pthread_mutex_lock(&lock);
    snprintf(offered, sizeof offered, "%s", path);
    pthread_mutex_unlock(&lock);
}

const char *driver_offered(void)
{
    return offered[0] != '\0' ? offered : NULL;
}

const char *driver_offer_failure(void)
{
    return failure;
}

/* dl_iterate_phdr()'s: whether the object's file name begins with what `data` points to. */
static int is_named(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;

    (void)size;
    return strncmp(name, data, strlen(data)) == 0;
}

void driver_offer_open(const struct cl_api *api)
{
    char *slash = strrchr(offered, '/');
    void *(CL_API_CALL * function)(const char *) = NULL;
    void *handle, *address;
    cl_uint n = 0;

    if (offered[0] == '\0')
        return;
    api->clGetPlatformIDs(0, NULL, &n); /* makes the loader open its own drivers */
    if (dl_iterate_phdr(is_named, slash != NULL ? slash + 1 : offered))
        return; /* an ICD file names it, or another copy: two in one process disturb each other */
    handle = dlopen(offered, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(failure, sizeof failure, "%.200s does not open (%.280s)", offered, dlerror());
        return;
    }
    address = dlsym(handle, "clGetExtensionFunctionAddress");
    memcpy(&function, &address, sizeof function);
    address = function != NULL ? function("clIcdGetPlatformIDsKHR") : NULL;
    memcpy(&list_platforms, &address, sizeof list_platforms);
    if (list_platforms == NULL)
        snprintf(failure, sizeof failure, "%.400s is no OpenCL driver: it lacks clIcdGetPlatformIDsKHR",
                 offered);
}

/* Whether the loader's calls lead to the object: drivers of another kind (cl_khr_icd 2) put a mark first in their tables. */
static bool has_table(cl_platform_id platform)
{
    static const uint64_t mark = 0x4F50454E434C3331; /* "OPENCL31" */
    const void *const *table = *(const void *const *const *)platform;

    return table != NULL && (uint64_t)(uintptr_t)table[0] != mark;
}

cl_uint driver_offer_platforms(cl_platform_id *platforms, cl_uint known)
{
    cl_platform_id found[DRIVER_OFFER_MOST];
    cl_uint n = 0, count = known;

    if (list_platforms == NULL || list_platforms(DRIVER_OFFER_MOST, found, &n) != CL_SUCCESS)
        return known;
    for (cl_uint i = 0; i < n && i < DRIVER_OFFER_MOST; i++) {
        bool fresh = has_table(found[i]);
        for (cl_uint j = 0; j < known; j++)
            fresh = fresh && platforms[j] != found[i];
        if (fresh)
            platforms[count++] = found[i];
    }
    return count;
}
