/* walk.c: walks over elements by number; see walk.h. */
#include "algos/common/walk.h"

#include <stdlib.h>

/* n / d is (hi(n * factor) + n) >> shift for n below 2^31 (Granlund and Montgomery 1994, with a factor of 33 bits). */
void walk_division(int32_t size, i32 *factor, i32 *shift)
{
    *shift = 0;
    while ((int64_t)1 << *shift < size)
        ++*shift;
    const uint64_t above = ((uint64_t)1 << *shift) - (uint64_t)size;
    *factor = (i32)(uint32_t)((above << 32) / (uint64_t)size + 1);
}

/* Whether four neighbours begin at a multiple of four elements, always. */
static bool is_even(const struct strided_args *a, int operand)
{
    const int last = a->rank - 1;
    bool even = a->stride[operand].of[last] == 1;
    for (int d = 0; d < last; d++)
        even = even && a->stride[operand].of[d] % 4 == 0;
    return even && (last == 0 || a->size[last] % 4 == 0);
}

/* How far from its first element an operand is read. */
static int64_t reach(const struct strided_args *a, int operand)
{
    int64_t far = 0;
    for (int d = 0; d < a->rank; d++)
        far += (a->size[d] - 1) * llabs(a->stride[operand].of[d]);
    return far;
}

bool walk_as_it_is(struct walk_args *w, const struct strided_args *a, int operands)
{
    int64_t count = 1;
    *w = (struct walk_args){0};
    for (int d = 0; d < a->rank; d++)
        count *= a->size[d];
    if (a->rank > WALK_RANK || count > INT32_MAX)
        return false;
    w->count = (i32)count;
    for (int d = 0; d < a->rank; d++) {
        w->size[d] = a->size[d];
        walk_division(a->size[d], &w->factor[d], &w->shift[d]);
    }
    for (int i = 0; i < operands; i++) {
        if (reach(a, i) > INT32_MAX)
            return false;
        w->even[i] = is_even(a, i);
        for (int d = 0; d < a->rank; d++)
            w->stride[i].of[d] = (i32)a->stride[i].of[d];
    }
    w->rank = a->rank;
    return true;
}

bool walk_of(struct walk_args *w, struct strided_args *a, int operands)
{
    strided_merge(a, operands);
    return walk_as_it_is(w, a, operands);
}

struct step *walk_step(struct emit *e, const struct problem *p, const char *file, const struct walk_args *w)
{
    const size_t group = any_group_size(p);
    struct step *s = emit_step(e, file, "main", ceil_div((size_t)w->count, 4 * group), group);
    step_define(s, "RANK", w->rank);
    return s;
}
