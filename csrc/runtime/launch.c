/* launch.c: one step, bound to memory: its own kernel with every argument set, or the operands of a CLBlast call. */
#include <stdio.h>
#include <string.h>

#include "runtime/runtime_private.h"

/* CLBlast's enums, which are part of its binary interface. */
enum { ROW_MAJOR = 101, TRANSPOSE_NO = 111, TRANSPOSE_YES = 112 };

static int transpose_of(bool yes)
{
    return yes ? TRANSPOSE_YES : TRANSPOSE_NO;
}

static struct binding binding_at(const struct clcnn_device *dev, int view, int64_t offset,
                                 const struct binding *bindings)
{
    struct binding at = {.mem = dev->dummy};

    if (view != VIEW_NONE) {
        at = bindings[view];
        at.offset += offset;
    }
    return at;
}

static struct binding binding_of(const struct clcnn_device *dev, const struct step *step, int i,
                                 const struct binding *bindings)
{
    return binding_at(dev, step->buffer[i].view, step->buffer[i].offset, bindings);
}

/* What the compiler made of the kernel may need more registers or local memory than a group of this size can have.
 * NVIDIA's driver says 256 of kernels that require a larger group and run with it, so a required size that is the one
 * wanted counts as well. */
static enum clcnn_status check_group(const struct launch *l, struct clcnn_device *dev, const char *name,
                                     struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    size_t largest = 0, required[3] = {0, 0, 0};
    cl_ulong local = 0;

    CL_TRY(dev->api, clGetKernelWorkGroupInfo, l->kernel, dev->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof largest,
           &largest, NULL);
    CL_TRY(dev->api, clGetKernelWorkGroupInfo, l->kernel, dev->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
           sizeof required, required, NULL);
    CL_TRY(dev->api, clGetKernelWorkGroupInfo, l->kernel, dev->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local,
           &local, NULL);
    if (largest < l->group_size && required[0] != l->group_size)
        st = clcnn_fail(err, CLCNN_E_UNSUPPORTED,
                        "%s: kernel %s needs groups of %zu work-items, device '%s' runs it with at most %zu",
                        l->layer, name, l->group_size, dev->info.name, largest);
    else if (driver_local_bytes(dev, local) > driver_local_limit(dev))
        st = clcnn_fail(err, CLCNN_E_UNSUPPORTED,
                        "%s: kernel %s needs %llu bytes of local memory, device '%s' has %llu", l->layer,
                        name, (unsigned long long)local, dev->info.name,
                        (unsigned long long)driver_local_limit(dev));
done:
    return st;
}

/* An operand that the kernel never reads, where even that costs: each memory object takes NVIDIA's driver 0.25 us a launch. */
static bool absent(const struct clcnn_device *dev, const struct step *step, int i)
{
    return device_traits(&dev->info).null_operands && step->buffer[i].view == VIEW_NONE;
}

/* A memory object and the element in it; or no object, and the element counted from address 0 (D-117). */
static enum clcnn_status set_operand(const struct launch *l, struct clcnn_device *dev, cl_uint n,
                                     const struct binding *at, bool present, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const bool named = present && at->address == 0;
    const cl_ulong offset = (cl_ulong)at->offset + (at->address == 0 ? 0 : at->address / at->elem);

    CL_TRY(dev->api, clSetKernelArg, l->kernel, n, sizeof at->mem, named ? &at->mem : NULL);
    CL_TRY(dev->api, clSetKernelArg, l->kernel, n + 1, sizeof offset, &offset);
done:
    return st;
}

static enum clcnn_status set_arguments(const struct launch *l, struct clcnn_device *dev,
                                       const struct step *step, const struct binding *bindings,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_uint n = 0;

    if (l->only_if) {
        const struct binding at = binding_at(dev, step->only_if.view, step->only_if.offset, bindings);
        TRY(set_operand(l, dev, n, &at, true, err));
        n += 2;
    }
    for (int i = 0; i < step->n_buffers; i++, n += 2) {
        const struct binding at = binding_of(dev, step, i, bindings);
        TRY(set_operand(l, dev, n, &at, !absent(dev, step, i), err));
    }
    if (step->args_bytes > 0)
        CL_TRY(dev->api, clSetKernelArg, l->kernel, n, step->args_bytes, step->args);
done:
    return st;
}

enum clcnn_status launch_bind_kernel(struct launch *l, struct clcnn_device *dev, struct program *program,
                                     const struct step *step, const struct binding *bindings,
                                     struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    char name[128];

    snprintf(name, sizeof name, "%.60s/%.40s", step->file, step->entry);
    TRY(program_kernel(&l->kernel, dev, program, step->entry, err));
    TRY(check_group(l, dev, name, err));
    st = set_arguments(l, dev, step, bindings, err);
    if (st != CLCNN_OK) {
        err_prefix(err, st, name);
        err_prefix(err, st, l->layer);
    }
done:
    return st;
}

enum clcnn_status launch_set_memory(const struct launch *l, struct clcnn_device *dev, int buffer, cl_mem mem,
                                    struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (l->kernel != NULL)
        CL_TRY(dev->api, clSetKernelArg, l->kernel, 2 * (cl_uint)(buffer + l->only_if), sizeof mem, &mem);
done:
    return st;
}

