/* algo.h: what an algorithm is: one way to compute an operator, when it applies, its scratch and its steps. */
#ifndef CLCNN_ALGOS_ALGO_H
#define CLCNN_ALGOS_ALGO_H

#include <string.h>

#include "base/device_traits.h"
#include "ops/op.h"

/* One operand of a node, as an algorithm sees it. Elements of one batch item (dim[0]) are dense and in row-major order
 * of dim[1..]; items lie batch_stride elements apart, which may be more than the item (a channel range of a larger
 * storage). Rank 0 and 1 are one item. */
struct operand {
    struct clcnn_shape shape;
    int view; /* handle for step_read() and step_write() */
    int64_t batch_stride;
    bool present, constant;
    bool
        in_place; /* concat: this input is a view of the output already; split: this output is one of the input */
    /* On channel blocks: it is the channels from `first` on of a map of `of` channels; of 0: it is a map. Only algorithms called
     * `channels` see such operands, and only as inputs. */
    int first, of;
    /* Weights of a transposed convolution at stride 1, [C][K/groups][taps], to be read as those of the convolution that computes
     * the same: channels and filters exchanged, taps from the last to the first. For algorithms that say `turned`. */
    bool turned;
    bool fp16; /* elements are halves, see FP16_SRC; float32 by shape.dtype all the same */
    /* not 0: halves in cores (kernels/common/cores.clh), each value times this power of two; float32 by shape.dtype all the same */
    float cores;
    bool pairs; /* of such a map: each value is two halves */
    int block; /* 0: row-major as above. B = 8 or 16: an item is [ceil(C/B)][spatial...][B], channels innermost in blocks;
                      lanes past C hold anything finite, producers write them, consumers must not let them count */
};
/* Elements of one batch item in the operand's layout. */
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
    return o->fp16 ? sizeof(uint16_t) : clcnn_dtype_bytes(o->shape.dtype);
}
/* Gives an operand that has no view yet a layout: dense items of `block` channels, 0: row-major. */
static inline void operand_set_layout(struct operand *o, int block)
{
    o->block = block;
    o->batch_stride = operand_item(o);
}

/* What an algorithm has decided in applicable(), a tile say, for its workspace() and emit(): a struct of its own, which no one
 * else looks at. */
#define DECISION_BYTES 128
struct decision {
    unsigned char bytes[DECISION_BYTES];
};
/* Keeps `what`, a variable. Use before the first PREFER: what is passed over may be forced. */
#define DECIDE(p, what)                                                                  \
    do {                                                                                 \
        _Static_assert(sizeof(what) <= DECISION_BYTES, "a decision must fit its block"); \
        memcpy((p)->decision->bytes, &(what), sizeof(what));                             \
    } while (0)
/* Fills `what` with what was kept. */
#define DECIDED(p, what) memcpy(&(what), (p)->decision->bytes, sizeof(what))

