/* runtime_private.h: what the files of runtime/ share among themselves; plan/ sees runtime.h only. */
#ifndef CLCNN_RUNTIME_PRIVATE_H
#define CLCNN_RUNTIME_PRIVATE_H

#include "chain/chain_args.h"
#include "runtime/runtime.h"

/* An OpenCL call through the table whose failure is handled on the spot: `code` receives the result. */
#define CL_CODE(code, api, name, ...)          \
    do {                                       \
        (code) = cl_fault(#name);              \
        if ((code) == CL_SUCCESS)              \
            (code) = (api)->name(__VA_ARGS__); \
    } while (0)

void cl_fault_arm(void); /* reads CLCNN_FAULT again; see fault.c */

/* ---- cl.c ------------------------------------------------------------------------------------------------------ */

/* The ICD files that the loader should have seen, for messages: "/etc/OpenCL/vendors: pocl.icd". */
void icd_text(char *out, size_t size);
/* What to do about it: packages to install. */
extern const char *const cl_install_hint;
/* "<prefix>: " in front of the message that is already in err. Returns status. */
enum clcnn_status err_prefix(struct clcnn_err *err, enum clcnn_status status, const char *prefix);

/* ---- driver_offer.c: see clcnn_driver_offer() ------------------------------------------------------------------- */

#define DRIVER_OFFER_MOST 4                       /* platforms of that driver that are listed */
const char *driver_offered(void);                 /* its library; NULL: none */
void driver_offer_open(const struct cl_api *api); /* once, when the loader has been opened */
const char *driver_offer_failure(void);           /* why it does not count; "" */
/* Adds its platforms to the `known` ones, at most DRIVER_OFFER_MOST; how many there are then. */
cl_uint driver_offer_platforms(cl_platform_id *platforms, cl_uint known);

/* ---- processor.c: of this machine's CPU; what is not known is 0 ------------------------------------------------- */

bool processor_halves_vectors(void);
uint32_t processor_cache_bytes(void);
bool processor_has_byte_products(void);
bool processor_has_byte_permutes(void);
bool processor_has_amx_tiles(void);
void processor_vendor(char out[16]);

/* ---- device_list.c --------------------------------------------------------------------------------------------- */

struct device_entry {
    cl_platform_id platform;
    cl_device_id id;
    struct clcnn_device_info info;
};
/* All devices in index order; *out is malloc'd. */
enum clcnn_status device_enumerate(struct device_entry **out, int *count, const struct cl_api *api,
                                   struct clcnn_err *err);
/* The one that the selector names (clcnn_device_open has the rules), or an error that lists them. */
enum clcnn_status device_select(const struct device_entry **out, const struct device_entry *entries,
                                int count, const char *selector, struct clcnn_err *err);

/* ---- context.c ------------------------------------------------------------------------------------------------- */

#define OWN_OBJECTS 3 /* context, queue and dummy: what a device without children holds */
bool device_closed(const struct clcnn_device *dev);
/* Between pin and unpin the context stays, even when another thread closes the device. pin checks as device_enter. */
enum clcnn_status device_pin(struct clcnn_device *dev, struct clcnn_err *err);
void device_unpin(struct clcnn_device *dev);
/* An OpenCL object came to life (+1) or was released (-1). A closed device goes with its last child's object. */
void device_count(struct clcnn_device *dev, int objects);

/* ---- cache.c --------------------------------------------------------------------------------------------------- */

/* The payload stored under the key (64 hexadecimal digits); malloc'd; NULL when there is none or it is damaged. */
void *cache_load(const char *dir, const char *key, size_t *bytes);
void cache_save(const char *dir, const char *key, const void *data, size_t bytes);

/* ---- paste.c --------------------------------------------------------------------------------------------------- */

void text_add(struct text *t, const char *s, size_t n);
void text_print(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What is learned of a kernel file that becomes an instance in a chain. */
struct scan {
    const char *const *entry; /* the kernels that are wanted, one where its body is */
    int n_entries;
    char body[64], scratch[64]; /* the function that it calls, and how many float4 it declares ("": none) */
    char block[64];             /* type of its argument block */
    struct text undefs;         /* lines that undo the file's own macros */
    bool in_kernel, wanted;
    bool keep;    /* wanted kernels stay, */
    bool only_if; /* and do nothing where a word of memory is 0, their first operand */
};
/* Adds a kernel file with its includes; with a scan, without its kernels. depth: 1 for the outermost file. */
enum clcnn_status source_paste(struct text *out, const char *dir, const char *name, struct scan *scan,
                               int depth, struct clcnn_err *err);
/* The operand of a chain's steps that is the address of the word on which a step hangs; 0: on none. */
#define CHAIN_ONLY_IF (MAX_STEP_BUFFERS - 1)
/* What the units have for a file whose text is made by source_chain.c. */
#define CHAIN_FILE "chain"
/* The text of a chain; without variants, of the kernel alone that finds addresses. */
enum clcnn_status chain_source(char **out, const char *kernel_dir, const struct unit *unit,
                               struct clcnn_err *err);
/* The defines of a unit in order of their names: "A=1 B=act_relu". malloc'd, NULL without memory. */
char *unit_defines(const struct unit *unit);

/* ---- ptx.c ----------------------------------------------------------------------------------------------------- */

#define PTX_MARK "//@"
#define PTX_GROUPS "//groups "
#define PTX_LOCAL "//local "
bool ptx_is_marked(const char *source);
/* A binary of a marked source as PTX for the architecture's own instructions; malloc'd, NULL when out of memory. */
unsigned char *ptx_unmarked(const unsigned char *binary, size_t bytes, size_t *out_bytes);

/* ---- addresses.c ----------------------------------------------------------------------------------------------- */

/* Of `count` memory objects, by a program that has the kernel of kernels/chain/chain_table.clh. */
enum clcnn_status addresses_find(cl_ulong *out, const cl_mem *mem, int count, struct clcnn_device *dev,
                                 struct program *program, struct clcnn_err *err);

/* ---- program_build.c ------------------------------------------------------------------------------------------- */

struct program {
    struct program *next; /* of the device, youngest first */
    cl_program program;
    char key[65], file[64];
    int refs;
    bool from_source, saved;
};
/* SHA-256 over everything that the binary of a source depends on, hexadecimal. */
void program_key(char key[65], const struct clcnn_device *dev, const char *source);
enum clcnn_status program_from_source(struct program *p, struct clcnn_device *dev, const struct unit *unit,
                                      const char *source, struct clcnn_err *err);
/* True when the disk cache had a binary and the driver took it. */
bool program_from_cache(struct program *p, struct clcnn_device *dev);

/* ---- program_binary.c ------------------------------------------------------------------------------------------ */

/* The binary of a program that has one device; malloc'd, NULL when the driver gives none. */
unsigned char *program_binary(const struct clcnn_device *dev, cl_program program, size_t *bytes);
/* A program of that binary; NULL where the driver refuses it. */
cl_program program_of_binary(struct clcnn_device *dev, const unsigned char *binary, size_t bytes);

/* ---- program_bitcode.c ----------------------------------------------------------------------------------------- */

/* p->program, which has its source, is built by way of LLVM's bitcode, which the disk cache then has. False where that
 * cannot be: then the program is as it was. */
bool program_by_bitcode(struct program *p, struct clcnn_device *dev);

/* ---- program.c ------------------------------------------------------------------------------------------------- */

void programs_drop_idle(struct clcnn_device *dev, int keep); /* all but the `keep` youngest without a user */
/* Makes a program that nobody asks for yet, unless it is there. file: what its kernels are named after; saved: into the
 * disk cache at once. */
void program_make_idle(struct clcnn_device *dev, const char *file, char *source, bool saved);

/* ---- ahead_list.c ---------------------------------------------------------------------------------------------- */

/* Before a compile looks for its programs: waits for the one that is being made ahead, the last then. */
void ahead_wait(struct clcnn_device *dev);
void ahead_note(struct clcnn_device *dev, const char *file, const char *source);

/* ---- build_error.c --------------------------------------------------------------------------------------------- */

/* BUILD, with kernel, options and log. */
enum clcnn_status build_fail(struct clcnn_err *err, const struct clcnn_device *dev, cl_program program,
                             const struct unit *unit, cl_int code);

/* ---- driver.c -------------------------------------------------------------------------------------------------- */

const char *driver_build_options(const struct clcnn_device *dev);
size_t driver_local_bytes(const struct clcnn_device *dev, cl_ulong reported); /* of a kernel */
uint64_t driver_local_limit(const struct clcnn_device *dev);
/* Groups of a chain's kernel, of so many work-items and bytes of local memory, that a multiprocessor surely holds at once. */
size_t driver_resident(const struct clcnn_device *dev, size_t group_size, uint64_t local);
bool driver_works_in_place(const struct clcnn_device *dev); /* so that nobody need map what it has written */
bool driver_wakes_late(const struct clcnn_device *dev);     /* whoever waits for a kernel */
bool driver_waits_for_maps(const struct clcnn_device *dev);
bool driver_builds_singly(const struct clcnn_device *dev); /* whatever the threads */
bool driver_keeps_kernels(const struct clcnn_device *dev); /* itself, from one process to the next */
bool driver_takes_bitcode(const struct clcnn_device *dev); /* and finds its kernels sooner than by a source */

/* ---- launch.c -------------------------------------------------------------------------------------------------- */

/* Enqueues groups [first, first + groups) of a launch; a library call is always whole. Errors name the layer. */
enum clcnn_status launch_enqueue(const struct launch *l, struct clcnn_device *dev, cl_command_queue queue,
                                 size_t first, size_t groups, cl_event *event, struct clcnn_err *err);

/* ---- crew.c ---------------------------------------------------------------------------------------------------- */

typedef void chain_walk_fn(const struct chain_walk *walk, void *scratch);
struct crew_job { /* the walk of `walk.parts` work-groups of a chain */
    chain_walk_fn *code;
    struct chain_walk walk;
    char *scratch;
    size_t scratch_each; /* bytes of a work-group */
};
/* So many threads at most; NULL without memory. */
struct crew *crew_create(int helpers);
void crew_free(struct crew *c);
/* Walks in the caller's thread, and in those of the crew unless another run has it; c may be NULL. */
void crew_run(struct crew *c, const struct crew_job *job);

/* ---- chain.c --------------------------------------------------------------------------------------------------- */

struct chain_code {      /* the chain's machine code in this process, which needs no launch */
    chain_walk_fn *walk; /* NULL: it is not known, */
    void *library;       /* and then this, which holds it, too */
    char *scratch;       /* of each work-group */
    size_t scratch_each;
    i64 steps, counters;                          /* where they are; */
    i64 own[CHAIN_MEMORIES], now[CHAIN_MEMORIES]; /* and the memory that moves: the plan's, and this run's */
    bool clean;                                   /* all counters hold zeros */
};
struct chain {
    cl_kernel kernel;
    struct memory table, counters;
    const struct launch *first; /* launch of table entry 0 */
    int count, enqueued;        /* steps; how many of them in this run, wholly */
    int set, slice_set;         /* of counters: in this run, and of the slice that was enqueued last */
    cl_int range[5];            /* the kernel's arguments now: set, first, past, low, high; -1: none yet */
    size_t members, group_size; /* work-groups of the kernel, and their work-items */
    size_t counter_bytes;       /* of all counters; the mark follows */
    cl_int bound;               /* looks */
    cl_mem *used;               /* memory that steps were bound to, */
    int n_used, cap_used;
    /* and such that chain_set_memory() may replace: parameters of the kernel */
    cl_mem moving[CHAIN_MEMORIES];
    int n_moving;
    struct chain_code code; /* chain_call.c */
};
void chain_code_free(struct chain_code *code);
int chain_find(const cl_mem *all, int count, cl_mem mem); /* index; -1: it is not there */
/* Before the first launch of a chain in a run. */
enum clcnn_status chain_begin(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                              struct clcnn_err *err);
/* Enqueues `count` launches of the chain from `from` on as one. event: NULL, or where its event goes. */
enum clcnn_status chain_enqueue(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                                const struct launch *from, int count, cl_event *event, struct clcnn_err *err);
/* Enqueues groups [first, first + groups) of one launch of the chain. */
enum clcnn_status chain_enqueue_slice(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                                      const struct launch *l, size_t first, size_t groups,
                                      struct clcnn_err *err);

/* What the kernel tells of its code; the chain must have run. */
enum clcnn_status chain_ask(struct chain_told *told, struct chain *c, struct clcnn_device *dev,
                            struct clcnn_err *err);
/* Runs `count` launches of the chain from `from` on, of each the groups [low, high), before it returns. cost: of all these. */
void chain_call(struct chain *c, struct clcnn_device *dev, const struct launch *from, int count, i32 low,
                i32 high, double cost);

/* ---- queue.c, transfer.c --------------------------------------------------------------------------------------- */

struct chunk {
    cl_event done;
    double cost, start_ms;
    int relayed; /* pieces of relays that were asked for by its end */
};

/* Host memory that the device reaches by itself, for copies of other host memory. */
struct pinned {
    cl_mem mem;
    char *at;
    size_t bytes;
    size_t used; /* by writes that may still be under way */
    bool refused;
};

struct queue {
    struct clcnn_device *dev;
    struct pinned pinned;
    cl_command_queue cl;
    const struct launch *launches;
    int count, next; /* next launch, and its next group */
    size_t group;
    queue_fn *then; /* after the last one; NULL: nothing is left to do */
    void *then_with;
    queue_passed_fn *passed; /* see queue_tell(); NULL: nobody is told */
    void *passed_with;
    const struct chain *chain; /* that was begun last in this walk */
    struct chunk chunk[2];     /* outstanding, oldest first */
    int chunks;
    cl_event last;     /* of the walk's last kernel, where the host watches for it; NULL: elsewhere */
    double rate;       /* cost units per ms */
    double last_done;  /* when the previous chunk had finished */
    bool stuck;        /* timed out; chunk[chunks - 1] tells when it is over */
    bool whole, broke; /* see queue_keep_whole() */
    cl_mem
        counters; /* that launches leave as the next run needs them, when all of a walk have run; NULL: none */
    size_t counters_at, counters_bytes;
    bool uncounted;        /* they may hold something else */
    bool calls;            /* every launch is of a chain whose code the host can call, */
    bool calling;          /* and does in this walk */
    bool sent;             /* transfers may be under way */
    bool polls;            /* this walk has a deadline */
    struct relays *relays; /* NULL: none yet */
};

/* ---- relay.c: in walks without a deadline ----------------------------------------------------------------------- */

int queue_relayed(const struct queue *q); /* pieces that were asked for in this run */
/* Sends the first so many of them on, as they come. */
enum clcnn_status queue_relay_serve(struct queue *q, int pieces, struct clcnn_err *err);
void queue_relay_cancel(struct queue *q);      /* waits for what is under way, and forgets the rest */
void relays_free(struct queue *q, bool leave); /* leave: what the driver knows of */

void queue_drop_event(struct queue *q, cl_event event);
/* At the start of a walk. */
enum clcnn_status queue_clear_counters(struct queue *q, struct clcnn_err *err);
/* transfer.c: such memory, mapped by the queue `cl`; *p stays as it is where that fails. */
enum clcnn_status pinned_map(struct pinned *p, struct clcnn_device *dev, cl_command_queue cl,
                             cl_map_flags flags, size_t bytes, struct clcnn_err *err);
void pinned_unmap(struct pinned *p, struct clcnn_device *dev, cl_command_queue cl); /* if it is */
/* Whatever was enqueued has finished. */
static inline void queue_is_idle(struct queue *q)
{
    q->pinned.used = 0;
}

#endif
