/* emit.h: what an algorithm writes its steps with; plan/emit.c. */
#ifndef CLCNN_PLAN_EMIT_H
#define CLCNN_PLAN_EMIT_H

#include "algos/algo.h"
#include "plan/step.h"

/* Appends a step: kernel kernels/<family>/<file>.cl, entry FN(<entry>), `groups` groups of `group_size` work-items in one
 * dimension. Kernel arguments are, in this order: (global buffer, ulong element offset) for each step_read/step_write in
 * the order of the calls, then the argument block by value. */
struct step *emit_step(struct emit *e, const char *file, const char *entry, size_t groups, size_t group_size);
void step_define(struct step *s, const char *name, int value);
void step_define_at_least(struct step *s, const char *name, int value);
void step_define_id(struct step *s, const char *name, const char *identifier);
/* Defines `name` as OpenCL's word for the type; nothing for float32, which kernels take when it is missing. The
 * step of another type stays out of chains. */
void step_define_type(struct step *s, const char *name, enum clcnn_dtype dtype);
void step_read(struct step *s, int view);
void step_read_in_place(struct step *s,
                        int view); /* where the results may be stored, as the algorithm says */
void step_read_like(struct step *s, const struct problem *p,
                    int input);                                /* an input of the result's shape, or none */
void step_read_added(struct step *s, const struct problem *p); /* the same of problem.add, or no operand */
void step_write(struct step *s, int view);
void step_update(struct step *s, int view);
void step_read_at(struct step *s, int view, int64_t offset); /* offset in elements */
void step_write_at(struct step *s, int view, int64_t offset);
/* A map, with X_HALF or Y_HALF of kernels/common/maps.clh where it is stored as halves (step_epilogue() defines ADD_HALF). */
void step_read_map(struct step *s, const struct operand *x);
void step_write_map(struct step *s, const struct operand *y);
void step_args(struct step *s, const void *block, size_t bytes);
void step_cost(struct step *s, double macs, double bytes);
/* A CLBlast call; views a and b are read, c is written (read too when beta != 0). */
struct step *emit_gemm(struct emit *e, const struct gemm_call *call, int a, int b, int c);
/* Scratch memory for steps of this layer; its life is the span of steps that use it. */
int emit_workspace(struct emit *e, size_t bytes);
/* The same for `count` elements of a type; offsets into it are counted in them. */
int emit_workspace_of(struct emit *e, enum clcnn_dtype dtype, int64_t count);
/* Counters (uint) that steps leave as they found them: zeros before every run. One that it updates belongs to one step, which may keep
 * other numbers there: they are zeros before its first run and after a run that was cut short. */
int emit_counters(struct emit *e, size_t count);
/* Steps from here on, those of parts too, run where the uint at this place is not 0, which a step before writes; VIEW_NONE:
 * always. They are kernels, no library calls. */
void emit_only_if(struct emit *e, int view, int64_t offset);
/* Memory for what one part of a merged op hands to the next: gives o, whose shape is set, a view and a batch
 * stride. This is an activation as it would be without the merge, so it is no workspace and workspace_limit does
 * not count it. */
void emit_middle(struct emit *e, struct operand *o);
/* The same memory from `offset` elements on, for operands of emit_sub(). */
int emit_view_from(struct emit *e, int view, int64_t offset);
/* A constant in a layout of its own: a view of `bytes` in the device's weight store, made once by a setup step and shared
 * by every plan of the device with the same contents and the same `packing` (name with all its parameters). Returns the
 * view; *setup is the step to fill (it writes the view: call step_read(constant), then step_write(view)), or NULL when
 * this constant is packed already. It may read what was packed before, too. */
int emit_packed(struct emit *e, const struct operand *constant, const char *packing, size_t bytes,
                const char *file, const char *entry, size_t groups, size_t group_size, struct step **setup);
/* Whether `o` is a float32 constant without an element of larger size than `limit`, and none that is not finite. */
bool emit_constant_within(struct emit *e, const struct operand *o, float limit);
/* Runs another op's algorithms as part of this one (separable = depthwise + 1x1): selects and emits. */
void emit_sub(struct emit *e, const struct problem *p);
/* Defines and buffers of the usual epilogue: EPI_BIAS, EPI_ADD, EPI_ACT; reads bias and add (VIEW_NONE when absent).
 * See kernels/common/epilogue.clh for the kernel's side. */
void step_epilogue(struct step *s, const struct problem *p, const struct operand *bias);
/* A line for people, which explain() prints. */
void emit_note(struct emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void emit_fail(struct emit *e, enum clcnn_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
