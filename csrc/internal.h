/* internal.h: what the rooms of the core share. Never included by py/. See README.md for the picture. */
#ifndef CLCNN_INTERNAL_H
#define CLCNN_INTERNAL_H

#include "clcnn.h"

/* ---- errors: one idiom ---------------------------------------------------------------------------------------- */

/* Fills err and returns status, so that `return clcnn_fail(err, CLCNN_E_SHAPE, "conv %s: ...", ...)` reads well. */
enum clcnn_status clcnn_fail(struct clcnn_err *err, enum clcnn_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum clcnn_status clcnn_fail_mem(struct clcnn_err *err, size_t bytes); /* HOST_MEM */
/* TRY: run, and leave through the function's single exit `done:` with `st` set when it fails. */
#define TRY(expr)           \
    do {                    \
        st = (expr);        \
        if (st != CLCNN_OK) \
            goto done;      \
    } while (0)

void *clcnn_calloc(size_t count, size_t size); /* checks the product; tests make it fail (CLCNN_FAIL_ALLOC) */
char *clcnn_strdup(const char *s);
/* Grows *items (element size `size`) to hold at least `need`; false when out of memory. */
bool clcnn_grow(void **items, int *capacity, int need, size_t size);
void alloc_trim(void); /* gives the system what malloc() keeps of freed memory, where that can be asked for */
/* Gives the whole pages of a block back to the system. The block stays valid; what is in it is not kept. */
void alloc_drop_pages(void *block, size_t bytes);
void alloc_use_large_pages(void *block,
                           size_t bytes); /* before it is written; fewer misses of address translation */

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof((a)[0])))

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};
void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t bytes);
void sha256_hex(struct sha256 *h, char out[65]);
struct hash128 {
    uint64_t a, b;
};
struct hash128 hash128_bytes(const void *data, size_t bytes); /* fast, not cryptographic: weight identity */
struct hash128 hash128_text(const char *text);

/* map.c: a table from hashes to integers of 0 and above. Starts as zeros. */
struct map {
    struct map_slot *slots;
    size_t capacity, count;
};
bool map_reserve(struct map *m);                            /* room for one more; false when out of memory */
void map_put(struct map *m, struct hash128 key, int value); /* after map_reserve() */
int map_get(const struct map *m, struct hash128 key);       /* -1: not there */
void map_free(struct map *m);

/* ---- shapes --------------------------------------------------------------------------------------------------- */

int64_t shape_count(const struct clcnn_shape *s); /* 1 for rank 0 */
size_t shape_bytes(const struct clcnn_shape *s);
int64_t shape_count_from(const struct clcnn_shape *s, int first); /* product of dim[first..] */
const char *dtype_opencl(enum clcnn_dtype dtype); /* OpenCL C's word: "float", "long", "int", "uchar" */
bool shape_equal(const struct clcnn_shape *a, const struct clcnn_shape *b); /* dimensions alone */
const char *shape_text(const struct clcnn_shape *s, char buf[96]);          /* "[1, 3, 224, 224]" */
/* Rank up to CLCNN_MAX_RANK, every dimension at least 1, fewer than 2^40 elements; `what` names the value in messages. */
enum clcnn_status shape_check(const struct clcnn_shape *s, const char *what, struct clcnn_err *err);

/* ---- operators ------------------------------------------------------------------------------------------------ */

struct ints {
    int32_t n, v[2 * CLCNN_MAX_RANK];
};
struct floats {
    int32_t n;
    float v[CLCNN_MAX_RANK];
};

#define MAX_OUTPUTS 64

/* What a shape rule sees and fills (element types of the outputs follow from op_def.types). Rules also bring attributes into canonical form (kernel_size for every spatial
 * dimension, padding as begins then ends, axes non-negative and sorted), so that algorithms never guess; doing so twice
 * changes nothing. */
struct infer {
    const struct op_def *op;
    const char *layer;
    void *attrs;
    int n_in;
    const struct clcnn_shape *in; /* rank -1: an optional input that is absent */
    int n_out;
    struct clcnn_shape out[MAX_OUTPUTS];
};

struct grad; /* the gradient builder that training adds; vjp is NULL until then */

