/* clcnn.h: the public C interface of clcnn, and the only header that the Python binding sees.
 *
 * Lifecycle: open a device -> build a graph -> compile it into a plan -> run the plan.
 * Ownership: device > {buffer, state > plan, plan}. A child must be freed before its device is freed; *_close() may come in any
 *   order, is idempotent, and leaves the handle valid for *_free() and for calls that then fail with CLCNN_E_STATE.
 * Errors: every fallible function returns a status and fills the trailing `err`, which lives on the caller's stack;
 *   call clcnn_err_clear() after use (it frees a build log). Output handles are written only on success.
 * Threads: all functions may be called from any thread. Devices, states and plans lock themselves; a graph does not (build it
 *   in one thread; afterwards it is read only and may be shared).
 */
#ifndef CLCNN_H
#define CLCNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLCNN_MAX_RANK 8
#define CLCNN_NAME_MAX 256 /* longest layer, device or algorithm name kept, with its terminating zero */
#define CLCNN_IO_NAME_MAX \
    65536 /* longest name of an input, output, constant or state: model files decide them */

enum clcnn_status {
    CLCNN_OK = 0,
    CLCNN_E_VALUE,       /* an argument outside its rule */
    CLCNN_E_SHAPE,       /* shapes that do not fit together */
    CLCNN_E_DTYPE,       /* wrong element type */
    CLCNN_E_UNSUPPORTED, /* legal, but not offered; the text carries the reasons */
    CLCNN_E_HOST_MEM,
    CLCNN_E_DEVICE_MEM,
    CLCNN_E_BUILD,     /* a kernel did not build; log, options and kernel are set */
    CLCNN_E_CL,        /* an OpenCL or CLBlast call failed; cl_code and call are set */
    CLCNN_E_NO_DEVICE, /* no loader, platform or matching device */
    CLCNN_E_STATE,     /* closed, busy after a time-out, or used in a forked child */
    CLCNN_E_TIMEOUT,   /* the device did not finish in time; the plan stays busy until it does */
    CLCNN_E_INTERNAL,
    CLCNN_E_STOPPED, /* whoever a waiting call asked wanted it to end */
    CLCNN_PENDING    /* not an error: clcnn_plan_advance() has more to do */
};

struct clcnn_err {
    enum clcnn_status status;
    int cl_code;      /* OpenCL or CLBlast code, 0 otherwise */
    const char *call; /* static string: the call that failed, or NULL */
    char text[1024];  /* one message for a person: layer, value, rule */
    char kernel[64];  /* BUILD: kernel file stem */
    char *options;    /* BUILD: malloc'd build options and defines, or NULL */
    char *log;        /* BUILD: malloc'd compiler output, or NULL */
};
void clcnn_err_clear(struct clcnn_err *err);
const char *clcnn_status_name(enum clcnn_status status);
const char *clcnn_cl_code_name(int code); /* "CL_OUT_OF_RESOURCES", or NULL for an unknown code */

/* ---- waiting --------------------------------------------------------------------------------------------------- */

double clcnn_clock_ms(void); /* monotonic: the one clock of all deadlines */
struct clcnn_source {        /* of a program, and the file that its kernels are named after */
    const char *file, *text;
};
/* How long a call may wait for other threads and the device, and who is asked meanwhile. NULL: as long as it takes. */
struct clcnn_patience {
    /* by clcnn_clock_ms(); TIMEOUT so long after the start; timeout_ms 0: no limit */
    double start_ms, timeout_ms;
    /* asked about every 50 ms by the thread that waits; true: STOPPED. NULL: nobody */
    bool (*stop)(void *with);
    void *with;
    bool loads_only; /* of compiles: BUILD at once where a program has to be built */
    /* of compiles: told what comes next, or that a program is there, `done` of `wanted`. NULL: nobody */
    void (*tell)(void *with, const char *what, int done, int wanted);
    /* of compiles: has up to `most` other processes build programs into a device's disk cache, by clcnn_device_build(); as many
     * as they can. NULL: nobody does */
    void (*build)(void *with, const char *cache_dir, int most, const struct clcnn_source *sources, int count);
};

/* ---- devices -------------------------------------------------------------------------------------------------- */

