/* batch_norm_train_held: batch norm by its own statistics in one pass on GPUs, and its gradients; see entry held of
 * kernels/norm_reduce/batch_norm_train_groups.cl and batch_norm_train_grad_groups.cl. */
#include "algos/norm_reduce/channel_chunks.h"

enum { DY, GRAD_X, GRAD_INPUTS = 6 }; /* inputs of the gradient; behind x its weight, mean, var and bias */

static struct channel_chunks_args args_of(const struct problem *p)
{
    return channel_chunks_held(p, &p->in[0], NULL);
}

static struct channel_chunks_args grad_args_of(const struct problem *p)
{
    return channel_chunks_held(p, &p->in[GRAD_X], &p->in[DY]);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct channel_chunks_args a = args_of(p);
    return channel_chunks_may_hold(p, &a, why);
}

static bool grad_applicable(const struct problem *p, struct why *why)
{
    const struct channel_chunks_args a = grad_args_of(p);
    return channel_chunks_may_hold(p, &a, why);
}

static void finish(struct emit *e, struct step *s, const struct problem *p,
                   const struct channel_chunks_args *a, double macs)
{
    for (int i = 0; i < 3; i++)
        step_write(s, p->out[i].view);
    channel_chunks_meet(e, s, a);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, macs * (double)shape_count(&p->out[0].shape));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct channel_chunks_args a = args_of(p);
    struct step *s = channel_chunks_held_step(e, "batch_norm_train_groups", &a);
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    norm_epilogue(s, p);
    finish(e, s, p, &a, 3.0);
}

static void grad_emit(const struct problem *p, struct emit *e)
{
    const struct channel_chunks_args a = grad_args_of(p);
    struct step *s = channel_chunks_held_step(e, "batch_norm_train_grad_groups", &a);
    for (int i = 0; i < GRAD_INPUTS; i++)
        step_read(s, p->in[i].view);
    finish(e, s, p, &a, 4.0);
}

#define HELD_ALGO(op, applicable_, emit_)                                            \
    const struct algo_def algo_##op##_held = {                                       \
        .name = "held",                                                              \
        .doc = "chunks of a channel in registers, by groups that wait for its sums", \
        .devices = DEVICES_GPU,                                                      \
        .error = ERROR_STRICT,                                                       \
        .deterministic = true,                                                       \
        .applicable = applicable_,                                                   \
        .emit = emit_,                                                               \
    }
HELD_ALGO(batch_norm_train, applicable, emit);
HELD_ALGO(batch_norm_train_grad, grad_applicable, grad_emit);