struct problem {
    const char *layer;
    const struct op_def *op;
    const void *attrs;
    int n_in, n_out;
    const struct operand *in, *out;
    struct operand add; /* epilogue operand; present is false without one */
    bool times;         /* it is not added before the activation, but multiplied after it */
    enum act act;       /* epilogue activation, ACT_none without one */
    float p0, p1;
    const struct clcnn_device_info *device;
    size_t workspace_limit;
    /* bytes that activations take at the plan's largest node, and what is left of them at this one */
    size_t arena, spare;
    enum clcnn_precision precision;
    bool fp16_activations; /* maps between steps are stored as halves where they can be */
    bool little_scratch;   /* groups that have scratch of their own are few */
    bool
        fresh_filters; /* what is made of filters is made in every run, not kept, where it takes more memory */
    struct clcnn_zeros
        zeros; /* of in[0], where they are known; what pays only where they are many needs that */
    bool
        rectified; /* in[0] comes out of a ReLU, as far as the graph tells: it has zeros that are worth looking for */
    bool few_bits; /* in[0] and in[1] are whole numbers of at most 256 in size, as far as the graph tells */
    bool skip;     /* zeros of operands may be left out */
    bool
        quick; /* kernels that are soon built rather than fast: as small as they can be, and one for all layers */
    bool
        rows_elsewhere; /* of a quick plan: it has linear layers of several rows, whose kernels take one row too */
    bool has_clblast;
    bool in_commit;                    /* results lie where inputs do, and are written in a commit, */
    int when;                          /* if the bool of this view holds; VIEW_NONE: in any case */
    bool chained;                      /* a step costs a barrier of a chain, not a launch */
    const struct clcnn_choice *wisdom; /* as in clcnn_plan_options */
    int wisdom_count;
    const struct blueprint *like; /* of a plan whose kernels serve this one too, where they can; NULL: none */
    bool layouts_open;            /* the planner is still free to give the operands another layout, */
    bool wants_blocks;            /* and whatever reads the result has algorithms on channel blocks */
    struct decision *decision;    /* of the algorithm that is asked; parts of a merged layer share it */
    bool *asked; /* algo_preferred() sets it: its answer depends on the layouts; NULL: no one wants to know */
    int block; /* the device's channel block: 16 or 8 on CPU devices by vector width, 0 elsewhere (nothing is blocked) */
};

/* EPI_ADD of kernels/common/epilogue.clh: 0, 1: added, 2: multiplied. */
static inline int epilogue_add(const struct problem *p)
{
    return p->add.present ? p->times ? 2 : 1 : 0;
}

/* A define that a kernel must have to serve; where kernels with larger values serve too, at least this one. */
struct kernel_define {
    const char *name;
    int value;
};
/* plan/like.c: whether the plan that this one is to be like has such a kernel; true where it is to be like none. */
bool kernel_known(const struct problem *p, const char *file, const char *entry,
                  const struct kernel_define *wanted, int n);

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
 * or, if it adds up operands before it multiplies, the norms of what it reads for them (docs/precision.md). */
enum error_bound { BOUND_COMPONENTWISE, BOUND_NORMWISE };

/* What an algorithm does to operands that adds to its bound, beside what its error class says: float32 cut into two tf32 values,
 * of whose products three are taken; weights rounded to 24 bits; float32 as three values of bfloat16, which are normal numbers. */
enum error_rounding { ROUNDING_NONE, ROUNDING_TF32_PARTS, ROUNDING_24_BITS, ROUNDING_BF16_PARTS };

/* The layout in which an algorithm takes in[0] (src) and in[1] (second: row-major or blocked), and in which it gives its outputs
 * and takes the epilogue's add (dst). Other inputs are always row-major. The planner inserts reorders where layouts do not meet. */
enum operand_layout {
    LAYOUT_ROW_MAJOR,
    LAYOUT_BLOCKED, /* problem.block channels innermost; rank 3 and 4 */
    LAYOUT_ANY, /* works on the bytes of whole items: is shown shapes with the channels rounded up to the block */
    /* Element-wise: takes maps in channel blocks where one of them lies so, else row-major, and is told by out[0].block; operands
     * that are broadcast lie as operand_part() tells. */
    LAYOUT_FOLLOWS
};

/* Operands that an algorithm takes as halves, too, where the planner stores maps between steps so (plan/fp16_activations.c): in[0], its
 * outputs, the epilogue's add; FP16_SAME: every operand, all stored alike, as it only moves elements. */
enum { FP16_SRC = 1, FP16_DST = 2, FP16_ADD = 4, FP16_SAME = 8, FP16_CONV = FP16_SRC | FP16_DST | FP16_ADD };
/* The same of halves in cores (plan/maps_in_cores.c). */
enum { CORES_SRC = 1, CORES_DST = 2, CORES_PAIRS = 4 /* they are pairs */ };

struct emit; /* collects step descriptions for one plan */

