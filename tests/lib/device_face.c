/* device_face.c: libOpenCL with every device called a FACE_TYPE (GPU, CPU) whose native vectors have FACE_WIDTH floats (0: as
 * they are), so that what is chosen and built for such devices runs on another one; GPUs with memory of their own. With
 * FACE_CAPABILITY in the environment, say 90, it is one of NVIDIA's of that compute capability; with FACE_CACHE it has a cache
 * of so many bytes, with FACE_GROUP groups of at most so many work-items, with FACE_UNITS so many compute units. Built by
 * device_face.py; everything but this one function comes from the library that it is linked with. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CAPABILITY_MAJOR 0x4000 /* cl_nv_device_attribute_query */
#define CAPABILITY_MINOR 0x4001

#define JOIN(a, b) a##b
#define DEVICE_TYPE(name) JOIN(CL_DEVICE_TYPE_, name)

typedef cl_int (*query)(cl_device_id, cl_device_info, size_t, void *, size_t *);

static const char extensions[] = "cl_nv_device_attribute_query";

/* What an NVIDIA GPU answers, where a CPU does otherwise; 0 for other questions. */
static size_t nvidia_answer(cl_device_info name, const void **answer, cl_uint *number)
{
    const char *capability = getenv("FACE_CAPABILITY");
    if (capability == NULL)
        return 0;
    *number = (cl_uint)(name == CAPABILITY_MAJOR ? atoi(capability) / 10 : atoi(capability) % 10);
    *answer = name == CL_DEVICE_EXTENSIONS ? (const void *)extensions : number;
    return name == CL_DEVICE_EXTENSIONS                           ? sizeof extensions
           : name == CAPABILITY_MAJOR || name == CAPABILITY_MINOR ? sizeof *number
                                                                  : 0;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value, size_t *needed)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    query ask = library != NULL ? (query)dlsym(library, "clGetDeviceInfo") : NULL;
    const void *answer;
    cl_uint number;
    const size_t own = nvidia_answer(name, &answer, &number);
    cl_int code = ask != NULL ? ask(device, name, size, value, needed) : CL_OUT_OF_RESOURCES;

    if (code == CL_SUCCESS && name == CL_DEVICE_HOST_UNIFIED_MEMORY && value != NULL)
        *(cl_bool *)value = DEVICE_TYPE(FACE_TYPE) != CL_DEVICE_TYPE_GPU;
    if (code == CL_SUCCESS && name == CL_DEVICE_TYPE && value != NULL)
        *(cl_device_type *)value = DEVICE_TYPE(FACE_TYPE);
    if (code == CL_SUCCESS && name == CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT && value != NULL && FACE_WIDTH > 0)
        *(cl_uint *)value = FACE_WIDTH;
    if (code == CL_SUCCESS && name == CL_DEVICE_GLOBAL_MEM_CACHE_SIZE && value != NULL &&
        getenv("FACE_CACHE") != NULL)
        *(cl_ulong *)value = strtoull(getenv("FACE_CACHE"), NULL, 10);
    if (code == CL_SUCCESS && name == CL_DEVICE_MAX_WORK_GROUP_SIZE && value != NULL &&
        getenv("FACE_GROUP") != NULL)
        *(size_t *)value = strtoull(getenv("FACE_GROUP"), NULL, 10);
    if (code == CL_SUCCESS && name == CL_DEVICE_MAX_COMPUTE_UNITS && value != NULL && getenv("FACE_UNITS") != NULL)
        *(cl_uint *)value = (cl_uint)atoi(getenv("FACE_UNITS"));
    if (own != 0) {
        code = CL_SUCCESS;
        if (value != NULL)
            memcpy(value, answer, own < size ? own : size);
        if (needed != NULL)
            *needed = own;
    }
    if (library != NULL)
        dlclose(library);
    return code;
}
