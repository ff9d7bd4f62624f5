/* device_face.c: libOpenCL with every device called a FACE_TYPE (GPU, CPU) whose native vectors have FACE_WIDTH floats (0: as
 * they are), so that what is chosen and built for such devices runs on another one. Built by device_face.py; everything but
 * this one function comes from the library that it is linked with. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stddef.h>

#define JOIN(a, b) a##b
#define DEVICE_TYPE(name) JOIN(CL_DEVICE_TYPE_, name)

typedef cl_int (*query)(cl_device_id, cl_device_info, size_t, void *, size_t *);

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value, size_t *needed)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    query ask = library != NULL ? (query)dlsym(library, "clGetDeviceInfo") : NULL;
    cl_int code = ask != NULL ? ask(device, name, size, value, needed) : CL_OUT_OF_RESOURCES;

    if (code == CL_SUCCESS && name == CL_DEVICE_TYPE && value != NULL)
        *(cl_device_type *)value = DEVICE_TYPE(FACE_TYPE);
    if (code == CL_SUCCESS && name == CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT && value != NULL && FACE_WIDTH > 0)
        *(cl_uint *)value = FACE_WIDTH;
    if (library != NULL)
        dlclose(library);
    return code;
}