enum clcnn_device_type { CLCNN_DEVICE_CPU, CLCNN_DEVICE_GPU, CLCNN_DEVICE_ACCELERATOR, CLCNN_DEVICE_OTHER };

/* What a CPU device was measured to take for the layers of clcnn_profile_get(), over what the rules' constants say; 0: not known. One that
 * is nearly 1 changes nothing. */
#define CLCNN_PROFILE_MAX 16
struct clcnn_profile {
    double factor[CLCNN_PROFILE_MAX];
};
/* A square layer by itself: a convolution, or with size 1 a linear layer of one row, by an algorithm. */
struct clcnn_profile_row {
    const char *name, *op, *algo;
    int kernel, channels, filters, size, stride;
};
int clcnn_profile_count(void);
const struct clcnn_profile_row *clcnn_profile_get(int row); /* NULL when out of range */

struct clcnn_device_info {
    int index; /* position over all platforms, as printed by `python -m clcnn devices` */
    enum clcnn_device_type type;
    char name[CLCNN_NAME_MAX], vendor[CLCNN_NAME_MAX], version[CLCNN_NAME_MAX], driver[CLCNN_NAME_MAX];
    char platform[CLCNN_NAME_MAX], platform_version[CLCNN_NAME_MAX];
    uint32_t compute_units, max_clock_mhz, float_width; /* float_width: native vector width in floats */
    uint32_t compute_capability; /* of an NVIDIA GPU: 90 for 9.0; 0 for other devices */
    uint64_t global_mem_bytes, max_alloc_bytes, local_mem_bytes;
    uint64_t cache_bytes; /* of global memory, as the driver tells: on a CPU the last cache; 0: none */
    size_t max_group_size;
    bool host_unified, local_is_dedicated, has_fp64, has_fp16, available;
    char cpu_vendor[16];       /* of a CPU device's processor, as CPUID says: "AuthenticAMD"; else "" */
    uint32_t core_cache_bytes; /* second-level cache of one of a CPU's cores; 0: not known */
    bool byte_products;        /* a CPU adds products of bytes to sums of 32 bits, 64 at once (AVX512-VNNI) */
    bool byte_permutes;        /* and looks up bytes in 128 of them, 64 at once (AVX512-VBMI) */
    bool amx_tiles;    /* a CPU multiplies tiles of bfloat16 and of bytes (AMX), and this process may */
    bool half_vectors; /* a CPU's vectors of float_width floats are computed in two halves */
    struct clcnn_profile profile; /* a plan's; of a device itself: nothing is known */
};

struct clcnn_device_options {
    const char *cache_dir;  /* kernel cache folder (created when missing), NULL = no disk cache */
    const char *kernel_dir; /* read kernel files here instead of the embedded ones; NULL = embedded */
    uint64_t memory_limit;  /* bytes of device memory all buffers together may take, 0 = no limit */
    int build_threads;      /* programs built at once, 0 = number of host cores; by PoCL one */
    int threads;            /* cores of a CPU device that kernels may use, 0 = all */
};

struct clcnn_device;

/* One more driver, by the absolute path of its library: its platforms follow those that the loader knows, and without a
 * loader it is opened in the loader's place. Only before the first use of a device. */
void clcnn_driver_offer(const char *path);
/* Lists devices over all platforms. *out is malloc'd (free() it), in index order. No loader, no platform and platforms
 * without devices give NO_DEVICE with the loader and ICD files that were seen and what to install. */
enum clcnn_status clcnn_device_list(struct clcnn_device_info **out, size_t *count, struct clcnn_err *err);
/* selector: NULL or "" (first GPU, else first CPU, else first), "cpu", "gpu", "accelerator", an index, or a
 * case-insensitive part of device or platform name; "platform:part" restricts to one platform. */
enum clcnn_status clcnn_device_open(struct clcnn_device **out, const char *selector,
                                    const struct clcnn_device_options *options, struct clcnn_err *err);
const struct clcnn_device_info *clcnn_device_get_info(const struct clcnn_device *dev);
struct clcnn_device_stats {
    uint64_t bytes_now, bytes_peak;           /* device memory held by buffers, weights and arenas */
    uint64_t programs_built, programs_loaded; /* from source; from the disk cache */
    uint64_t weights_bytes;                   /* part of bytes_now in the weight store */
    uint64_t live_objects;                    /* OpenCL objects created and not yet released */
};
void clcnn_device_get_stats(struct clcnn_device *dev, struct clcnn_device_stats *out);
enum clcnn_status clcnn_device_finish(struct clcnn_device *dev, struct clcnn_err *err);
/* Makes the programs of the first compile of the last process that called this, until a compile of this one knows what it needs:
 * for a thread beside what leads to it. Never fails. */
