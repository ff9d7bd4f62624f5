/* adamw_update_ref.cl: a step of AdamW or Adam, with lr = hyper[0] and step = hyper[1], which is 1 at first;
 * beta1 is hyper[2] where that is fed.
 *
 *   decoupled: q = p - lr * weight_decay * p, d = g;  else: q = p, d = g + weight_decay * p
 *   new_m = beta1 * m + (1 - beta1) * d,  new_v = beta2 * v + (1 - beta2) * d^2
 *   new_p = q - lr / (1 - beta1^step) * new_m / (sqrt(new_v / (1 - beta2^step)) + epsilon)
 *
 * 1 - beta^step is -expm1(step * log(beta)), which loses no digits while beta^step is nearly 1.
 * Old values stay where the gate (struct commit_gate) is closed.
 * Layouts: p, g, m, v, new_p, new_m and new_v are flat arrays of `count` elements; new ones may be the old ones.
 * Work-group: WG work-items over `run` vectors of V elements. Local memory: none.
 * Defines: V 4, 8 or 16, WG. */
#include "common/clcnn.clh"
#include "update/update_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) adamw_update_ref_##x
#endif
#include "elementwise/vector_rows.clh"
#include "update/update.clh"

void FN(body)(ulong group, SRC_OF(uchar) when, OLD p, SRC g, OLD m, OLD v, SRC hyper, DST new_p, DST new_m, DST new_v,
              const struct adamw_args *a)
{
    const float lr = hyper[0], step = hyper[1];
    const float beta1 = a->fed ? hyper[2] : a->beta[0], rest1 = a->fed ? 1.0f - beta1 : a->rest[0];
    const float rate = lr / -expm1(step * (a->fed ? log(beta1) : a->log[0]));
    const float scale = rsqrt(-expm1(step * a->log[1]));
    const float kept = a->decoupled ? 1.0f - lr * a->weight_decay : 1.0f;
    const float added = a->decoupled ? 0.0f : a->weight_decay;
    const bool open = GATE_OPEN(when, a);
    FOR_VECTORS(i, group, a)
    {
        const FV old = LOAD_PART(p, i, a);
        const FV d = LOAD_PART(g, i, a) + added * old;
        const FV mean = beta1 * LOAD_PART(m, i, a) + rest1 * d;
        const FV square = a->beta[1] * LOAD_PART(v, i, a) + a->rest[1] * d * d;
        STORE_PART(open ? mean : LOAD_PART(m, i, a), new_m, i, a);
        STORE_PART(open ? square : LOAD_PART(v, i, a), new_v, i, a);
        STORE_PART(open ? kept * old - rate * mean / (sqrt(square) * scale + a->epsilon) : old, new_p, i, a);
    }
}

KERNEL FN(main)(SRC_OF(uchar) when, ulong when_off, OLD p, ulong p_off, SRC g, ulong g_off, OLD m, ulong m_off, OLD v,
                ulong v_off, SRC hyper, ulong hyper_off, DST new_p, ulong new_p_off, DST new_m, ulong new_m_off,
                DST new_v, ulong new_v_off, const struct adamw_args a)
{
    FN(body)(GROUP, when + when_off, p + p_off, g + g_off, m + m_off, v + v_off, hyper + hyper_off, new_p + new_p_off,
             new_m + new_m_off, new_v + new_v_off, &a);
}
