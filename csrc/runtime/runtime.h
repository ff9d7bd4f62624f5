/* runtime.h: the only folder that talks to OpenCL (and CLBlast). plan/ uses what is declared here and no cl* call. */
#ifndef CLCNN_RUNTIME_H
#define CLCNN_RUNTIME_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/device_traits.h"
#include "base/gate.h"
#include "plan/step.h"

/* ---- cl.c: the loader and CLBlast, opened at the first use of a device ------------------------------------------ */

struct cl_api {
#define CL_FN(ret, name, params) ret(CL_API_CALL *name) params;
#include "runtime/cl.def"
#undef CL_FN
    void *loader, *clblast;   /* dlopen handles; clblast may be NULL */
    char clblast_reason[256]; /* why clblast is NULL */
#define CLBLAST_FN(ret, name, params) ret(*name) params;
#define CLBLAST_SECTION
#include "runtime/cl.def"
#undef CLBLAST_SECTION
#undef CLBLAST_FN
};
/* Opened once per process (pthread_once); NULL with NO_DEVICE when no loader can be opened. */
enum clcnn_status cl_api_get(const struct cl_api **out, struct clcnn_err *err);

/* Runs an OpenCL call through the table, with fault injection and the error idiom; needs `st`, `done:` and `err`. */
#define CL_TRY(api, name, ...)                \
    do {                                      \
        cl_int code_ = cl_fault(#name);       \
        if (code_ == CL_SUCCESS)              \
            code_ = (api)->name(__VA_ARGS__); \
        if (code_ != CL_SUCCESS) {            \
            st = cl_fail(err, #name, code_);  \
            goto done;                        \
        }                                     \
    } while (0)
/* The same for creators, whose last argument is the code. */
#define CL_MAKE(api, out, name, ...)                                           \
    do {                                                                       \
        cl_int code_ = cl_fault(#name);                                        \
        (out) = code_ == CL_SUCCESS ? (api)->name(__VA_ARGS__, &code_) : NULL; \
        if (code_ != CL_SUCCESS) {                                             \
            st = cl_fail(err, #name, code_);                                   \
            goto done;                                                         \
        }                                                                      \
    } while (0)
/* "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES (-5)"; memory codes become DEVICE_MEM or HOST_MEM. */
enum clcnn_status cl_fail(struct clcnn_err *err, const char *call, cl_int code);
/* Tests: CLCNN_FAULT="clCreateBuffer:3:-4" makes the third call return -4 (read at device open). 0 otherwise. */
cl_int cl_fault(const char *name);

/* ---- device.c --------------------------------------------------------------------------------------------------- */

struct program;
struct weight;

struct text { /* grows; `failed` sticks when there is no memory */
    char *at;
    size_t used, capacity;
    bool failed;
};
struct ahead {              /* ahead.c; all but `asked` under the lock */
    pthread_mutex_t making; /* also held while a program is made */
    atomic_bool asked;      /* a compile knows what it needs */
    bool notes;             /* what a compile asks for goes into the list */
    struct text noted;
    struct hash128 hash; /* of the list in the cache folder */
};

#define WEIGHT_LISTS 1024

struct clcnn_device {
    const struct cl_api *api;
    struct clcnn_device_info info;
    cl_platform_id platform;
    cl_device_id id,
        part; /* part: some cores of a CPU device as a device of its own, which id is then; or NULL */
    cl_context context;
    cl_command_queue queue;       /* transfers and set-up; plans have their own */
    pthread_mutex_t lock;         /* programs, memory accounting */
    struct gate weights_gate;     /* held over a whole weight-packing phase; order: weights_gate, then lock */
    pid_t pid;                    /* a forked child must not touch the handles */
    bool closed;                  /* written under lock, read anywhere */
    int pins;                     /* calls under way that need the context */
    bool used_clblast;            /* CLBlast keeps programs per context */
    char *cache_dir, *kernel_dir; /* NULL: off, embedded */
    uint64_t memory_limit;
    int build_threads;
    struct program *programs; /* linked list, looked up at compile only */
    struct ahead ahead;
    struct weight *weights[WEIGHT_LISTS]; /* packed constants: linked lists, by hash */
    struct crew *crew;                    /* threads beside those of runs; NULL: not needed yet */
    struct slab *slabs;                   /* of large pages, which buffers lie in */
    cl_mem dummy;                         /* bound where an optional operand is absent */
    struct clcnn_device_stats stats;
};
/* First line of every entry point that touches the device: not closed, not forked. */
enum clcnn_status device_enter(const struct clcnn_device *dev, struct clcnn_err *err);
/* In a forked child nothing of the parent's may be released, nor any lock taken: the driver's threads do not exist here, nor
 * the thread that may have held the lock. */
bool device_forked(const struct clcnn_device *dev);
bool device_has_clblast(const struct clcnn_device *dev);

/* ---- buffer.c: device memory, counted --------------------------------------------------------------------------- */

struct memory {
    cl_mem mem;
    size_t bytes;
};
/* `what` completes the message: "arena of plan", "weights of conv1". Checks memory_limit and max_alloc first. Touches
 * the memory where the driver allocates lazily, so that a lack of it shows here. bytes 0 becomes a minimal buffer. */
enum clcnn_status memory_create(struct memory *out, struct clcnn_device *dev, size_t bytes, const char *what,
                                struct clcnn_err *err);
void memory_release(struct memory *m, struct clcnn_device *dev);
/* A part of other memory, which it must not outlive; the offset is aligned as the arena's storages are. */
enum clcnn_status memory_part(cl_mem *out, struct clcnn_device *dev, cl_mem whole, size_t offset,
                              size_t bytes, struct clcnn_err *err);
/* The host's own bytes as memory of the device; NULL where the driver will not have it. */
void memory_borrow(cl_mem *out, struct clcnn_device *dev, void *host, size_t bytes, bool written);
void memory_return(cl_mem *mem, struct clcnn_device *dev); /* a part, what was borrowed, or held */

/* Where memory lies, on devices that work in the host's; nothing may be under way there. */
enum clcnn_status memory_address(void **out, struct clcnn_device *dev, cl_mem mem, struct clcnn_err *err);

struct clcnn_buffer {
    struct clcnn_device *dev;
    struct memory memory;
    size_t bytes;
    bool closed;
    _Atomic(void *) address; /* NULL: not asked yet */
};
/* The address of its memory, found once. */
enum clcnn_status buffer_address(void **out, struct clcnn_buffer *buf, struct clcnn_err *err);
/* The buffer's memory, which stays until memory_return(), whatever other threads close meanwhile. */
enum clcnn_status buffer_hold(cl_mem *out, struct clcnn_buffer *buf, size_t bytes, struct clcnn_err *err);

/* ---- state.c: arrays that plans read and change ------------------------------------------------------------------ */

struct state_array {
    struct clcnn_state_array info; /* owns its name */
    struct memory memory;
    bool torn; /* a commit broke off: until it is written anew */
};
struct clcnn_state {
    struct clcnn_device *dev;
    struct gate gate;   /* held over a run; order: the plan's, then this one */
    atomic_bool closed; /* written inside the gate */
    cl_event late;      /* after a time-out: the end of what the device may still do with it; NULL: nothing */
    int count;
    struct state_array *array;
};
/* The caller's turn, which state_leave() ends. Refused when closed, when the device is still at work on it or, for a run, when a
 * commit broke off. */
enum clcnn_status state_enter(struct clcnn_state *state, bool run, const struct clcnn_patience *patience,
                              struct clcnn_err *err);
/* q: of the run, which may have timed out, or have broken off while it committed; NULL: nothing has. */
struct queue;
void state_leave(struct clcnn_state *state, const struct queue *q);

/* ---- program.c, cache.c: kernels from source or disk ------------------------------------------------------------ */

#define MAX_ENTRIES 4
struct unit { /* one instance of a kernel file: its name without the ending, and defines (sorted by name) */
    const char *file;
    const char *entry[MAX_ENTRIES]; /* the kernels that are built: drivers take their time for each */
    int n_entries;
    const struct define *define;
    int n_defines;
    bool only_if; /* its kernel, or some steps of the chain, hang on a word of memory: struct step */
    /* a chain: one step of each variant; file is "chain", there are no defines */
    const struct step *const *variants;
    int n_variants;
    size_t group_size; /* of a chain: of all its steps; more than 1 on NVIDIA's GPUs alone */
};
#define CHAIN_MEMORIES 16 /* memory objects that a chain has as parameters */
/* A program per unit, shared by all plans of the device (reference counted). Missing ones are loaded from the disk cache
 * or built, several at once; `patience` is asked in between. programs[i] may repeat when units repeat. *missing: how many were not in memory.
 * On failure nothing is held. */
enum clcnn_status programs_acquire(struct clcnn_device *dev, const struct unit *units, int count,
                                   struct program **programs, int *missing,
                                   const struct clcnn_patience *patience, struct clcnn_err *err);
/* After the first compile: what it has asked for is made ahead in the next process. */
void programs_keep_list(struct clcnn_device *dev);
void program_release(struct clcnn_device *dev, struct program *program);
void program_retain(struct clcnn_device *dev, struct program *program);
/* After each of its kernels has run once: writes the binary to the disk cache if it was built from source and the driver
 * does not keep it itself. Never fails. */
void program_save(struct clcnn_device *dev, struct program *program);
/* a kernel of the caller's own: <file>_k_<entry> */
enum clcnn_status program_kernel(cl_kernel *out, struct clcnn_device *dev, struct program *program,
                                 const char *entry, struct clcnn_err *err);
/* The text that is built: FN, defines, the file with its includes pasted in, #undef of the defines. malloc'd. */
enum clcnn_status unit_source(char **out, const char *kernel_dir, const struct unit *unit,
                              struct clcnn_err *err);

/* ---- cores.c ---------------------------------------------------------------------------------------------------- */

long cores_usable(void);    /* processor cores that this process may keep busy */
long cores_of_device(void); /* those that are left to a device beside others of the processor */
bool cores_pin_safe(void);  /* pinning.h, asked about this process */

/* ---- queue.c: step descriptions become launches, and run --------------------------------------------------------- */

struct binding { /* the memory of a view */
    cl_mem mem;
    int64_t offset;   /* elements */
    size_t elem;      /* bytes of one */
    bool moves;       /* chain_set_memory() or launch_set_memory() may replace it */
    cl_ulong address; /* 0: not known, kernels are handed the object; see bindings_address() */
};
/* Finds the addresses of what does not move, on devices whose kernels may be handed these instead of memory objects. */
enum clcnn_status bindings_address(struct binding *bindings, int count, struct clcnn_device *dev,
                                   struct clcnn_err *err);

struct queue;
struct launch {       /* one step, bound: nothing is left to decide */
    cl_kernel kernel; /* NULL: CLBlast, or a step that a chain runs and that has no kernel of its own yet */
    bool library;     /* CLBlast */
    bool only_if;     /* the kernel's first operand is the word that it hangs on */
    size_t groups, group_size;
    double cost; /* work units (multiply-adds + bytes), to cut and bound what is enqueued */
    struct gemm_call gemm;
    struct binding a, b, c;
    cl_mem scratch;    /* CLBlast's temp buffer, a part of the arena owned by the launch; NULL without one */
    const char *layer; /* for messages; borrowed from the plan */
    struct chain *chain; /* NULL: launched by itself */
};
/* What the steps of a plan have to do with chains: `variant` is the step's variant in the unit, -1: it is launched; `wait` how many of
 * the plan's steps are done before it begins (the first so many). */
struct chain_weights {
    int operand; /* of the step, 0: it has none */
    size_t bytes;
};
struct chain_plan {
    const struct step *const *steps;
    const int *variant, *wait;
    const struct chain_weights *weights; /* what is worth fetching while the step before runs */
    int count;
};
/* The unit of a chain of steps that have a group size in common. */
struct unit chain_unit(const struct step *const *variants, int n_variants);
/* Makes chains of the launches of a plan that are bound, with `program` built from a unit of a chain; *out is an array that
 * ends with a NULL, freed by chains_free. */
enum clcnn_status chains_bind(struct chain ***out, struct clcnn_device *dev, struct program *program,
                              struct launch *launches, const struct chain_plan *of,
                              const struct binding *bindings, struct clcnn_err *err);
/* After a run that took `ms`, or longer: *failed tells whether a work-group has waited too long for others and left. The results
 * are wrong then, and the chains are of no use any more. */
enum clcnn_status chains_failed(bool *failed, struct chain **chains, struct queue *q, double ms,
                                struct clcnn_err *err);
void chains_free(struct chain **chains, struct clcnn_device *dev);
/* Steps that were bound to `own` use `mem` from now on; nothing may be under way. */
enum clcnn_status chain_set_memory(struct chain *c, struct clcnn_device *dev, cl_mem own, cl_mem mem,
                                   struct clcnn_err *err);
/* Where the host can call the chains' machine code, *found, a queue may do so (queue_call_chains). They must have run. */
enum clcnn_status chains_find_code(bool *found, struct chain **chains, struct clcnn_device *dev,
                                   struct clcnn_err *err);
/* In calls, steps that were bound to `own` use what is at this address, or, NULL, `own`. */
void chain_set_address(struct chain *c, cl_mem own, void *at);
/* The same for operand `buffer` of one launch, if it has a kernel. */
enum clcnn_status launch_set_memory(const struct launch *l, struct clcnn_device *dev, int buffer, cl_mem mem,
                                    struct clcnn_err *err);
/* Without a program the launch gets no kernel: a chain is to run the step. */
enum clcnn_status launch_bind(struct launch *out, struct clcnn_device *dev, struct program *program,
                              const struct step *step, const struct binding *bindings, struct clcnn_err *err);
/* Another argument block from the next enqueueing on, for step `step`. */
enum clcnn_status launch_set_args(const struct launch *l, struct clcnn_device *dev, const struct step *step,
                                  const void *args, struct clcnn_err *err);
/* Gives it its kernel later. */
enum clcnn_status launch_bind_kernel(struct launch *l, struct clcnn_device *dev, struct program *program,
                                     const struct step *step, const struct binding *bindings,
                                     struct clcnn_err *err);
void launch_release(struct launch *l, struct clcnn_device *dev);
/* Gives a CLBlast launch its temp buffer: `bytes` of the binding, which must be aligned as the arena's storages are. */
enum clcnn_status launch_scratch(struct launch *l, struct clcnn_device *dev, const struct binding *binding,
                                 size_t bytes, struct clcnn_err *err);
/* Temp-buffer bytes that CLBlast wants for this call (0: none). */
enum clcnn_status gemm_scratch_bytes(size_t *bytes, struct clcnn_device *dev, const struct gemm_call *call,
                                     struct clcnn_err *err);

struct queue; /* an in-order command queue with at most about 100 ms of work outstanding */
enum clcnn_status queue_create(struct queue **out, struct clcnn_device *dev, bool profiling,
                               struct clcnn_err *err);
/* Cost units per ms that a queue has learned to expect, so that another one for the same launches need not learn anew. */
double queue_rate(const struct queue *q);
void queue_expect(struct queue *q, double rate);
void queue_free(struct queue *q); /* does not block when the queue is stuck after a time-out */
/* Before a walk of these launches, bytes of this memory hold zeros: it leaves them so unless it is cut short. */
void queue_counters(struct queue *q, cl_mem mem, size_t offset, size_t bytes);
/* Starts walking the launches; host memory of transfers must stay alive until the walk ends. */
void queue_start(struct queue *q, const struct launch *launches, int count);
/* `then` is to be called once, after the last launch has been enqueued and before it is waited for, unless a deadline is
 * given (some drivers block in a read until the device is there). */
typedef enum clcnn_status queue_fn(void *with, struct clcnn_err *err);
void queue_then(struct queue *q, queue_fn *then, void *with);
/* In a walk without a deadline `passed` is called whenever more launches were enqueued wholly: the first `next` of them. */
typedef enum clcnn_status queue_passed_fn(void *with, int next, struct clcnn_err *err);
void queue_tell(struct queue *q, queue_passed_fn *passed, void *with);
/* Enqueues as much as is allowed, waits as needed; OK when everything has finished, PENDING after slice_ms, TIMEOUT as in
 * clcnn_plan_advance. An error ends the walk. */
enum clcnn_status queue_advance(struct queue *q, double slice_ms, const struct clcnn_patience *patience,
                                struct clcnn_err *err);
void queue_cancel(struct queue *q); /* waits for what is enqueued, then forgets the rest */
/* All its launches are of chains whose code is known: walks without a deadline call it, on the caller's thread and the device's
 * crew, and enqueue nothing. */
void queue_call_chains(struct queue *q, bool calls);
/* The walk that was started, of launches without chains, is whole or not at all: once it has begun, whatever ends it enqueues
 * the rest first. */
void queue_keep_whole(struct queue *q);
bool queue_stuck(const struct queue *q); /* after TIMEOUT, until the device has finished */
/* Blocking run of all launches, which need kernels, with one event each (profiling queue); ns from the first start. */
enum clcnn_status queue_profile(struct queue *q, const struct launch *launches, int count, uint64_t *start_ns,
                                uint64_t *end_ns, struct clcnn_err *err);
/* Transfers on the queue: they do not block, so that host memory must stay alive until the next wait. */
enum clcnn_status queue_write(struct queue *q, cl_mem dst, size_t offset, const void *src, size_t bytes,
                              struct clcnn_err *err);
enum clcnn_status queue_read(struct queue *q, cl_mem src, size_t offset, void *dst, size_t bytes,
                             struct clcnn_err *err);
enum clcnn_status queue_copy(struct queue *q, cl_mem src, size_t src_offset, cl_mem dst, size_t dst_offset,
                             size_t bytes, struct clcnn_err *err);
/* Batch items that are not dense: rows of `row_bytes`, `dst_stride`/`src_stride` bytes apart (clEnqueue*BufferRect). */
enum clcnn_status queue_write_rows(struct queue *q, cl_mem dst, size_t offset, size_t dst_stride,
                                   const void *src, size_t row_bytes, size_t rows, struct clcnn_err *err);
enum clcnn_status queue_read_rows(struct queue *q, cl_mem src, size_t offset, size_t src_stride, void *dst,
                                  size_t row_bytes, size_t rows, struct clcnn_err *err);
enum clcnn_status queue_copy_rows(struct queue *q, cl_mem src, size_t src_offset, size_t src_stride,
                                  cl_mem dst, size_t dst_offset, size_t dst_stride, size_t row_bytes,
                                  size_t rows, struct clcnn_err *err);
/* Makes what was written to memory that is borrowed visible to the host. */
enum clcnn_status queue_show(struct queue *q, cl_mem mem, size_t bytes, struct clcnn_err *err);
enum clcnn_status queue_finish(struct queue *q, struct clcnn_err *err);

/* ---- relay.c: results that other devices get too, by way of the host, while the queue goes on -------------------- */

struct relay_result {
    size_t bytes;
    struct clcnn_buffer *const *to; /* buffers of other devices */
    int n_to;
};
/* Before a walk; holds the buffers until queue_relay_end(), which belongs to the end of a run in any case. */
enum clcnn_status queue_relay_begin(struct queue *q, const struct relay_result *results, int count,
                                    struct clcnn_err *err);
/* Result `job` will lie there once all that is enqueued so far is done, and stay until the walk ends. Each job once. Walks send it
 * on while they wait, and are done when it is there. */
enum clcnn_status queue_relay(struct queue *q, int job, cl_mem mem, size_t offset, struct clcnn_err *err);
/* Waits until all that was relayed is there: after walks with a deadline, which relay last. */
enum clcnn_status queue_relay_finish(struct queue *q, struct clcnn_err *err);
void queue_relay_end(struct queue *q);

/* ---- weights.c: packed constants, shared by the plans of a device ----------------------------------------------- */

struct weight_key {
    struct hash128 content;
    char packing[96]; /* layout name with its parameters, "" for the constant as it is */
};
struct weight {
    struct weight *next;
    struct weight_key key;
    struct memory memory;
    int refs;
};
/* Call inside weights_gate. *fresh tells that the caller must fill it before releasing the lock. */
enum clcnn_status weight_acquire(struct weight **out, bool *fresh, struct clcnn_device *dev,
                                 const struct weight_key *key, size_t bytes, const char *layer,
                                 struct clcnn_err *err);
/* enters weights_gate; the last one frees it */
void weight_release(struct clcnn_device *dev, struct weight *w);
/* Inside weights_gate: forget a weight that could not be filled. */
void weight_abandon(struct clcnn_device *dev, struct weight *w);

#endif