void clcnn_device_build_ahead(struct clcnn_device *dev);
/* Builds a program and keeps it in the disk cache, for a process that asks for it later (`build` of clcnn_patience). That it
 * does not build is told there. */
enum clcnn_status clcnn_device_build(struct clcnn_device *dev, const struct clcnn_source *source,
                                     struct clcnn_err *err);
void clcnn_device_close(struct clcnn_device *dev); /* idempotent; NULL is fine */
void clcnn_device_free(struct clcnn_device *dev);  /* closes too; all children must be gone */

/* ---- device buffers ------------------------------------------------------------------------------------------- */

struct clcnn_buffer;
enum clcnn_status clcnn_buffer_create(struct clcnn_buffer **out, struct clcnn_device *dev, size_t bytes,
                                      struct clcnn_err *err);
enum clcnn_status clcnn_buffer_write(struct clcnn_buffer *buf, size_t offset, const void *src, size_t bytes,
                                     struct clcnn_err *err); /* blocking */
enum clcnn_status clcnn_buffer_read(struct clcnn_buffer *buf, size_t offset, void *dst, size_t bytes,
                                    struct clcnn_err *err); /* blocking */
size_t clcnn_buffer_bytes(const struct clcnn_buffer *buf);
void clcnn_buffer_close(struct clcnn_buffer *buf);
void clcnn_buffer_free(struct clcnn_buffer *buf);

/* ---- operators (static tables) -------------------------------------------------------------------------------- */

enum clcnn_attr_kind {
    CLCNN_ATTR_INT,
    CLCNN_ATTR_BOOL,
    CLCNN_ATTR_FLOAT,
    CLCNN_ATTR_INTS,
    CLCNN_ATTR_FLOATS,
    CLCNN_ATTR_ENUM
};

struct clcnn_attr_info {
    const char *name, *doc;
    enum clcnn_attr_kind kind;
    bool required;
    double def;          /* INT, BOOL, FLOAT, one-element INTS; an ENUM's index; NaN: an empty list */
    const char *choices; /* ENUM: "nearest|linear" */
    bool clamps;         /* INTS: numbers beyond 32 bits are clamped instead of refused (bounds of a slice) */
    size_t offset;       /* where the core keeps it; of no use to callers */
};
struct clcnn_op_info {
    const char *name, *doc;
    const char *inputs; /* "x w b?": names in order; '?' optional, "xs..." one or more */
    const struct clcnn_attr_info *attrs;
    int attr_count;
};
int clcnn_op_count(void);
const struct clcnn_op_info *clcnn_op_get(int op); /* NULL when out of range */
int clcnn_op_find(const char *name);              /* -1 when unknown */
int clcnn_op_algo_count(int op);
const char *clcnn_op_algo_name(int op, int algo);
/* What an algorithm is. */
struct clcnn_algo_info {
    const char *name, *doc; /* how it computes, in one line */
    const char *devices;    /* where the rules choose it: "any", "CPU devices", "GPUs", "NVIDIA Hopper" ... */
    const char *error_class, *error_bound, *error_rounding; /* as in clcnn_layer_info */
    /* the compute capability of NVIDIA's GPUs that it needs, or a later one (90: this one); 0: none */
    uint32_t compute_capability;
    int effort; /* what a multiply-add of the definition takes, in percent of one of the fastest kernel without transforms */
    bool clblast; /* it needs CLBlast */
    bool blocked; /* it takes or gives channel blocks */
    bool vectors; /* it needs a CPU device with vectors of 8 floats or more, as channel blocks do */
};
bool clcnn_op_algo_get(int op, int algo, struct clcnn_algo_info *info); /* false: there is none */

/* One attribute as given by a caller. INTS also takes `ints` of one element for "the same everywhere". */
struct clcnn_attr {
    const char *name;
    enum clcnn_attr_kind kind; /* INT is accepted for FLOAT, BOOL and INTS */
    int64_t i;
    double f;
    const char *s;
    int n;
    const int64_t *ints;
    const double *floats;
};

