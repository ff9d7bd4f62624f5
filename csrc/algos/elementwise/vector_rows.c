/* vector_rows.c: element-wise work on vectors, cut into groups; see vector_rows.h. */
#include "algos/elementwise/vector_rows.h"
#include "algos/common/blocked.h"

#define SHORTEST_RUN 64 /* vectors of a group: fewer take less time than a group costs */

bool vector_applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32 && p->out[0].shape.dtype == CLCNN_FLOAT32,
            "elements must be floats");
    return true;
}

size_t vector_groups(const struct problem *p, struct vector_rows *rows, int64_t count, int64_t inner)
{
    rows->count = count;
    rows->vectors = (int64_t)ceil_div((size_t)inner, (size_t)p->block);
    const int64_t run = blocked_run(p, 1, (size_t)(count * rows->vectors), SHORTEST_RUN);
    rows->run = run < rows->vectors ? run : rows->vectors;
    rows->row_run = run > rows->vectors ? run / rows->vectors : 1;
    return ceil_div((size_t)rows->vectors, (size_t)rows->run) *
           ceil_div((size_t)count, (size_t)rows->row_run);
}

void vector_channels(const struct problem *p, struct vector_rows *rows)
{
    const struct operand *y = &p->out[0];
    rows->blocks = y->block ? blocked_count(p, y->shape.dim[1]) : 1;
    rows->lanes = y->block ? y->shape.dim[1] - (rows->blocks - 1) * p->block : p->block;
}

struct step *vector_step(struct emit *e, const struct problem *p, const char *file, size_t groups)
{
    struct step *s = emit_step(e, file, "main", groups, 1);
    step_define(s, "V", p->block);
    return s;
}
