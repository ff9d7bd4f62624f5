/* rotary_embedding_vector: rotary position embedding, vector by vector; see kernels/attention/rotary_embedding_vector.cl. */
#include "algos/common/blocked.h"
#include "algos/common/rows.h"
#include "attention/attention_args.h"

#define LEAST_VECTORS 64 /* of a group: fewer take less time than a group costs */

static int columns_of(const struct problem *p)
{
    return p->in[0].shape.dim[p->in[0].shape.rank - 1];
}

/* Rows of an item, as its first dimension counts them. */
static int64_t item_rows(const struct operand *o)
{
    const struct clcnn_shape *s = &o->shape;
    return s->rank > 2 ? shape_count_from(s, 1) / s->dim[s->rank - 1] : 1;
}

static bool interleaved(const struct problem *p)
{
    return ((const struct rotary_attrs *)p->attrs)->interleaved != 0;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, columns_of(p) % ((interleaved(p) ? 1 : 2) * p->block) == 0,
            "rows, or halves of them, are no whole vectors");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int columns = columns_of(p);
    struct rotary_vector_args a = {
        .x_n = x->batch_stride,
        .cos_n = p->in[1].batch_stride,
        .sin_n = p->in[2].batch_stride,
        .y_n = y->batch_stride,
        .rows = shape_count(&x->shape) / columns,
        .item_rows = item_rows(x),
        .table_rows = shape_count(&p->in[1].shape) / columns,
        .table_item_rows = item_rows(&p->in[1]),
        .columns = columns,
    };
    const int vectors = columns / p->block;
    a.row_run = blocked_run(p, 1, (size_t)a.rows, ceil_div(LEAST_VECTORS, (size_t)vectors));
    struct step *s =
        emit_step(e, "rotary_embedding_vector", "main", ceil_div((size_t)a.rows, (size_t)a.row_run), 1);
    step_define(s, "V", p->block);
    step_define(s, "INTERLEAVED", interleaved(p));
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_rotary_embedding_vector = {
    .name = "vector",
    .doc = "vector by vector, whole rows a group",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