/* ---- graphs --------------------------------------------------------------------------------------------------- */

/* Types of elements, in the order of the choices of the operator `cast`. Bool takes a byte, 0 or 1. */
enum clcnn_dtype { CLCNN_FLOAT32, CLCNN_INT64, CLCNN_INT32, CLCNN_BOOL, CLCNN_UINT8, CLCNN_DTYPE_COUNT };
const char *clcnn_dtype_name(enum clcnn_dtype dtype); /* "float32" */
int clcnn_dtype_find(const char *name);               /* -1 when unknown */
size_t clcnn_dtype_bytes(enum clcnn_dtype dtype);     /* of one element */

/* What an array looks like: its dimensions and the type of its elements, float32 when left out. */
struct clcnn_shape {
    int32_t rank;
    int32_t dim[CLCNN_MAX_RANK];
    enum clcnn_dtype dtype;
};

struct clcnn_graph;
enum clcnn_status clcnn_graph_create(struct clcnn_graph **out, struct clcnn_err *err);
void clcnn_graph_free(struct clcnn_graph *graph);
/* Values are small integers. Names must be unique among inputs, constants and states, and among nodes. */
enum clcnn_status clcnn_graph_input(struct clcnn_graph *graph, const char *name,
                                    const struct clcnn_shape *shape, int *value, struct clcnn_err *err);
/* data: C-contiguous elements of shape->dtype, borrowed: it must stay alive and unchanged as long as the graph. */
enum clcnn_status clcnn_graph_constant(struct clcnn_graph *graph, const char *name,
                                       const struct clcnn_shape *shape, const void *data, int *value,
                                       struct clcnn_err *err);
/* An array that outlives runs: of the clcnn_state that a plan is compiled with, by this name. */
enum clcnn_status clcnn_graph_state(struct clcnn_graph *graph, const char *name,
                                    const struct clcnn_shape *shape, int *value, struct clcnn_err *err);
/* A run that commits leaves `value` in the state, which every step and output of that run still finds as it was. At most one each. */
enum clcnn_status clcnn_graph_assign(struct clcnn_graph *graph, int state, int value, struct clcnn_err *err);
/* One bool: a run that finds it false commits nothing. At most one. */
enum clcnn_status clcnn_graph_commit_when(struct clcnn_graph *graph, int value, struct clcnn_err *err);
/* Of a constant: its data, which must be writable and in no other use, may be overwritten by the next compile of the graph,
 * which then needs no copy of it: weights are folded in place, and their pages go back to the system as soon as
 * the device has them. */
enum clcnn_status clcnn_graph_donate(struct clcnn_graph *graph, int value, struct clcnn_err *err);
/* inputs: value ids, -1 for an optional one that is absent. values receives up to max_values output ids. The shape rule
 * of the operator runs here, so a bad node is refused at once, with its name in the message. */
enum clcnn_status clcnn_graph_node(struct clcnn_graph *graph, const char *op, const char *name,
                                   const int *inputs, int input_count, const struct clcnn_attr *attrs,
                                   int attr_count, int *values, int max_values, int *value_count,
                                   struct clcnn_err *err);
enum clcnn_status clcnn_graph_output(struct clcnn_graph *graph, int value, const char *name,
                                     struct clcnn_err *err);
int clcnn_graph_value_count(const struct clcnn_graph *graph);
enum clcnn_status clcnn_graph_value_shape(const struct clcnn_graph *graph, int value,
                                          struct clcnn_shape *shape, struct clcnn_err *err);
/* Appends nodes that compute the gradients of `loss`, float32 of one element, with respect to each of `wrt`, float32 values of any
 * kind: grads[i] has the shape of wrt[i]; -1 where the loss does not depend on it. Nodes are named after those whose gradients
 * they are part of ("conv1:dx"). UNSUPPORTED names an operator on the way that has no gradient; the graph is then unchanged. */
enum clcnn_status clcnn_graph_gradients(struct clcnn_graph *graph, int loss, const int *wrt, int count,
                                        int *grads, struct clcnn_err *err);
