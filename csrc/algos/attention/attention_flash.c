/* attention_flash: attention in blocks of rows of k and v, for CPU devices; see kernels/attention/attention_flash.cl. */
#include "algos/attention/attention.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct attention_args a = attention_args_of(p);
    REQUIRE(why, a.d <= ATTENTION_MOST_COLUMNS && a.e <= ATTENTION_MOST_COLUMNS,
            "rows of q or v have more than 256 elements");
    PREFER(why, cpu_device(p->device), "register tiles of float vectors are for CPU devices");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct attention_args a = attention_args_of(p);
    const uint32_t width = p->device->float_width;
    const int lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4, vectors = a.l > lanes ? 2 : 1;
    const size_t tiles = ceil_div((size_t)a.l, (size_t)(lanes * vectors));
    struct step *s = emit_step(e, "attention_flash", "main", (size_t)a.n * (size_t)a.heads * tiles, 1);
    step_define(s, "V", lanes);
    step_define(s, "QV", vectors);
    step_define(s, "ROWS", lanes == 16 ? 8 : 4);
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