struct op_def {
    union {
        struct {
            const char *name, *doc, *inputs;
            const struct clcnn_attr_info
                *attrs; /* offsets into the attribute struct: int32_t, float, ints, floats */
            int attr_count;
        };
        struct clcnn_op_info info; /* the same members, as the public interface hands them out */
    };
    size_t attrs_size;
    /* Element types, "b Tfli T > T": a word an input (the last one also for all that follow), then a word an output.
     * f float32, l int64, i int32, b bool: one of these. T: the same type wherever it stands, one of those named with
     * it. An output "?" is left to `infer`. NULL: float32 everywhere. */
    const char *types;
    enum clcnn_status (*infer)(struct infer *in, struct clcnn_err *err);
    enum clcnn_status (*vjp)(struct grad *g);
    double (*macs)(const struct infer *in); /* multiply-adds; NULL: none to speak of */
    int code;   /* rows of a family (element-wise) share functions and differ here */
    bool fuses; /* its algorithms apply an epilogue (bias is the op's own input) */
    bool alias; /* same bytes under another shape (reshape, identity ...): no step when the input is dense */
    bool
        by_item; /* an item (index of dimension 0) of the output comes of that item of the inputs that are no weights */
    bool internal; /* made by rewrites only: clcnn_graph_node() refuses it */
};

extern const struct op_def *const clcnn_ops[]; /* in the order of ops.def, NULL at the end */

enum clcnn_status attrs_set(const struct op_def *op, const char *layer, void *attrs,
                            const struct clcnn_attr *given, int count,
                            struct clcnn_err *err); /* defaults, then given; checks names and kinds */

#include "ops/attrs.h"

/* Whether the pooling's windows lie side by side inside x, the first one at its corner; y is the result. */
bool pool_side_by_side(const struct pool_attrs *a, const struct clcnn_shape *x, const struct clcnn_shape *y);

/* Activations that an epilogue can apply; kernels/activation.clh has the same names (act_relu ...). */
enum act {
#define ACT(name) ACT_##name,
#include "ops/act.def"
#undef ACT
    ACT_COUNT
};
const char *act_identifier(enum act act); /* "act_relu" */
/* The same function as a clip where it is one (none, relu, relu6), so that layers share kernels: sets its limits. */
enum act act_as_clip(enum act act, float *p0, float *p1);
/* Function of an element-wise operator in activation.clh or unary.clh ("act_relu", "act_gelu_tanh"), binary.clh
 * ("bin_add"), or integer.clh ("int_add") for elements that are no floats. */
void eltwise_identifier(char out[40], const struct op_def *op, const void *attrs, enum clcnn_dtype dtype);
/* Whether a node of this operator can become another one's epilogue, and then as what. */
bool act_of_op(const struct op_def *op, const void *attrs, enum act *act, float *p0, float *p1);

/* ---- graph ---------------------------------------------------------------------------------------------------- */

enum value_kind { VALUE_INPUT, VALUE_CONSTANT, VALUE_NODE };

struct value {
    char *name; /* inputs, constants, and outputs of nodes that are graph outputs; else NULL */
    enum value_kind kind;
    struct clcnn_shape shape;
    const void *data; /* constants: borrowed, or `owned` */
    float *owned;     /* made by the rewriter; freed with the graph */
    void *spare;      /* `data` where a compile may overwrite it, see clcnn_graph_spend(); else NULL */
    int producer;     /* node, -1 otherwise */
    int block;        /* physical form, see struct operand; set by the planner */
    int items;        /* its memory holds so many at a time, 0: all; see plan/sections.c */
};

/* y = act(x + bias + add): bias is an input of the op; the rest is what the rewriter fused into the producer. A
 * merged op carries the one of its last convolution. */
struct epilogue {
    int add; /* value added before the activation, -1: none */
    enum act act;
    float p0, p1;
};

struct node {
    char *name;
    const struct op_def *op;
    void *attrs;
    int n_in, n_out;
    int *in, *out;
    struct epilogue epi;
    bool dead;                /* removed by a rewrite */
    int src_block, dst_block; /* forms in which it takes in[0] and gives its outputs; set by the planner */
    bool all_src;             /* every input comes as in[0] does (work on whole items) */
    int items;                /* of the batch that it computes at a time, 0: all; see plan/sections.c */
};

struct graph_output {
    int value;
    char *name;
};

struct clcnn_graph {
    struct value *values;
    struct node *nodes;
    int *inputs; /* values, in order of creation */
    struct graph_output *outputs;
    int n_values, n_nodes, n_inputs, n_outputs;
    int cap_values, cap_nodes, cap_inputs, cap_outputs;
    /* Names in use, which must be unique among inputs and constants, among nodes and among outputs; empty in copies, whose
     * names no one adds to. */
    struct map source_names, node_names, output_names;
};