struct clcnn_node_info {
    const char *name, *op;
    int input_count, output_count;
    const int *inputs, *outputs;
    double macs; /* multiply-adds */
};
int clcnn_graph_node_count(const struct clcnn_graph *graph);
enum clcnn_status clcnn_graph_node_info(const struct clcnn_graph *graph, int node,
                                        struct clcnn_node_info *info, struct clcnn_err *err);

/* ---- states: arrays that runs read and change ------------------------------------------------------------------ */

struct clcnn_state;
struct clcnn_state_array {
    const char *name;
    struct clcnn_shape shape;
};
/* Arrays of device memory that several plans may read and change; runs on one state take turns. Not initialised. */
enum clcnn_status clcnn_state_create(struct clcnn_state **out, struct clcnn_device *dev,
                                     const struct clcnn_state_array *arrays, int count,
                                     struct clcnn_err *err);
int clcnn_state_count(const struct clcnn_state *state);
const struct clcnn_state_array *clcnn_state_get(const struct clcnn_state *state,
                                                int i);                  /* NULL: out of range */
int clcnn_state_find(const struct clcnn_state *state, const char *name); /* -1: not there */
/* All of array i. They wait for a run in another thread, and block. */
enum clcnn_status clcnn_state_write(struct clcnn_state *state, int i, const void *src,
                                    const struct clcnn_patience *patience, struct clcnn_err *err);
enum clcnn_status clcnn_state_read(struct clcnn_state *state, int i, void *dst,
                                   const struct clcnn_patience *patience, struct clcnn_err *err);
/* Gives the memory back; plans that were compiled with it refuse to run from then on. Waits for a run in another thread. */
enum clcnn_status clcnn_state_close(struct clcnn_state *state, const struct clcnn_patience *patience,
                                    struct clcnn_err *err);
void clcnn_state_free(struct clcnn_state *state); /* after its plans */

/* ---- plans ---------------------------------------------------------------------------------------------------- */

enum clcnn_precision {
    CLCNN_PRECISION_STRICT,
    CLCNN_PRECISION_HIGHEST,
    CLCNN_PRECISION_HIGH,
    CLCNN_PRECISION_MEDIUM
};

/* An algorithm for a layer; for CLCNN_EVERY_LAYER: for all that are not named, where it applies. */
#define CLCNN_EVERY_LAYER "*"
struct clcnn_override {
    const char *layer, *algo;
};
/* What was measured to be fastest for a problem: clcnn_layer_info.key, and the name of an algorithm. */
#define CLCNN_KEY_MAX 256 /* with the terminating zero; what does not fit has no key, "" */
struct clcnn_choice {
    const char *key, *algo;
};
/* What is known of the zeros in the input of a layer with weights, as shares from 0 to 1: of its elements; of the channels of an
 * image that are zero everywhere; of the blocks of 16 channels of a pixel; of the elements of the windows that filters meet; of the
 * channels under a register tile of Winograd's. */
struct clcnn_zeros {
    bool known;
    float element, channel, block, window, tile;
};
struct clcnn_layer_zeros {
    const char *layer;
    struct clcnn_zeros zeros;
};
/* Whether steps run inside one kernel, which saves their launches: where that is faster, never, or wherever the device can. */
enum clcnn_chain { CLCNN_CHAIN_AUTO, CLCNN_CHAIN_OFF, CLCNN_CHAIN_ON };
/* What a plan does to take less memory; memory_limit decides. */
struct clcnn_frugal {
    bool little_scratch;  /* groups that have scratch of their own are fewer */
    bool lent_inputs;     /* steps read them where the caller has them, and they take none but in a copy */
    bool fresh_filters;   /* filters are transformed in every run */
    const bool *kept;     /* but for those of these nodes; NULL: of none */
    uint64_t whole_below; /* with batch_part: all items, once no map that follows takes more bytes */
};
struct clcnn_plan;
struct clcnn_plan_options {
    enum clcnn_precision precision;
    /* bytes of scratch an algorithm may ask for; on GPUs also what other layers need anyway */
    size_t workspace_limit;
    uint64_t memory_limit; /* bytes of arena + weights, 0 = no limit; refused before anything is allocated */
    const struct clcnn_override *overrides;
    int override_count;
    /* in ascending order of keys (strcmp); one that cannot be followed is noted */
    const struct clcnn_choice *wisdom;
    int wisdom_count;
    const struct clcnn_profile *profile;   /* of the device; NULL: the rules' constants stand */
    const struct clcnn_layer_zeros *zeros; /* for choices only: results are right whatever the data */
    int zeros_count;
    bool skip; /* leave zeros out, where algorithms can; false computes them all, for comparison */
    bool fuse; /* run the rewrites (true in use; false to test one operator by itself) */
    enum clcnn_chain chain;
    int batch_part; /* items of a batch that layers compute at a time where they can, a divisor of it; 0: by rule */
    struct clcnn_frugal frugal;
    struct clcnn_state *state; /* has the arrays of the graph's states; NULL: the graph has none */
    /* of the same net at another size, on a CPU device: its algorithms and kernels are taken where they serve, so that none has to
     * be built; NULL: there is none */
    const struct clcnn_plan *like;
    bool quick; /* few and small kernels rather than the fastest ones: for a plan to begin with */
    bool
        guard; /* test mode: no memory is shared, every storage lies between guard bands, all is NaN before a run, and
                    batch strides are larger than the items; clcnn_plan_check_guards() tells what was overwritten */
};

