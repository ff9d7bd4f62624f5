/* cost.h: the measured constants by which algorithms are selected and cut, as compile-time constants. They stand in one table for each
 * family of devices (cpu_cost.def, nvidia_cost.def, portable_cost.def), a row each:
 *
 *     COST(type, NAME_UNIT, value, "unit", "meaning", "measured on", "benchmark command", "decision record")
 *
 * A table of tiles keeps its times beside its sizes, in the file of its algorithm; a row without a value tells of it:
 *
 *     COST_TABLE("file", name, "unit", "meaning", "measured on", "benchmark command", "decision record")
 *
 * docs/reference/costs.md is made of these rows, and tests/meta/test_costs.py holds their form. What belongs to a kernel's shape
 * (tiles, groups, what its arrays hold) stays with its algorithm. */
#ifndef CLCNN_ALGOS_COST_H
#define CLCNN_ALGOS_COST_H

/* Whole numbers are enumerators, so that they compare with sizes. */
#define COST_int(name, value) enum { name = value };
#define COST_float(name, value) static const float name = value;
#define COST_double(name, value) static const double name = value;
#define COST(type, name, value, ...) COST_##type(name, value)
#define COST_TABLE(...)

#include "algos/cost/cpu_cost.def"
#include "algos/cost/nvidia_cost.def"
#include "algos/cost/portable_cost.def"

#undef COST
#undef COST_TABLE
#undef COST_int
#undef COST_float
#undef COST_double

#endif
