/* sgd_update_ref.cl: a step of stochastic gradient descent, with lr = hyper[0]; momentum is hyper[2] where that is fed.
 *
 *   d = g + weight_decay * p,  new_m = momentum * m + d,  new_p = p - lr * (nesterov ? d + momentum * new_m : new_m)
 *
 * Old values stay where the gate (struct commit_gate) is closed.
 * Layouts: p, g, m, new_p and new_m are flat arrays of `count` elements; new ones may be the old ones.
 * Work-group: WG work-items over `run` vectors of V elements. Local memory: none.
 * Defines: V 4, 8 or 16, WG. */
#include "common/clcnn.clh"
#include "update/update_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) sgd_update_ref_##x
#endif
#include "elementwise/vector_rows.clh"
#include "update/update.clh"

void FN(body)(ulong group, SRC_OF(uchar) when, OLD p, SRC g, OLD m, SRC hyper, DST new_p, DST new_m,
              const struct sgd_args *a)
{
    const float lr = hyper[0], momentum = a->fed ? hyper[2] : a->momentum;
    const bool open = GATE_OPEN(when, a);
    FOR_VECTORS(i, group, a)
    {
        const FV old = LOAD_PART(p, i, a);
        const FV d = LOAD_PART(g, i, a) + a->weight_decay * old;
        const FV before = LOAD_PART(m, i, a), moved = momentum * before + d;
        STORE_PART(open ? moved : before, new_m, i, a);
        STORE_PART(open ? old - lr * (a->nesterov ? d + momentum * moved : moved) : old, new_p, i, a);
    }
}

KERNEL FN(main)(SRC_OF(uchar) when, ulong when_off, OLD p, ulong p_off, SRC g, ulong g_off, OLD m, ulong m_off,
                SRC hyper, ulong hyper_off, DST new_p, ulong new_p_off, DST new_m, ulong new_m_off,
                const struct sgd_args a)
{
    FN(body)(GROUP, when + when_off, p + p_off, g + g_off, m + m_off, hyper + hyper_off, new_p + new_p_off,
             new_m + new_m_off, &a);
}