/* The patience's clock is not looked at, but `stop` is: between programs, and while another thread packs weights. */
enum clcnn_status clcnn_plan_compile(struct clcnn_plan **out, struct clcnn_device *dev,
                                     const struct clcnn_graph *graph,
                                     const struct clcnn_plan_options *options,
                                     const struct clcnn_patience *patience, struct clcnn_err *err);
/* Shares programs and weights with its origin; has its own arena, kernels and queue. Waits for no run. UNSUPPORTED for plans that
 * assign states: their runs take turns anyway. */
enum clcnn_status clcnn_plan_clone(struct clcnn_plan **out, struct clcnn_plan *plan, struct clcnn_err *err);
/* Waits for a run in another thread; the plan stays open where the patience ends. */
enum clcnn_status clcnn_plan_close(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                                   struct clcnn_err *err);
void clcnn_plan_free(struct clcnn_plan *plan);
/* Of a closed plan: the device may still be at work on a run that timed out, and read its inputs. */
bool clcnn_plan_left_busy(const struct clcnn_plan *plan);

struct clcnn_io_info {
    const char *name;
    struct clcnn_shape shape;
    int ready; /* of an output: it is whole when so many of the steps have been done */
};
int clcnn_plan_input_count(const struct clcnn_plan *plan);
int clcnn_plan_output_count(const struct clcnn_plan *plan);
const struct clcnn_io_info *clcnn_plan_input(const struct clcnn_plan *plan, int i);
const struct clcnn_io_info *clcnn_plan_output(const struct clcnn_plan *plan, int i);

/* An input or output of a run: host memory (C-contiguous, of its dtype) or a device buffer of the same device. relay: for an
 * output in a buffer, buffers of other devices that get its values too, as soon as the steps that compute it are done. */
struct clcnn_io {
    void *host;
    struct clcnn_buffer *buffer;
    size_t offset; /* bytes, for a buffer */
    struct clcnn_buffer *const *relay;
    int relay_count;
};
/* A run is begin, advance until it is no longer PENDING, and then done. The plan stays locked in between. advance
 * returns at the latest after `slice_ms` (checked between launches; a launch is cut to stay below about 50 ms), so that
 * the caller can look at signals and clocks. cancel waits for what is enqueued and unlocks.
 * Outputs share no memory with inputs or with each other.
 * begin waits for a run in another thread; the patience given to it and to advance is the same, and its clock covers both.
 * borrow: the device may work in the memory of inputs and outputs itself, where it can reach it, until the run is over; such
 * a run must not have a deadline, since after a time-out it would still do so.
 * commit: once all outputs are there, what the graph assigns goes into the states, unless its condition is false; from the first
 * of these steps on nothing stops the others, so that a step is whole or not at all. */
enum clcnn_status clcnn_plan_begin(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                   const struct clcnn_io *outputs, bool borrow, bool commit,
                                   const struct clcnn_patience *patience, struct clcnn_err *err);
/* With a time-out: polls instead of blocking; TIMEOUT when what is enqueued has not finished by then. After TIMEOUT the
 * plan refuses further runs with STATE until the device is done, which may read the inputs until then; closing it then
 * does not block. `stop` is not asked: the caller is. */
