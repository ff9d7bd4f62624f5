/* gemm_clblast_common.c: products as calls of CLBlast, batches merged where strides allow, and one pass for
 * c, the residual and the activation (kernels/matmul/gemm_finish.cl), which a library call cannot fuse. */
#include "algos/matmul/gemm_common.h"

#define MAX_CALLS 64

/* One dimension over which calls are repeated. */
struct loop {
    size_t count;
    int64_t a, b, y;
};
struct loops {
    struct gemm_call call; /* without offsets */
    struct loop loop[6];   /* outer ones first; the last is inside the call */
    int n;
};

/* The batch dimensions with more than one item, neighbours merged when they step alike. */
static int merged_loops(const struct gemm_args *a, struct loop out[6])
{
    int n = 0;
    for (int d = 0; d < 6; d++) {
        if (a->batch[d] == 1)
            continue;
        const struct loop next = {(size_t)a->batch[d], a->a_b[d], a->b_b[d], a->y_b[d]};
        struct loop *last = n > 0 ? &out[n - 1] : NULL;
        const int64_t count = (int64_t)next.count;
        if (last && last->a == count * next.a && last->b == count * next.b && last->y == count * next.y)
            *last = (struct loop){last->count * next.count, next.a, next.b, next.y};
        else
            out[n++] = next;
    }
    return n;
}

static size_t at_least(int64_t stride, int32_t width)
{
    return stride > width ? (size_t)stride : (size_t)width;
}

static struct loops loops_of(const struct gemm_args *a)
{
    struct loops l;
    l.n = merged_loops(a, l.loop);
    l.call = (struct gemm_call){.m = (size_t)a->m, .n = (size_t)a->n, .k = (size_t)a->k, .alpha = a->alpha};
    l.call.trans_a = a->a_k != 1;
    l.call.lda = l.call.trans_a ? at_least(a->a_k, a->m) : at_least(a->a_m, a->k);
    l.call.trans_b = a->b_n != 1 && a->n > 1;
    l.call.ldb = l.call.trans_b ? at_least(a->b_n, a->k) : at_least(a->b_k, a->n);
    l.call.ldc = at_least(a->y_m, a->n);
    /* Items that share b and continue each other's rows are one taller product. */
    struct loop *in = l.n > 0 ? &l.loop[l.n - 1] : NULL;
    if (in && in->b == 0 && !l.call.trans_a && in->a == a->m * (int64_t)l.call.lda &&
        in->y == a->m * (int64_t)l.call.ldc) {
        l.call.m *= in->count;
        l.n--;
    }
    if (l.n > 0) {
        in = &l.loop[l.n - 1];
        l.call.batch = in->count;
        l.call.stride_a = in->a;
        l.call.stride_b = in->b;
        l.call.stride_c = in->y;
    }
    return l;
}

static size_t calls(const struct loops *l)
{
    size_t count = 1;
    for (int i = 0; i < l->n - 1; i++)
        count *= l->loop[i].count;
    return count;
}

bool gemm_clblast_applicable(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    const struct loops l = loops_of(&g->args);
    REQUIRE(why, p->has_clblast, "CLBlast is not installed");
    REQUIRE(why, calls(&l) <= MAX_CALLS, "the batch dimensions would need more than 64 calls");
    return true;
}

void emit_gemm_clblast(struct emit *e, const struct problem *p, const struct gemm_problem *g)
{
    const struct gemm_args *a = &g->args;
    const struct loops l = loops_of(a);
    for (size_t i = 0; i < calls(&l); i++) {
        struct gemm_call call = l.call;
        call.a_off = (size_t)g->at[0];
        call.b_off = (size_t)g->at[1];
        size_t rest = i;
        for (int d = l.n - 2; d >= 0; d--) {
            const int64_t at = (int64_t)(rest % l.loop[d].count);
            rest /= l.loop[d].count;
            call.a_off += at * l.loop[d].a;
            call.b_off += at * l.loop[d].b;
            call.c_off += at * l.loop[d].y;
        }
        emit_gemm(e, &call, p->in[0].view, p->in[1].view, p->out[0].view);
    }
    if (!g->c && !p->add.present && p->act == ACT_none)
        return;
    const size_t count = gemm_items(a) * (size_t)a->m * (size_t)a->n;
    struct step *s = emit_step(e, "gemm_finish", "main", ceil_div(count, GROUP_SIZE), GROUP_SIZE);
    step_epilogue(s, p, g->c);
    step_update(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, 4.0 * (double)count * (p->add.present ? 3.0 : 2.0));
}
