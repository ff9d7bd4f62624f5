/* attention_flash: attention in blocks of rows of k and v, for CPU devices; see kernels/attention/attention_flash.cl. */
#include "algos/attention/attention.h"

#include <stdio.h>

enum { MASK = 3, TURNED_MASK = 2 }; /* the operand; a define of the kernel */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct attention_args a = attention_args_of(p);
    REQUIRE(why, a.d <= ATTENTION_MOST_COLUMNS && a.e <= ATTENTION_MOST_COLUMNS,
            "rows of q or v have more than 256 elements");
    return true;
}

/* Whether the mask is a constant that has rows and columns of its own, and the kernel that turns it may be built. */
static bool turns_mask(const struct problem *p, const struct attention_args *a)
{
    return !p->quick && p->n_in > MASK && p->in[MASK].present && p->in[MASK].constant && a->wide == 0 &&
           a->mask[2] != 0 && a->mask[3] != 0;
}

/* The mask with its rows as lanes, as the `tiles` work-items of a head read it one after the other; its strides in the
 * place of its own. */
static int emit_turned(struct emit *e, const struct problem *p, struct attention_args *a, int tiles,
                       int lanes)
{
    struct attention_args pack = *a;
    pack.n = a->mask[0] != 0 ? a->period : 1;
    pack.heads = a->mask[1] != 0 ? a->heads : 1;
    pack.d = lanes;
    const int64_t head = (int64_t)tiles * a->s * lanes;
    const size_t heads = (size_t)pack.n * (size_t)pack.heads;
    char name[96];
    snprintf(name, sizeof name, "attention_flash mask n%d h%d l%d s%d lanes%d", pack.n, pack.heads, a->l,
             a->s, lanes);
    struct step *setup;
    const int view = emit_packed(e, &p->in[MASK], name, sizeof(float) * heads * (size_t)head,
                                 "attention_flash", "turn_mask", heads, 1, &setup);
    if (setup) {
        step_read(setup, p->in[MASK].view);
        step_write(setup, view);
        step_args(setup, &pack, sizeof pack);
        step_cost(setup, 0.0, 8.0 * (double)heads * (double)head);
    }
    a->mask[0] = a->mask[0] != 0 ? pack.heads * head : 0;
    a->mask[1] = a->mask[1] != 0 ? head : 0;
    a->mask[2] = a->s;
    a->mask[3] = lanes;
    return view;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct attention_args a = attention_args_of(p);
    const uint32_t width = p->device->float_width;
    const int lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4, vectors = a.l > lanes ? 2 : 1;
    /* as many as leave registers for two vectors of q and one of k beside the sums */
    const int rows = lanes == 16 ? 8 : lanes == 8 ? 6 : 4;
    const size_t tiles = ceil_div((size_t)a.l, (size_t)(lanes * vectors));
    const bool turned = turns_mask(p, &a);
    const int mask = turned ? emit_turned(e, p, &a, (int)tiles, lanes * vectors) : VIEW_NONE;
    struct step *s = emit_step(e, "attention_flash", "main", (size_t)a.n * (size_t)a.heads * tiles, 1);
    step_define(s, "V", lanes);
    step_define(s, "QV", vectors);
    step_define(s, "ROWS", rows);
    if (turned)
        attention_finish_with(s, p, &a, TURNED_MASK, mask);
    else
        attention_finish(s, p, &a);
}

const struct algo_def algo_scaled_dot_product_attention_flash = {
    .name = "flash",
    .doc = "blocks of rows of k and v, whose scores stay in a core's cache",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