enum clcnn_status launch_set_args(const struct launch *l, struct clcnn_device *dev, const struct step *step,
                                  const void *args, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    CL_TRY(dev->api, clSetKernelArg, l->kernel, 2 * (cl_uint)(step->n_buffers + l->only_if), step->args_bytes,
           args);
done:
    return st;
}

static void bind_gemm(struct launch *l, struct clcnn_device *dev, const struct step *step,
                      const struct binding *bindings)
{
    l->library = true;
    l->gemm = step->gemm;
    l->a = binding_of(dev, step, 0, bindings);
    l->b = binding_of(dev, step, 1, bindings);
    l->c = binding_of(dev, step, 2, bindings);
    l->a.offset += step->gemm.a_off;
    l->b.offset += step->gemm.b_off;
    l->c.offset += step->gemm.c_off;
    __atomic_store_n(&dev->used_clblast, true, __ATOMIC_RELAXED);
}

enum clcnn_status launch_bind(struct launch *out, struct clcnn_device *dev, struct program *program,
                              const struct step *step, const struct binding *bindings, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct launch l = {
        .groups = step->groups,
        .group_size = step->group_size,
        .cost = step->macs + step->bytes,
        .layer = step->layer,
        .only_if = step->only_if.view != VIEW_NONE,
    };

    if (step->file != NULL && program != NULL)
        TRY(launch_bind_kernel(&l, dev, program, step, bindings, err));
    else if (step->file != NULL)
        l.kernel = NULL;
    else if (device_has_clblast(dev))
        bind_gemm(&l, dev, step, bindings);
    else
        TRY(clcnn_fail(err, CLCNN_E_UNSUPPORTED, "%s: CLBlast is not available: %s", l.layer,
                       dev->api->clblast_reason));
    *out = l;
    l = (struct launch){.kernel = NULL};
done:
    launch_release(&l, dev);
    return st;
}

void launch_release(struct launch *l, struct clcnn_device *dev)
{
    if (device_forked(dev))
        return;
    if (l->kernel != NULL) {
        dev->api->clReleaseKernel(l->kernel);
        device_count(dev, -1);
    }
    memory_return(&l->scratch, dev);
    *l = (struct launch){.kernel = NULL};
}

/* ---- CLBlast --------------------------------------------------------------------------------------------------- */

enum clcnn_status gemm_scratch_bytes(size_t *bytes, struct clcnn_device *dev, const struct gemm_call *call,
                                     struct clcnn_err *err)
{
    const struct cl_api *api = dev->api;
    enum clcnn_status st = CLCNN_OK;

    *bytes = 0;
    if (call->batch != 1 || api->clblast == NULL) /* the batched call has no form that takes a buffer */
        return CLCNN_OK;
    st = device_pin(dev, err);
    if (st != CLCNN_OK)
        return st;
    /* Offsets of 1: an operand in the middle of the arena cannot be used in place by every kernel of CLBlast. */
    CL_TRY(api, CLBlastSGemmTempBufferSize, ROW_MAJOR, transpose_of(call->trans_a),
           transpose_of(call->trans_b), call->m, call->n, call->k, 1, call->lda, 1, call->ldb, 1, call->ldc,
           &dev->queue, bytes);
done:
    device_unpin(dev);
    return st;
}

enum clcnn_status launch_scratch(struct launch *l, struct clcnn_device *dev, const struct binding *binding,
                                 size_t bytes, struct clcnn_err *err)
{
    const enum clcnn_status st =
        memory_part(&l->scratch, dev, binding->mem, (size_t)binding->offset * sizeof(float), bytes, err);

    return st == CLCNN_OK ? st : err_prefix(err, st, l->layer);
}

static enum clcnn_status enqueue_gemm(const struct launch *l, struct clcnn_device *dev,
                                      cl_command_queue queue, cl_event *event, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct gemm_call *g = &l->gemm;
    const int ta = transpose_of(g->trans_a), tb = transpose_of(g->trans_b);
    const size_t a = (size_t)l->a.offset, b = (size_t)l->b.offset, c = (size_t)l->c.offset;

    if (g->batch == 1)
        CL_TRY(dev->api, CLBlastSgemmWithTempBuffer, ROW_MAJOR, ta, tb, g->m, g->n, g->k, g->alpha, l->a.mem,
               a, g->lda, l->b.mem, b, g->ldb, g->beta, l->c.mem, c, g->ldc, &queue, event, l->scratch);
    else
        CL_TRY(dev->api, CLBlastSgemmStridedBatched, ROW_MAJOR, ta, tb, g->m, g->n, g->k, g->alpha, l->a.mem,
               a, g->lda, (size_t)g->stride_a, l->b.mem, b, g->ldb, (size_t)g->stride_b, g->beta, l->c.mem, c,
               g->ldc, (size_t)g->stride_c, g->batch, &queue, event);
done:
    return st;
}

enum clcnn_status launch_enqueue(const struct launch *l, struct clcnn_device *dev, cl_command_queue queue,
                                 size_t first, size_t groups, cl_event *event, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t offset = first * l->group_size, global = groups * l->group_size;

    if (l->library)
        TRY(enqueue_gemm(l, dev, queue, event, err));
    else
        CL_TRY(dev->api, clEnqueueNDRangeKernel, queue, l->kernel, 1, first > 0 ? &offset : NULL, &global,
               &l->group_size, 0, NULL, event);
    return CLCNN_OK;
done:
    return err_prefix(err, st, l->layer);
}