/* A deep copy that may be rewritten; borrowed weights stay borrowed. */
enum clcnn_status graph_copy(struct clcnn_graph **out, const struct clcnn_graph *src, struct clcnn_err *err);
/* A constant that the graph owns, filled by the caller (rewrites: folded weights). */
enum clcnn_status graph_owned_constant(struct clcnn_graph *g, const struct clcnn_shape *shape, int *value,
                                       struct clcnn_err *err);
/* Appends a node of one input and one output (the planner's reorders). */
enum clcnn_status graph_unary(struct clcnn_graph *g, const struct op_def *op, const char *name, int input,
                              int *value, struct clcnn_err *err);
/* Puts all nodes into a new order: node order[i] becomes node i. */
enum clcnn_status graph_permute(struct clcnn_graph *g, const int *order, int count, struct clcnn_err *err);
/* Shapes of a node's inputs and outputs in the form that shape rules and macs take; free(in->in) after use. */
enum clcnn_status graph_infer(const struct clcnn_graph *g, const struct node *n, struct infer *in,
                              struct clcnn_err *err);
enum clcnn_status graph_check(const struct clcnn_graph *g,
                              struct clcnn_err *err); /* outputs set, no dangling */

struct notes { /* rewrites applied, for people */
    char **line;
    int n, cap;
};
enum clcnn_status notes_add(struct notes *notes, struct clcnn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct rewrite_options {
    const struct clcnn_override
        *overrides; /* a layer whose algorithm is forced is not merged into another op */
    int override_count;
    int block; /* channels of a block of the device, 0: it has none */
};
enum clcnn_status graph_rewrite(struct clcnn_graph *g, const struct rewrite_options *options,
                                struct notes *notes, struct clcnn_err *err);

/* ---- algorithms ----------------------------------------------------------------------------------------------- */

#define SLOT_NONE (-1)

/* One operand of a node, as an algorithm sees it. Elements of one batch item (dim[0]) are dense and in row-major order
 * of dim[1..]; items lie batch_stride elements apart, which may be more than the item (a channel range of a larger
 * root). Rank 0 and 1 are one item. */
struct operand {
    struct clcnn_shape shape;
    int slot; /* handle for step_read() and step_write() */
    int64_t batch_stride;
    bool present, constant;
    bool in_place; /* concat: this input already lies in its range of the output */
    bool half;     /* elements are halves, see HALF_SRC; float32 by shape.dtype all the same */
    int block; /* 0: row-major as above. B = 8 or 16: an item is [ceil(C/B)][spatial...][B], channels innermost in blocks;
                      lanes past C hold anything finite, producers write them, consumers must not let them count */
};
/* Elements of one batch item in the operand's form. */
static inline int64_t operand_item(const struct operand *o)
{
    const struct clcnn_shape *s = &o->shape;
    if (o->block)
        return (s->dim[1] + o->block - 1) / o->block * o->block * shape_count_from(s, 2);
    return s->rank < 2 ? shape_count(s) : shape_count_from(s, 1);
}
static inline bool operand_dense(const struct operand *o)
{
    return o->shape.rank == 0 || o->shape.dim[0] <= 1 || o->batch_stride == operand_item(o);
}
/* Bytes of an element as it is stored. */
static inline size_t operand_elem(const struct operand *o)
{
    return o->half ? sizeof(uint16_t) : clcnn_dtype_bytes(o->shape.dtype);
}
/* Brings an operand without a place yet into a form: dense items of `block` channels, 0: row-major. */
static inline void operand_set_form(struct operand *o, int block)
{
    o->block = block;
    o->batch_stride = operand_item(o);
}

/* Compute units of a device, 1 where the driver tells none. */
static inline size_t device_units(const struct clcnn_device_info *info)
{
    return info->compute_units ? info->compute_units : 1;
}

struct problem {
    const char *layer;
    const struct op_def *op;
    const void *attrs;
    int n_in, n_out;
    const struct operand *in, *out;
    struct operand add; /* epilogue operand; present is false without one */
    enum act act;       /* epilogue activation, ACT_none without one */
    float p0, p1;
    const struct clcnn_device_info *device;
    size_t workspace_limit;
    size_t arena,
        spare; /* bytes that activations take at the plan's largest node, and what is left of them at this one */
    enum clcnn_precision precision;
    bool halves; /* maps between steps are stored as halves where they can be */
    bool has_clblast;
    bool chained;                      /* a step costs a barrier of a chain, not a launch */
    const struct clcnn_choice *wisdom; /* as in clcnn_plan_options */
    int wisdom_count;
    bool forms_open; /* the planner is still free to give the operands another form */
    int block; /* the device's channel block: 16 or 8 on CPU devices by vector width, 0 elsewhere (nothing is blocked) */
};

/* Why an algorithm was not taken. REQUIRE: it cannot; PREFER: it could (an override may force it), but another one is
 * expected to be faster. Both texts are static strings, listed by explain() and counted by a test. */
struct why {
    const char *reason;
    bool passed_over;
};
#define REQUIRE(why, cond, text)        \
    do {                                \
        if (!(cond)) {                  \
            (why)->reason = text;       \
            (why)->passed_over = false; \
            return false;               \
        }                               \
    } while (0)
/* Use after all REQUIREs. */
#define PREFER(why, cond, text)        \
    do {                               \
        if (!(cond)) {                 \
            (why)->reason = text;      \
            (why)->passed_over = true; \
            return false;              \
        }                              \
    } while (0)

/* In the order of rising error; HIGH rounds operands to tf32, for precision "high" and looser ones, MEDIUM to halves, which are as
 * precise and have less range. */
enum error_class { ERROR_EXACT, ERROR_STRICT, ERROR_HIGHEST, ERROR_HIGH, ERROR_MEDIUM };

/* What an algorithm's errors are a small part of: the terms of each value, if it only multiplies and adds what the definition does;
 * or, if it adds up operands before it multiplies, the norms of what it reads for them (README, Precision and determinism). */
enum error_bound { BOUND_COMPONENTWISE, BOUND_NORMWISE };

/* The form in which an algorithm takes in[0] (src), and in which it gives its outputs and takes the epilogue's add (dst).
 * Other inputs are always plain. The planner inserts reorders where forms do not meet. */
enum form {
    FORM_PLAIN,   /* row-major */
    FORM_BLOCKED, /* problem.block channels innermost; rank 3 and 4 */
    FORM_ANY /* works on the bytes of whole items: is shown shapes with the channels rounded up to the block */
};

/* Operands that an algorithm takes as halves, too, where the planner stores maps between steps so (plan/halves.c): in[0], its
 * outputs, the epilogue's add; HALF_SAME: every operand, all in the same form, as it only moves elements. */
enum { HALF_SRC = 1, HALF_DST = 2, HALF_ADD = 4, HALF_SAME = 8, HALF_CONV = HALF_SRC | HALF_DST | HALF_ADD };

struct emit; /* collects step descriptions for one plan */

struct algo_def {
    const char *name, *doc;
    enum error_class error;
    enum error_bound bound;
    bool deterministic;
    enum form src, dst;
    unsigned halves;                                /* HALF_ bits; */
    unsigned (*halves_of)(const struct problem *p); /* where they depend on the problem, else NULL */
    bool (*applicable)(const struct problem *p, struct why *why);
    size_t (*workspace)(
        const struct problem *p); /* bytes; NULL: none. More than workspace_limit rejects it */
    void (*emit)(const struct problem *p,
                 struct emit *e); /* errors stick to e and are reported by the planner */
};
extern const struct algo_def *const
    *const clcnn_algos[]; /* per op, preferred first, NULL at the end of each */
/* What the rules would choose for p: the first algorithm that applies within the limits and is not passed over;
 * NULL when every one is. For merged ops, which win only over what their parts would get. */
const struct algo_def *algo_preferred(const struct problem *p);
unsigned algo_halves(const struct algo_def *algo, const struct problem *p);
unsigned preferred_halves(const struct problem *p); /* of what the rules would choose */

/* ---- step descriptions (plan/emit.c) --------------------------------------------------------------------------- */

#define MAX_STEP_BUFFERS 10
#define MAX_STEP_ARGS 512 /* bytes of the argument block */
#define MAX_DEFINES 24

enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct define {
    char name[24];
    char text[40]; /* an integer or an identifier */
    bool at_least; /* kernels with a larger integer serve too: see blueprint_share_variants() */
};

struct gemm_call { /* C = alpha * op(A) op(B) + beta * C, row major, through CLBlast */
    size_t m, n, k, batch;
    bool trans_a, trans_b;
    float alpha, beta;
    size_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c; /* elements between items of the batch */
    int64_t a_off, b_off, c_off;          /* elements, added to the slots' own offsets */
};

struct step {
    const char *layer, *op, *algo; /* interned by the emit context */
    const char *stem;              /* kernels/<stem>.cl; NULL for a library call */
    const char *entry;             /* kernel name without FN(): "main", "pack" */
    struct define define[MAX_DEFINES];
    int n_defines;
    struct {
        int slot;
        enum access access;
        int64_t offset; /* elements, added to the slot's offset */
    } buffer[MAX_STEP_BUFFERS];
    int n_buffers;
    unsigned char args[MAX_STEP_ARGS]; /* argument block, passed by value after the buffers; 0 bytes: none */
    size_t args_bytes;
    size_t groups, group_size;
    struct gemm_call gemm;
    double macs, bytes;
};

/* Appends a step: kernel kernels/<stem>.cl, entry FN(<entry>), `groups` groups of `group_size` work-items in one
 * dimension. Kernel arguments are, in this order: (global buffer, ulong element offset) for each step_read/step_write in
 * the order of the calls, then the argument block by value. */
struct step *emit_step(struct emit *e, const char *stem, const char *entry, size_t groups, size_t group_size);
void step_define(struct step *s, const char *name, int value);
void step_define_at_least(struct step *s, const char *name, int value);
void step_define_id(struct step *s, const char *name, const char *identifier);
/* Defines `name` as OpenCL's word for the type; nothing for float32, which kernels take when it is missing. */
void step_define_type(struct step *s, const char *name, enum clcnn_dtype dtype);
void step_read(struct step *s, int slot);
void step_write(struct step *s, int slot);
void step_update(struct step *s, int slot);
void step_read_at(struct step *s, int slot, int64_t offset); /* offset in elements */
void step_write_at(struct step *s, int slot, int64_t offset);
/* A map, with X_HALF or Y_HALF of kernels/maps.clh where it is stored as halves (step_epilogue() defines ADD_HALF). */
void step_read_map(struct step *s, const struct operand *x);
void step_write_map(struct step *s, const struct operand *y);
void step_args(struct step *s, const void *block, size_t bytes);
void step_cost(struct step *s, double macs, double bytes);
/* A CLBlast call; slots a and b are read, c is written (read too when beta != 0). */
struct step *emit_gemm(struct emit *e, const struct gemm_call *call, int a, int b, int c);
/* Scratch memory for steps of this layer; its life is the span of steps that use it. */
int emit_workspace(struct emit *e, size_t bytes);
/* The same for `count` elements of a type; offsets into it are counted in them. */
int emit_workspace_of(struct emit *e, enum clcnn_dtype dtype, int64_t count);
/* Counters (uint) that steps leave as they found them: zeros before every run. One that it updates belongs to one step. */
int emit_counters(struct emit *e, size_t count);
/* Memory for what one part of a merged op hands to the next: gives o, whose shape is set, a slot and a batch
 * stride. This is an activation as it would be without the merge, so it is no workspace and workspace_limit does
 * not count it. */
void emit_middle(struct emit *e, struct operand *o);
/* A constant in a layout of its own: a slot of `bytes` in the device's weight store, made once by a setup step and shared
 * by every plan of the device with the same contents and the same `packing` (name with all its parameters). Returns the
 * slot; *setup is the step to fill (it writes the slot: call step_read(constant), then step_write(slot)), or NULL when
 * this constant is packed already. It may read what was packed before, too. */
int emit_packed(struct emit *e, const struct operand *constant, const char *packing, size_t bytes,
                const char *stem, const char *entry, size_t groups, size_t group_size, struct step **setup);
/* Runs another op's algorithms as part of this one (separable = depthwise + 1x1): selects and emits. */
void emit_sub(struct emit *e, const struct problem *p);
/* Defines and buffers of the usual epilogue: EPI_BIAS, EPI_ADD, EPI_ACT; reads bias and add (SLOT_NONE when absent).
 * See kernels/epilogue.clh for the kernel's side. */
void step_epilogue(struct step *s, const struct problem *p, const struct operand *bias);
void emit_fail(struct emit *e, enum clcnn_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}
static inline size_t round_up(size_t a, size_t step)
{
    return ceil_div(a, step) * step;
}
#define GROUP_SIZE 256 /* work-items of a portable kernel's group */
/* The same where any size will do: that of the tiles for tensor cores, so that steps of both kinds share a chain. */
static inline size_t any_group_size(const struct problem *p)
{
    return p->device->compute_capability >= 80 ? GROUP_SIZE / 2 : GROUP_SIZE;
}

#endif
