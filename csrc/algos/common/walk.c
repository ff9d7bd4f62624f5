/* walk.c: walks over elements by number; see walk.h. */
#include "algos/common/walk.h"

#include <stdlib.h>
#include <string.h>

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
static bool is_even(const struct walk_sizes *s, int operand)
{
    const int last = s->rank - 1;
    bool even = s->stride[operand][last] == 1;
    for (int d = 0; d < last; d++)
        even = even && s->stride[operand][d] % 4 == 0;
    return even && (last == 0 || s->size[last] % 4 == 0);
}

/* How far from its first element an operand is read. */
static int64_t reach(const struct walk_sizes *s, int operand)
{
    int64_t far = 0;
    for (int d = 0; d < s->rank; d++)
        far += (s->size[d] - 1) * llabs(s->stride[operand][d]);
    return far;
}

struct walk_sizes walk_sizes_of(const struct operand *y, int operands)
{
    struct walk_sizes s = {.rank = y->shape.rank, .operands = operands};
    memcpy(s.size, y->shape.dim, sizeof s.size);
    operand_strides(y, s.stride[operands - 1]);
    return s;
}

void walk_merge(struct walk_sizes *s)
{
    s->rank = merge_dims(s->rank, s->size, s->stride, s->operands);
}

bool walk_of(struct walk_args *w, const struct walk_sizes *s)
{
    int64_t count = 1;
    *w = (struct walk_args){.rank = s->rank};
    for (int d = 0; d < s->rank; d++)
        count *= s->size[d];
    if (s->rank > WALK_RANK || count > INT32_MAX)
        return false;
    w->count = (i32)count;
    for (int d = 0; d < s->rank; d++) {
        w->size[d] = s->size[d];
        walk_division(s->size[d], &w->factor[d], &w->shift[d]);
    }
    for (int i = 0; i < s->operands; i++) {
        if (reach(s, i) > INT32_MAX)
            return false;
        w->even[i] = is_even(s, i);
        for (int d = 0; d < s->rank; d++)
            w->stride[i].of[d] = (i32)s->stride[i][d];
    }
    return true;
}

struct step *walk_step(struct emit *e, const struct problem *p, const char *file, const struct walk_args *w)
{
    const size_t group = any_group_size(p);
    struct step *s = emit_step(e, file, "main", ceil_div((size_t)w->count, 4 * group), group);
    step_define(s, "RANK", w->rank);
    return s;
}
