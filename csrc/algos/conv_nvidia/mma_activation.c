/* mma_activation.c: see mma_activation.h. */
#include "algos/conv_nvidia/mma_activation.h"

enum { TABLED = 128 }; /* results that the table is for */

/* 0: so short that it is not seen. */
static const float act_ns[ACT_COUNT] = {
    [ACT_elu] = 20.0f,  [ACT_sigmoid] = 20.0f, [ACT_swish] = 20.0f,     [ACT_silu] = 20.0f,
    [ACT_tanh] = 34.0f, [ACT_gelu] = 34.0f,    [ACT_gelu_tanh] = 34.0f, [ACT_mish] = 34.0f,
};

bool mma_long_activation(const struct problem *p)
{
    return p->act == ACT_gelu || p->act == ACT_gelu_tanh || p->act == ACT_tanh || p->act == ACT_mish;
}

bool mma_slow_activation(const struct problem *p)
{
    return act_ns[p->act] > 0.0f;
}

float mma_act_time(const struct problem *p, int results)
{
    return act_ns[p->act] * (float)results / TABLED;
}
