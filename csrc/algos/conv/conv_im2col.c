/* conv_im2col: the classical baseline: windows as columns of a matrix, CLBlast's GEMM, and a pass back to
 * NCHW with the epilogue; see kernels/conv/conv_im2col.cl.
 *
 * As many images as the workspace limit allows share one product, whose columns are all their pixels: small
 * maps then fill the library's tiles, which one product an image would not. The price is a result in
 * [K][N*map] order; the pass that a library GEMM needs anyway for bias and activation brings it home, so that
 * no traffic is added. */
#include "algos/cost/cost.h"
#include "algos/conv/conv_common.h"

#define MAX_GROUPS 64

/* Elements of a chunk's two matrices, for one image. */
static size_t elements(const struct problem *p, const struct conv_args *a)
{
    const size_t map = (size_t)shape_count_from(&p->out[0].shape, 2);
    const size_t taps = (size_t)shape_count_from(&p->in[1].shape, 2);
    return map * ((size_t)a->c * taps + (size_t)a->k);
}

/* Images of a chunk: all that fit, chunks of nearly equal size. */
static int chunk_of(const struct problem *p, const struct conv_args *a)
{
    const size_t fit = p->workspace_limit / sizeof(float) / elements(p, a);
    const size_t chunks = ceil_div((size_t)a->n, fit > 0 ? fit : 1);
    return (int)ceil_div((size_t)a->n, chunks);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->has_clblast, "CLBlast is not installed");
    const int chunk = chunk_of(p, &a);
    DECIDE(p, chunk);
    PREFER(why, a.groups <= MAX_GROUPS, "more than 64 groups need as many products");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    int chunk;
    DECIDED(p, chunk);
    return sizeof(float) * elements(p, &a) * (size_t)chunk;
}

static void emit_products(struct emit *e, const struct problem *p, const struct conv_args *a, size_t width,
                          int columns, int product)
{
    const size_t depth = (size_t)shape_count_from(&p->in[1].shape, 1);
    const size_t filters = (size_t)(a->k / a->groups);
    for (int g = 0; g < a->groups; g++) {
        const struct gemm_call call = {
            .m = filters,
            .n = width,
            .k = depth,
            .alpha = 1.0f,
            .lda = (size_t)a->w_k,
            .ldb = width,
            .ldc = width,
            .a_off = (int64_t)filters * g * a->w_k,
            .b_off = (int64_t)(depth * width) * g,
            .c_off = (int64_t)(filters * width) * g,
        };
        emit_gemm(e, &call, p->in[1].view, columns, product);
    }
}

/* Images first.. of the batch, as many as a->n says. */
static void emit_chunk(struct emit *e, const struct problem *p, const struct conv_args *a, int first,
                       int columns, int product)
{
    const size_t depth = (size_t)shape_count_from(&p->in[1].shape, 1) * (size_t)a->groups;
    const size_t width = (size_t)a->n * (size_t)shape_count_from(&p->out[0].shape, 2);
    const double column_bytes = 4.0 * (double)depth * (double)width,
                 y_bytes = 4.0 * (double)a->k * (double)width;
    const size_t pieces = ceil_div(width, GROUP_SIZE);
    struct step *s = emit_step(e, "conv_im2col", "columns", depth * pieces, GROUP_SIZE);
    step_read_at(s, p->in[0].view, first * a->src_n);
    step_write(s, columns);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, column_bytes + 4.0 * (double)a->n * (double)shape_count_from(&p->in[0].shape, 1));

    emit_products(e, p, a, width, columns, product);

    s = emit_step(e, "conv_im2col", "finish", (size_t)a->k * pieces, GROUP_SIZE);
    step_read(s, product);
    step_epilogue(s, p, &p->in[2]);
    if (p->add.present) /* the residual was read last; its images start with the chunk, too */
        s->buffer[s->n_buffers - 1].offset = first * a->add_n;
    step_write_at(s, p->out[0].view, first * a->dst_n);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, y_bytes * (p->add.present ? 3.0 : 2.0));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_args a = conv_args_of(p);
    const int images = a.n;
    int chunk;
    DECIDED(p, chunk);
    const size_t map = (size_t)shape_count_from(&p->out[0].shape, 2) * (size_t)chunk;
    const size_t depth = (size_t)shape_count_from(&p->in[1].shape, 1) * (size_t)a.groups;
    const int columns = emit_workspace(e, sizeof(float) * map * depth);
    const int product = emit_workspace(e, sizeof(float) * map * (size_t)a.k);
    for (int first = 0; first < images; first += chunk) {
        a.n = images - first < chunk ? images - first : chunk;
        emit_chunk(e, p, &a, first, columns, product);
    }
}

const struct algo_def algo_conv_im2col = {
    .name = "im2col",
    .doc = "column matrix and CLBlast GEMM, the batch in one product where the workspace allows",
    .clblast = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = IM2COL_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
