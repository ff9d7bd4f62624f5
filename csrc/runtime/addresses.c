/* addresses.c: where memory objects lie on the device, for tables of steps and for launches that do not name them. */
#include <stdlib.h>

#include "runtime/runtime_private.h"

enum clcnn_status addresses_find(cl_ulong *out, const cl_mem *mem, int count, struct clcnn_device *dev,
                                 struct program *program, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t one = 1;
    struct memory there = {.mem = NULL};
    cl_kernel kernel = NULL;

    TRY(memory_create(&there, dev, (size_t)(count + CHAIN_MEMORIES) * sizeof *out, "addresses of the plan",
                      err));
    TRY(program_kernel(&kernel, dev, program, "addresses", err));
    CL_TRY(dev->api, clSetKernelArg, kernel, 0, sizeof(cl_mem), &there.mem);
    for (cl_int at = 0; at < count; at += CHAIN_MEMORIES) {
        CL_TRY(dev->api, clSetKernelArg, kernel, 1, sizeof at, &at);
        for (int i = 0; i < CHAIN_MEMORIES; i++)
            CL_TRY(dev->api, clSetKernelArg, kernel, (cl_uint)(2 + i), sizeof(cl_mem),
                   at + i < count ? &mem[at + i] : &dev->dummy);
        CL_TRY(dev->api, clEnqueueNDRangeKernel, dev->queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    }
    CL_TRY(dev->api, clEnqueueReadBuffer, dev->queue, there.mem, CL_TRUE, 0, (size_t)count * sizeof *out, out,
           0, NULL, NULL);
done:
    if (kernel != NULL) {
        dev->api->clReleaseKernel(kernel);
        device_count(dev, -1);
    }
    memory_release(&there, dev);
    return st;
}

/* Those that stay where they are. */
static enum clcnn_status find_all(struct binding *bindings, int count, cl_mem *mem, cl_ulong *address,
                                  struct clcnn_device *dev, struct program *program, struct clcnn_err *err)
{
    int fixed = 0;

    for (int i = 0; i < count; i++)
        if (bindings[i].mem != NULL && !bindings[i].moves)
            mem[fixed++] = bindings[i].mem;
    const enum clcnn_status st = addresses_find(address, mem, fixed, dev, program, err);
    fixed = 0;
    for (int i = 0; st == CLCNN_OK && i < count; i++)
        if (bindings[i].mem != NULL && !bindings[i].moves)
            bindings[i].address = address[fixed++];
    return st;
}

enum clcnn_status bindings_address(struct binding *bindings, int count, struct clcnn_device *dev,
                                   struct clcnn_err *err)
{
    const struct unit unit = {.file = CHAIN_FILE, .entry = {"addresses"}, .n_entries = 1};
    struct program *program = NULL;
    enum clcnn_status st = CLCNN_OK;
    int missing;
    const bool turned = cl_fault("fixed_addresses") != CL_SUCCESS; /* for tests: as on the other devices */

    if (device_traits(&dev->info).fixed_addresses == turned)
        return CLCNN_OK;
    cl_mem *mem = clcnn_calloc((size_t)count + 1, sizeof *mem);
    cl_ulong *address = clcnn_calloc((size_t)count + 1, sizeof *address);
    if (mem == NULL || address == NULL)
        TRY(clcnn_fail_mem(err, (size_t)count * sizeof *address));
    TRY(programs_acquire(dev, &unit, 1, &program, &missing, NULL, err));
    TRY(find_all(bindings, count, mem, address, dev, program, err));
    program_save(dev, program);
done:
    if (program != NULL)
        program_release(dev, program);
    free(mem);
    free(address);
    return st;
}
