/* cell_tiled: steps of recurrent layers by tiles in local memory; see kernels/matmul/cell_tiled.cl. */
#include "algos/common/rows.h"
#include "algos/matmul/cell.h"

enum { GROUP = 128, UNITS = 16, MOST_ROWS = 4 /* of a work-item */ };

static void emit_cell(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct cell_args a = cell_args_of(p, c);
    const size_t across = ceil_div((size_t)a.size, UNITS), down = GROUP / UNITS;
    size_t rows = MOST_ROWS;
    while (rows > 1 && across * ceil_div((size_t)a.n, down * rows) < p->device->compute_units)
        rows /= 2;
    struct step *s =
        emit_step(e, "cell_tiled", "main", across * ceil_div((size_t)a.n, down * rows), (size_t)GROUP);
    step_define(s, "TB", (int)rows);
    cell_finish(s, p, c, p->in[c->w].view,
                sizeof(float) * (size_t)c->gates * (size_t)a.size * (size_t)a.size);
}

static void emit_lstm(const struct problem *p, struct emit *e)
{
    emit_cell(p, e, &cell_lstm);
}

static void emit_gru(const struct problem *p, struct emit *e)
{
    emit_cell(p, e, &cell_gru);
}

#define CELL_ALGO(op, function)                           \
    const struct algo_def algo_##op##_tiled = {           \
        .name = "tiled",                                  \
        .doc = "tiles of units and rows in local memory", \
        .devices = DEVICES_GPU,                           \
        .error = ERROR_STRICT,                            \
        .deterministic = true,                            \
        .applicable = rows_always,                        \
        .emit = function,                                 \
    }
CELL_ALGO(lstm_cell, emit_lstm);
CELL_ALGO(gru_cell, emit_gru);
