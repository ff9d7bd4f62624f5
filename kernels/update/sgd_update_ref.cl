/* sgd_update_ref.cl: a step of stochastic gradient descent, with lr = hyper[0]; momentum is hyper[2] where that is fed.
 *
 *   d = g + weight_decay * p,  new_m = momentum * m + d,  new_p = p - lr * (nesterov ? d + momentum * new_m : new_m)
 *
 * Layouts: p, g, m, new_p and new_m are flat arrays of `count` elements.
 * Work-group: WG work-items over `run` vectors of V elements. Local memory: none.
 * Defines: V 4, 8 or 16, WG. */
#include "common/clcnn.clh"
#include "update/update_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) sgd_update_ref_##x
#endif
#include "elementwise/vector_rows.clh"
#include "update/update.clh"

void FN(body)(ulong group, SRC p, SRC g, SRC m, SRC hyper, DST new_p, DST new_m, const struct sgd_args *a)
{
    const float lr = hyper[0], momentum = a->fed ? hyper[2] : a->momentum;
    FOR_VECTORS(i, group, a)
    {
        const FV old = LOAD_PART(p, i, a);
        const FV d = LOAD_PART(g, i, a) + a->weight_decay * old;
        const FV moved = momentum * LOAD_PART(m, i, a) + d;
        STORE_PART(moved, new_m, i, a);
        STORE_PART(old - lr * (a->nesterov ? d + momentum * moved : moved), new_p, i, a);
    }
}

KERNEL FN(main)(SRC p, ulong p_off, SRC g, ulong g_off, SRC m, ulong m_off, SRC hyper, ulong hyper_off, DST new_p,
                ulong new_p_off, DST new_m, ulong new_m_off, const struct sgd_args a)
{
    FN(body)(GROUP, p + p_off, g + g_off, m + m_off, hyper + hyper_off, new_p + new_p_off, new_m + new_m_off, &a);
}
