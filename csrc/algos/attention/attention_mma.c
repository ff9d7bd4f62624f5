/* attention_mma: attention on NVIDIA's tensor cores, float32 as sums of two tf32 values (mma) or with weights and v rounded to tf32 (tf32); see
 * kernels/attention/attention_mma.cl. */
#include "algos/attention/attention.h"

enum {
    WARPS = 4,
    WARP = 32,
    ROWS = 16,
    STEP = 8,
    MOST_COLUMNS = 128, /* of a warp that shares them with others */
    OWN_COLUMNS = 64,   /* of one that has them all: more and registers spill */
    BLOCK = 32,
    WARPS_A_UNIT = 8
};

/* Whether 32 bits hold the strides that the kernel multiplies by rows. */
static bool near(const struct attention_args *a)
{
    const i64 strides[] = {a->k[2], a->v[2], a->mask[2], a->mask[3], a->outer[2], a->outer[3]};
    for (int i = 0; i < COUNT_OF(strides); i++)
        if (strides[i] > INT32_MAX)
            return false;
    return true;
}

static int channels_of(const struct problem *p)
{
    return p->out[0].shape.dim[p->out[0].shape.rank - 1];
}

/* A result in cores: each row of a head is some channels of one position, from a multiple of eight on. */
static unsigned cores(const struct problem *p)
{
    const struct attention_args a = attention_args_of(p);
    bool whole = a.e > 0 && a.e % 8 == 0 && a.y[3] == 1 && channels_of(p) % a.e == 0;
    for (int i = 0; whole && i < VIEW_STRIDES; i++)
        whole = i == 3 || a.y[i] % a.e == 0;
    return whole ? CORES_DST : 0;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct attention_args a = attention_args_of(p);
    REQUIRE(why, device_traits(p->device).tensor_cores,
            "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, a.d <= WARPS * MOST_COLUMNS && a.e <= WARPS * MOST_COLUMNS && near(&a),
            "rows of q or v have more than 512 elements, which registers do not hold, or lie 2^31 apart");
    return true;
}

static unsigned pairs(const struct problem *p)
{
    const unsigned taken = cores(p);
    return taken ? taken | CORES_PAIRS : 0;
}

/* Warps that share the rows of k and v of a tile: as many as there is room for beside the other tiles. */
static int split_of(const struct problem *p, const struct attention_args *a, size_t tiles)
{
    int split = 1;
    while (split < WARPS && tiles * (size_t)split < (size_t)p->device->compute_units * WARPS_A_UNIT &&
           a->s > split * BLOCK)
        split *= 2;
    return split;
}

/* Steps of 8 columns: rounded up to what is read in long vectors. */
static int steps_of(int columns)
{
    const int steps = (int)ceil_div((size_t)columns, STEP);
    return steps > 6   ? (int)round_up((size_t)steps, 4)
           : steps > 2 ? (int)round_up((size_t)steps, 2)
           : steps > 0 ? steps
                       : 1;
}

/* Whether positions of k and v lie side by side, and by fours: how far apart other things are. */
static bool by_positions(const struct attention_args *a)
{
    const i64 apart = a->k[0] | a->k[1] | a->k[3] | a->k[4] | a->v[0] | a->v[1] | a->v[3] | a->v[4];
    return a->k[2] == 1 && a->v[2] == 1 && (apart | a->s) % 4 == 0;
}

static void emit_products(const struct problem *p, struct emit *e, int products)
{
    const struct attention_args a = attention_args_of(p);
    const size_t tiles = (size_t)a.n * (size_t)a.heads * ceil_div((size_t)a.l, ROWS);
    const bool columns = a.d > OWN_COLUMNS || a.e > OWN_COLUMNS; /* are shared by the warps */
    const int split = columns ? 1 : split_of(p, &a, tiles), across = columns ? WARPS : 1;
    const struct attention_mma_args ma = {
        .attention = a,
        .split = split,
        .share = (int)round_up(ceil_div((size_t)a.s, (size_t)split), STEP),
        .channels = channels_of(p),
        .up = p->out[0].cores,
    };
    struct step *s =
        emit_step(e, "attention_mma", "main", columns ? tiles : ceil_div(tiles, (size_t)(WARPS / split)),
                  (size_t)WARPS * WARP);
    step_define(s, "PRODUCTS", products);
    step_define(s, "ND", steps_of((int)ceil_div((size_t)a.d, (size_t)across)));
    step_define(s, "NE", steps_of((int)ceil_div((size_t)a.e, (size_t)across)));
    if (columns)
        step_define(s, "COLUMNS", 1);
    if (by_positions(&a))
        step_define(s, "POSITIONS", 1);
    if (p->out[0].cores != 0.0f) {
        step_define(s, "CORES", 1);
        step_define(s, "PAIRS", p->out[0].pairs);
    }
    attention_finish(s, p, &a);
    step_args(s, &ma, sizeof ma);
}

static void emit_mma(const struct problem *p, struct emit *e)
{
    emit_products(p, e, 3);
}

static void emit_tf32(const struct problem *p, struct emit *e)
{
    emit_products(p, e, 1);
}

const struct algo_def algo_scaled_dot_product_attention_mma = {
    .name = "mma",
    .doc = "scores in registers of NVIDIA's tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_TF32_PARTS,
    .cores_of = pairs,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit_mma,
};

const struct algo_def algo_scaled_dot_product_attention_tf32 = {
    .name = "tf32",
    .doc = "scores in registers of NVIDIA's tensor cores, weights and v rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .cores_of = cores,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit_tf32,
};
