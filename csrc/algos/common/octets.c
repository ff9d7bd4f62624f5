/* octets.c: see octets.h. */
#include "algos/common/octets.h"

enum { LEAST_ITEMS = 128, MOST_ITEMS = 512 };

static int together(bool deep)
{
    return deep ? 8 : 32;
}

int octets_most(bool deep, int kept)
{
    return kept * MOST_ITEMS / together(deep);
}

struct step *emit_octets(struct emit *e, const char *file, size_t positions, bool deep, int octets, int most)
{
    int group = LEAST_ITEMS;
    while (group < MOST_ITEMS && octets > most * group / together(deep))
        group *= 2;
    const int kept = (int)ceil_div((size_t)octets, (size_t)(group / together(deep)));
    struct step *s = emit_step(e, file, "main", ceil_div(positions, (size_t)together(deep)), (size_t)group);
    step_define(s, "DEEP", deep);
    step_define(s, "KEPT", kept < most ? kept : most);
    return s;
}
