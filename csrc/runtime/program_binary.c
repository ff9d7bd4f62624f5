/* program_binary.c: programs as binaries, and of them. */
#include <stdlib.h>

#include "runtime/runtime_private.h"

unsigned char *program_binary(const struct clcnn_device *dev, cl_program program, size_t *bytes)
{
    unsigned char *data = NULL;
    cl_int code;

    *bytes = 0;
    CL_CODE(code, dev->api, clGetProgramInfo, program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL);
    if (code != CL_SUCCESS || *bytes == 0)
        return NULL;
    data = clcnn_calloc(*bytes, 1);
    if (data != NULL)
        CL_CODE(code, dev->api, clGetProgramInfo, program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL);
    if (code != CL_SUCCESS) {
        free(data);
        return NULL;
    }
    return data;
}

cl_program program_of_binary(struct clcnn_device *dev, const unsigned char *binary, size_t bytes)
{
    cl_program made = NULL;
    cl_int status = CL_SUCCESS, code = cl_fault("clCreateProgramWithBinary");

    if (code == CL_SUCCESS)
        made =
            dev->api->clCreateProgramWithBinary(dev->context, 1, &dev->id, &bytes, &binary, &status, &code);
    if (code != CL_SUCCESS)
        return NULL;
    code = status;
    if (code == CL_SUCCESS)
        CL_CODE(code, dev->api, clBuildProgram, made, 1, &dev->id, driver_build_options(dev), NULL, NULL);
    if (code == CL_SUCCESS)
        return made;
    dev->api->clReleaseProgram(made);
    return NULL;
}