/* Where the rules choose an algorithm. Forced, it runs wherever it applies. */
enum algo_devices { DEVICES_ANY, DEVICES_CPU, DEVICES_GPU, DEVICES_AMPERE, DEVICES_HOPPER };

struct algo_def {
    const char *name, *doc;
    enum algo_devices devices;
    bool clblast; /* it needs CLBlast */
    bool
        vectors; /* it needs problem.block: vectors of channels, or as wide ones of row-major operands; said of the latter, as the
                     layouts below tell of the others */
    enum error_class error;
    enum error_bound bound;
    enum error_rounding rounding;
    bool deterministic;
    bool turned; /* it takes weights that are turned (struct operand) */
    bool
        quick; /* where a plan is to be built soon (problem.quick) it is taken before all others: it has one small kernel for all
                    layers then */
    /* each element of the result is stored once, by whoever has read the one of problem.add, or of step_read_in_place(), just
     * before: both may lie in one place */
    bool stores_in_place;
    bool apart; /* of a merged layer: its parts, as they would be computed without the merge */
    /* what a multiply-add of the definition takes, in percent of one of the fastest kernel without transforms; 0: 100 */
    int effort;
    /* the same for a problem to which it applies; NULL: `effort`, on CPU devices, where that was measured */
    double (*effort_of)(const struct problem *p);
    enum operand_layout src, second, dst;
    unsigned fp16;                                 /* FP16_ bits; */
    unsigned (*fp16_of)(const struct problem *p);  /* where they depend on the problem, else NULL */
    unsigned cores;                                /* CORES_ bits, */
    unsigned (*cores_of)(const struct problem *p); /* likewise */
    /* It and workspace() are asked once, before it is known where operands lie and in which layout: they do not look at
     * view, block and in_place, and at batch_stride only to see how items lie that are not dense. One that must know the layout of
     * in[0], which the planner settles first, says so by *asked and is asked again. */
    bool (*applicable)(const struct problem *p, struct why *why);
    /* bytes; NULL: none. More than workspace_limit rejects it */
    size_t (*workspace)(const struct problem *p);
    /* errors stick to e and are reported by the planner */
    void (*emit)(const struct problem *p, struct emit *e);
};
int algo_effort(const struct algo_def *a);
/* Names of the classes, as people read them. */
const char *error_class_name(enum error_class error);
const char *error_bound_name(enum error_bound bound);
const char *error_rounding_name(enum error_rounding rounding);

/* The algorithms of an operator, preferred first, NULL at the end. */
const struct algo_def *const *op_algos(const struct op_def *op);

/* Every algorithm by itself: algo_conv_direct ... */
#define OP(name)
#define ALGO(op, name) extern const struct algo_def algo_##op##_##name;
#include "ops.def"
#undef OP
#undef ALGO
/* of all element-wise operators */
extern const struct algo_def algo_unary_vector, algo_unary_quads, algo_unary_ref;
extern const struct algo_def algo_binary_vector, algo_binary_quads, algo_binary_ref;

/* What the rules would choose for p: the first algorithm that applies within the limits and is not passed over;
 * NULL when every one is. For merged ops, which win only over what their parts would get. */
const struct algo_def *algo_preferred(const struct problem *p);
/* The effort, on p, of the algorithm that would be preferred if nothing were known of zeros; not for algorithms that
 * themselves are preferred then. */
double algo_effort_if_unknown(const struct problem *p);
unsigned algo_fp16(const struct algo_def *algo, const struct problem *p);
unsigned algo_cores(const struct algo_def *algo, const struct problem *p);
unsigned preferred_fp16(const struct problem *p); /* of what the rules would choose */

#define GROUP_SIZE 256 /* work-items of a portable kernel's group */
/* The same where any size will do: that of the tiles for tensor cores, so that steps of both kinds share a chain. */
static inline size_t any_group_size(const struct problem *p)
{
    return device_traits(p->device).tensor_cores ? GROUP_SIZE / 2 : GROUP_SIZE;
}

#endif
