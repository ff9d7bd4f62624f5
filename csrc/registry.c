/* registry.c: ops.def and ops/eltwise.def as tables: every operator, and for each its algorithms. */
#include <string.h>

#include "algos/algo.h"

/* The element-wise families share their algorithms; vectors are of floats. */
#define UNARY(name, activation, attributes, count, types, doc) \
    OP(name) FAMILY(name, unary, vector) FAMILY(name, unary, quads) FAMILY(name, unary, ref)
#define BINARY(name, attributes, count, types, doc) \
    OP(name) FAMILY(name, binary, vector) FAMILY(name, binary, quads) FAMILY(name, binary, ref)
#define UNARY_BOOL(name, activation, attributes, count, types, doc) \
    OP(name) FAMILY(name, unary, quads) FAMILY(name, unary, ref)
#define BINARY_BOOL(name, attributes, count, types, doc) \
    OP(name) FAMILY(name, binary, quads) FAMILY(name, binary, ref)

const struct op_def *const clcnn_ops[] = {
#define OP(name) &op_##name,
#define ALGO(op, name)
#define FAMILY(op, family, name)
#include "ops.def"
#include "ops/eltwise.def"
#undef OP
#undef ALGO
#undef FAMILY
    NULL,
};

/* All lists of algorithms in a row. The NULL that opens an operator's list closes the one before. */
enum {
#define OP(name) LIST_##name,
#define ALGO(op, name) LIST_##op##_HOLDS_##name,
#define FAMILY(op, family, name) LIST_##op##_HOLDS_##family##_##name,
#include "ops.def"
#include "ops/eltwise.def"
#undef OP
#undef ALGO
#undef FAMILY
};

static const struct algo_def *const lists[] = {
#define OP(name) NULL,
#define ALGO(op, name) &algo_##op##_##name,
#define FAMILY(op, family, name) &algo_##family##_##name,
#include "ops.def"
#include "ops/eltwise.def"
#undef OP
#undef ALGO
#undef FAMILY
    NULL,
};

static const struct algo_def *const *const algos_of[] = {
#define OP(name) &lists[LIST_##name + 1],
#define ALGO(op, name)
#define FAMILY(op, family, name)
#include "ops.def"
#include "ops/eltwise.def"
#undef OP
#undef ALGO
#undef FAMILY
};

int clcnn_op_count(void)
{
    return COUNT_OF(clcnn_ops) - 1;
}

const struct clcnn_op_info *clcnn_op_get(int op)
{
    return op >= 0 && op < clcnn_op_count() ? &clcnn_ops[op]->info : NULL;
}

int clcnn_op_find(const char *name)
{
    for (int op = 0; clcnn_ops[op]; op++) {
        if (strcmp(clcnn_ops[op]->name, name) == 0)
            return op;
    }
    return -1;
}

const struct algo_def *const *op_algos(const struct op_def *op)
{
    int index = 0;

    while (clcnn_ops[index] != op)
        index++;
    return algos_of[index];
}

int op_algo_find(const struct op_def *op, const char *name)
{
    const struct algo_def *const *algos = op_algos(op);

    for (int i = 0; algos[i]; i++) {
        if (strcmp(algos[i]->name, name) == 0)
            return i;
    }
    return -1;
}

int clcnn_op_algo_count(int op)
{
    int count = 0;

    if (op < 0 || op >= clcnn_op_count())
        return 0;
    while (algos_of[op][count])
        count++;
    return count;
}

const char *clcnn_op_algo_name(int op, int algo)
{
    return algo >= 0 && algo < clcnn_op_algo_count(op) ? algos_of[op][algo]->name : NULL;
}

const char *error_class_name(enum error_class error)
{
    static const char *const names[] = {
        [ERROR_EXACT] = "exact", [ERROR_STRICT] = "strict", [ERROR_HIGHEST] = "highest",
        [ERROR_HIGH] = "high",   [ERROR_MEDIUM] = "medium",
    };
    return names[error];
}

const char *error_bound_name(enum error_bound bound)
{
    static const char *const names[] = {
        [BOUND_COMPONENTWISE] = "componentwise",
        [BOUND_NORMWISE] = "normwise",
    };
    return names[bound];
}

const char *error_rounding_name(enum error_rounding rounding)
{
    static const char *const names[] = {
        [ROUNDING_NONE] = "none",
        [ROUNDING_TF32_PARTS] = "tf32_parts",
        [ROUNDING_24_BITS] = "24_bits",
        [ROUNDING_BF16_PARTS] = "bf16_parts",
    };
    return names[rounding];
}

int algo_effort(const struct algo_def *a)
{
    return a->effort ? a->effort : 100;
}

bool clcnn_op_algo_get(int op, int algo, struct clcnn_algo_info *info)
{
    static const char *const devices[] = {
        [DEVICES_ANY] = "any",
        [DEVICES_CPU] = "CPU devices",
        [DEVICES_GPU] = "GPUs",
        [DEVICES_AMPERE] = "NVIDIA GPUs from Ampere on",
        [DEVICES_HOPPER] = "NVIDIA Hopper",
    };
    static const uint32_t capability[] = {[DEVICES_AMPERE] = 80, [DEVICES_HOPPER] = 90};

    if (algo < 0 || algo >= clcnn_op_algo_count(op))
        return false;
    const struct algo_def *a = algos_of[op][algo];
    const bool blocked = a->src == LAYOUT_BLOCKED || a->second == LAYOUT_BLOCKED ||
                         a->dst == LAYOUT_BLOCKED || a->src == LAYOUT_FOLLOWS;
    *info = (struct clcnn_algo_info){
        .name = a->name,
        .doc = a->doc,
        .devices = devices[a->devices],
        .error_class = error_class_name(a->error),
        .error_bound = error_bound_name(a->bound),
        .error_rounding = error_rounding_name(a->rounding),
        .compute_capability = capability[a->devices],
        .effort = algo_effort(a),
        .clblast = a->clblast,
        .blocked = blocked,
        .vectors = blocked || a->vectors,
    };
    return true;
}