enum clcnn_status clcnn_plan_advance(struct clcnn_plan *plan, double slice_ms,
                                     const struct clcnn_patience *patience, struct clcnn_err *err);
void clcnn_plan_cancel(struct clcnn_plan *plan);

struct clcnn_plan_stats {
    /* peak = arena (with workspace) + weights */
    uint64_t arena_bytes, weights_bytes, workspace_bytes, peak_bytes;
    uint64_t live_bytes; /* largest set of activations that live at once: a lower bound for the arena */
    int step_count, chained_steps, launch_count; /* chained: run inside a kernel with others */
    int called; /* 1: runs without a deadline call the chains' code and launch nothing */
    int program_count;
    int shared_ends; /* inputs and outputs that steps use where the caller has them */
    double select_ms, build_ms, weights_ms, warm_ms; /* where compile time went */
};
/* A run found that work-groups of a chain waited for each other in vain; it and all later ones launch every step. */
bool clcnn_plan_left_chains(const struct clcnn_plan *plan);
void clcnn_plan_get_stats(const struct clcnn_plan *plan, struct clcnn_plan_stats *out);

struct clcnn_step_info {
    const char *layer, *op, *algo;
    const char *kernel, *entry; /* file stem and kernel in it; "clblast" and "gemm" for a library call */
    const char *defines;        /* sorted "A=1 B=2", "" for none */
    size_t groups, group_size;
    double macs, bytes; /* multiply-adds; bytes that must be read and written */
};
enum clcnn_status clcnn_plan_step_info(const struct clcnn_plan *plan, int step, struct clcnn_step_info *info,
                                       struct clcnn_err *err);
/* One whole run with events, which commits nothing; start_ns and end_ns (clcnn_plan_stats.step_count of each) count from the first start. */
enum clcnn_status clcnn_plan_profile(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                     const struct clcnn_io *outputs, uint64_t *start_ns, uint64_t *end_ns,
                                     const struct clcnn_patience *patience, struct clcnn_err *err);

/* What was decided for each layer of the rewritten graph. */
struct clcnn_layer_info {
    /* operator, shapes, attributes, epilogue and precision: what the layer's time depends on */
    const char *key;
    const char *layer, *op, *algo, *fused; /* fused: "bias+add+relu", "" for none */
    const char *error_class;               /* "exact", "strict", "highest", "high", "medium" */
    const char *error_bound;               /* "componentwise", "normwise" */
    const char *error_rounding; /* what adds to it: "none", "tf32_parts", "24_bits", "bf16_parts" */
    bool part; /* chosen inside the layer before it (separable: its two convolutions; a second form) */
    struct clcnn_zeros zeros; /* of its input, as far as the caller has told */
    struct clcnn_shape input, output;
    size_t workspace_bytes, weight_bytes;
    double macs;
    int candidate_count;
};
struct clcnn_candidate_info {
    const char *algo;
    /* "chosen", "chosen by override", "chosen by measurement", "rejected", "passed over", "not needed" */
    const char *verdict;
    const char *reason; /* the rule, "" when chosen */
    size_t workspace_bytes;
    double
        effort; /* what it is expected to take, for comparison with the layer's other candidates; 0: not known */
};
int clcnn_plan_layer_count(const struct clcnn_plan *plan);
enum clcnn_status clcnn_plan_layer_info(const struct clcnn_plan *plan, int layer,
                                        struct clcnn_layer_info *info, struct clcnn_err *err);
enum clcnn_status clcnn_plan_candidate_info(const struct clcnn_plan *plan, int layer, int candidate,
                                            struct clcnn_candidate_info *info, struct clcnn_err *err);
/* Rewrites that were applied, one line each ("fold batch_norm bn1 into conv conv1"), layers of two forms, and measured choices
 * that could not be followed. NULL past the end. */
const char *clcnn_plan_rewrite_note(const struct clcnn_plan *plan, int i);
/* Only for plans compiled with guard: OK, or INTERNAL naming the storage that was overrun. */
enum clcnn_status clcnn_plan_check_guards(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                                          struct clcnn_err *err);

/* Version of everything that a cached kernel binary depends on. */
const char *clcnn_version(void);
/* Tells bytes apart, at the speed of memory; not for what somebody may want to forge. */
void clcnn_hash128(uint8_t hash[16], const void *data, size_t bytes);

#endif
