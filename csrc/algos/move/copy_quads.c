/* copy_quads: the operators that move elements without changing them, on GPUs; see kernels/move/copy_quads.cl. */
#include "algos/common/walk.h"
#include "algos/move/copies.h"

#include <string.h>

static bool walk_copy(const struct strided_args *a, struct walk_args *w)
{
    struct walk_sizes s = {.rank = a->rank, .operands = 2};
    memcpy(s.size, a->size, sizeof s.size);
    for (int i = 0; i < 2; i++)
        memcpy(s.stride[i], a->stride[i].of, sizeof s.stride[i]);
    walk_merge(&s);
    return walk_of(w, &s);
}

static void try_copy(const struct problem *p, void *fits, struct end from, struct end to,
                     struct strided_args *a)
{
    struct walk_args w;
    (void)p, (void)from, (void)to;
    if (!walk_copy(a, &w))
        *(bool *)fits = false;
}

static void emit_copy(const struct problem *p, void *e, struct end from, struct end to,
                      struct strided_args *a)
{
    struct walk_args w;
    walk_copy(a, &w);
    struct step *s = walk_step(e, p, "copy_quads", &w);
    copy_step(s, p, from, to, w.count);
    step_args(s, &w, sizeof w);
}

static bool may_walk(struct why *why, bool fits)
{
    REQUIRE(why, fits, WALK_TOO_LARGE);
    return true;
}

#define QUADS_ALGO(op, text, layout_, fp16_)                              \
    static bool applicable_##op(const struct problem *p, struct why *why) \
    {                                                                     \
        bool fits = true;                                                 \
        op##_copies(p, try_copy, &fits);                                  \
        return may_walk(why, fits);                                       \
    }                                                                     \
    static void emit_##op(const struct problem *p, struct emit *e)        \
    {                                                                     \
        op##_copies(p, emit_copy, e);                                     \
    }                                                                     \
    const struct algo_def algo_##op##_quads = {                           \
        .name = "quads",                                                  \
        .doc = text,                                                      \
        .devices = DEVICES_GPU,                                           \
        .error = ERROR_EXACT,                                             \
        .deterministic = true,                                            \
        .src = layout_,                                                   \
        .dst = layout_,                                                   \
        .fp16 = fp16_,                                                    \
        .applicable = applicable_##op,                                    \
        .emit = emit_##op,                                                \
    };
QUADS_ALGO(concat, "four elements a work-item, of inputs that lie elsewhere", LAYOUT_ANY, FP16_SAME)
QUADS_ALGO(split, "four elements a work-item, one copy an output", LAYOUT_ANY, FP16_SAME)
QUADS_ALGO(slice, "four elements a work-item", LAYOUT_ROW_MAJOR, FP16_SAME)
QUADS_ALGO(transpose, "four elements a work-item", LAYOUT_ROW_MAJOR, 0)
QUADS_ALGO(expand, "four elements a work-item", LAYOUT_ROW_MAJOR, 0)
