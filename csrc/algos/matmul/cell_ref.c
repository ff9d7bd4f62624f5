/* lstm_cell and gru_cell: a step of a recurrent layer in one kernel, of which each group has some units with all their gates; see
 * kernels/matmul/cell_ref.cl. */
#include <stdio.h>

#include "algos/common/rows.h"
#include "algos/matmul/cell.h"

const struct cell cell_lstm = {4, 0, 1, 2, 3, -1}, cell_gru = {3, 0, 1, -1, 2, 3};

static int vector_of(const struct problem *p)
{
    return p->block > 0 ? p->block : 4;
}

static size_t packed_count(const struct problem *p, const struct cell *c)
{
    const size_t size = (size_t)p->in[c->h].shape.dim[1];
    return round_up(size, (size_t)vector_of(p)) * (size_t)c->gates * size;
}

static int emit_weights(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct operand *w = &p->in[c->w];
    const int size = p->in[c->h].shape.dim[1], tiles = (int)ceil_div((size_t)size, (size_t)vector_of(p));
    const size_t bytes = sizeof(float) * packed_count(p, c);
    const struct cell_pack_args args = {.w_n = w->batch_stride, .size = size, .tiles = tiles};
    struct step *s;
    char name[64];
    snprintf(name, sizeof name, "cell g%d v%d h%d", c->gates, vector_of(p), size);
    const int view = emit_packed(e, w, name, bytes, "cell_ref", "pack", (size_t)tiles, 1, &s);
    if (s) {
        step_define(s, "V", vector_of(p));
        step_define(s, "GATES", c->gates);
        step_read(s, w->view);
        step_write(s, view);
        step_args(s, &args, sizeof args);
        step_cost(s, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

static void read_if(struct step *s, const struct problem *p, int input)
{
    step_read(s, input >= 0 ? p->in[input].view : VIEW_NONE);
}

struct cell_args cell_args_of(const struct problem *p, const struct cell *c)
{
    const struct operand *h = &p->in[c->h];
    return (struct cell_args){
        .x_n = p->in[c->x].batch_stride,
        .h_n = h->batch_stride,
        .c_n = c->c >= 0 ? p->in[c->c].batch_stride : 0,
        .y_n = p->out[0].batch_stride,
        .d_n = p->n_out > 1 ? p->out[1].batch_stride : 0,
        .w_n = p->in[c->w].batch_stride,
        .n = h->shape.dim[0],
        .size = h->shape.dim[1],
    };
}

void cell_operands(struct step *s, const struct problem *p, const struct cell *c, int w)
{
    step_define(s, "GATES", c->gates);
    step_read(s, p->in[c->x].view);
    step_read(s, p->in[c->h].view);
    read_if(s, p, c->c);
    step_read(s, w);
    read_if(s, p, c->b);
    step_write(s, p->out[0].view);
    step_write(s, p->n_out > 1 ? p->out[1].view : VIEW_NONE);
}

void cell_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes)
{
    const struct cell_args args = cell_args_of(p, c);
    cell_operands(s, p, c, w);
    step_args(s, &args, sizeof args);
    step_cost(s, (double)args.n * c->gates * args.size * args.size, (double)bytes);
}

static void emit_cell(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct operand *h = &p->in[c->h];
    const int n = h->shape.dim[0], size = h->shape.dim[1], v = vector_of(p);
    const int rows = n == 1 ? 1 : v == 16 ? 4 : 2; /* whose sums fit the registers */
    const int w = emit_weights(p, e, c);
    struct step *s = emit_step(e, "cell_ref", "main",
                               ceil_div((size_t)size, (size_t)v) * ceil_div((size_t)n, (size_t)rows), 1);
    step_define(s, "V", v);
    step_define(s, "TB", rows);
    cell_finish(s, p, c, w, sizeof(float) * packed_count(p, c));
}

static size_t bytes_of(const struct problem *p, const struct cell *c)
{
    return p->in[c->w].constant ? 0 : sizeof(float) * packed_count(p, c);
}

static size_t lstm_workspace(const struct problem *p)
{
    return bytes_of(p, &cell_lstm);
}

static size_t gru_workspace(const struct problem *p)
{
    return bytes_of(p, &cell_gru);
}

static void lstm_emit(const struct problem *p, struct emit *e)
{
    emit_cell(p, e, &cell_lstm);
}

static void gru_emit(const struct problem *p, struct emit *e)
{
    emit_cell(p, e, &cell_gru);
}

const struct algo_def algo_lstm_cell_ref = {
    .name = "ref",
    .doc = "some units with all their gates at a time",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = lstm_workspace,
    .emit = lstm_emit,
};

const struct algo_def algo_gru_cell_ref = {
    .name = "ref",
    .doc = "some units with all their gates at a time",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = gru_workspace,
    .emit = gru_emit,
};
