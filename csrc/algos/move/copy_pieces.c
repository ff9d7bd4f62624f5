/* copy_pieces: concat and split by one launch for all pieces, on GPUs; see kernels/move/copy_pieces.cl. */
#include "algos/common/walk.h"
#include "algos/move/copies.h"
#include "move/move_args.h"

enum { VECTOR = 4 };

/* A step that is being put together. */
struct gathering {
    struct emit *e;                     /* NULL: only what fits is asked */
    int one, many[COPY_PIECES], pieces; /* views, and how many of the latter */
    struct pieces_args a;
    bool join, fits;
};

static void begin(struct gathering *g)
{
    g->pieces = 0;
    g->a = (struct pieces_args){0};
    for (int k = 0; k < COPY_PIECES; k++)
        g->a.first[k] = INT32_MAX;
}

/* Emits the step, if there is anything to do, and begins another one. */
static void finish(struct gathering *g, const struct problem *p)
{
    const size_t wg = any_group_size(p);
    if (g->pieces > 0 && g->e) {
        struct step *s = emit_step(g->e, "copy_pieces", "main", ceil_div((size_t)g->a.past, wg), wg);
        for (int k = 0; k < COPY_PIECES; k++)
            (g->join ? step_read : step_write)(s, k < g->pieces ? g->many[k] : VIEW_NONE);
        (g->join ? step_write : step_read)(s, g->one);
        step_define(s, "JOIN", g->join);
        copy_cost(s, p, (int64_t)g->a.past * VECTOR);
        step_args(s, &g->a, sizeof g->a);
    }
    begin(g);
}

/* Whether rows of whole vectors lie as far apart as a number of 32 bits tells. */
static bool in_vectors(const struct strided_args *a)
{
    const int last = a->rank - 1;
    bool fits = a->rank <= 3 && a->size[last] % VECTOR == 0;
    for (int i = 0; i < 2; i++)
        fits = fits && a->stride[i].of[last] == 1 && (last == 0 || a->stride[i].of[last - 1] <= INT32_MAX);
    return fits;
}

static void add_piece(const struct problem *p, void *to, struct end from, struct end y,
                      struct strided_args *v)
{
    struct gathering *g = to;
    const struct end *one = g->join ? &y : &from, *many = g->join ? &from : &y;
    const int at_one = g->join, at_many = !g->join;
    struct pieces_args *a = &g->a;
    strided_merge(v, 2);
    g->fits = g->fits && in_vectors(v);
    if (!g->fits)
        return;
    if (g->pieces == COPY_PIECES)
        finish(g, p);
    const int last = v->rank - 1, row = last - 1, outer = last - 2, k = g->pieces++;
    const int32_t rows = row >= 0 ? v->size[row] : 1, items = outer >= 0 ? v->size[outer] : 1;
    const int64_t past = a->past + (int64_t)items * rows * (v->size[last] / VECTOR);
    g->fits = past < INT32_MAX;
    g->one = one->view;
    g->many[k] = many->view;
    a->one_at[k] = one->offset;
    a->one_n[k] = outer >= 0 ? v->stride[at_one].of[outer] : 0;
    a->many_n[k] = outer >= 0 ? v->stride[at_many].of[outer] : 0;
    a->one_row[k] = row >= 0 ? (i32)v->stride[at_one].of[row] : 0;
    a->many_row[k] = row >= 0 ? (i32)v->stride[at_many].of[row] : 0;
    a->rows[k] = rows;
    a->quads[k] = v->size[last] / VECTOR;
    walk_division(a->quads[k], &a->factor[k], &a->shift[k]);
    walk_division(rows, &a->factor[COPY_PIECES + k], &a->shift[COPY_PIECES + k]);
    a->first[k] = a->past;
    a->past = (i32)past;
}

static bool whole_vectors(struct why *why, bool fits)
{
    REQUIRE(why, fits, "rows of the pieces must be of whole vectors of four, and few");
    return true;
}

#define PIECES_ALGO(op, join_, text)                                      \
    static bool applicable_##op(const struct problem *p, struct why *why) \
    {                                                                     \
        struct gathering g = {.join = join_, .fits = true};               \
        begin(&g);                                                        \
        op##_copies(p, add_piece, &g);                                    \
        return whole_vectors(why, g.fits);                                \
    }                                                                     \
    static void emit_##op(const struct problem *p, struct emit *e)        \
    {                                                                     \
        struct gathering g = {.e = e, .join = join_, .fits = true};       \
        begin(&g);                                                        \
        op##_copies(p, add_piece, &g);                                    \
        finish(&g, p);                                                    \
    }                                                                     \
    const struct algo_def algo_##op##_pieces = {                          \
        .name = "pieces",                                                 \
        .doc = text,                                                      \
        .devices = DEVICES_GPU,                                           \
        .error = ERROR_EXACT,                                             \
        .deterministic = true,                                            \
        .src = LAYOUT_ANY,                                                \
        .dst = LAYOUT_ANY,                                                \
        .fp16 = FP16_SAME,                                                \
        .applicable = applicable_##op,                                    \
        .emit = emit_##op,                                                \
    };
PIECES_ALGO(concat, true, "inputs that lie elsewhere in one launch, four elements a work-item")
PIECES_ALGO(split, false, "all outputs in one launch, four elements a work-item")
