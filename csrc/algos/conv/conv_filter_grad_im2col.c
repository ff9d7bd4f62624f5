/* conv_filter_grad_im2col: the gradient of filters as a matrix product, dy[K][pixels] times the windows of x as columns
 * (kernels/conv/conv_filter_grad_im2col.cl, on other devices than CPUs conv_im2col.cl), by whatever algorithm products get here.
 *
 * As many images as the workspace limit allows share one product; the products of such chunks add up in their order. */
#include "algos/common/rows.h"
#include "algos/conv/conv_filter_grad.h"

/* Lines of a CPU's work-group; and columns of a product may be rounded up to so many when they are packed, within the same limit. */
enum { CPU_LINES = 64, PANEL = 32 };

/* Floats that an image's windows take. */
static size_t columns_of(const struct conv_args *a)
{
    return round_up((size_t)a->c * (size_t)conv_taps(a), PANEL) * (size_t)conv_map(a);
}

/* Images of a chunk: all that fit, chunks of nearly equal size. */
static int chunk_of(const struct problem *p, const struct conv_args *a)
{
    const size_t fit = p->workspace_limit / sizeof(float) / columns_of(a);
    const size_t chunks = ceil_div((size_t)a->n, fit > 0 ? fit : 1);
    return (int)ceil_div((size_t)a->n, chunks);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, a.groups == 1, "groups would need a product each");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_filter_grad_args(p);
    return sizeof(float) * columns_of(&a) * (size_t)chunk_of(p, &a);
}

/* The windows of a->n images from image `first` on. A line of outputs is a CPU's work-item, one output another's. */
static void emit_columns(struct emit *e, const struct problem *p, const struct conv_args *a, int first,
                         int view)
{
    const size_t rows = (size_t)a->c * (size_t)conv_taps(a), width = conv_pixels(a);
    struct step *s;
    if (cpu_device(p->device))
        s = emit_step(e, "conv_filter_grad_im2col", "main",
                      ceil_div(rows * (width / (size_t)a->out[2]), CPU_LINES), CPU_LINES);
    else
        s = emit_step(e, "conv_im2col", "columns", rows * ceil_div(width, GROUP_SIZE), GROUP_SIZE);
    step_read_at(s, p->in[0].view, first * a->src_n);
    step_write(s, view);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, 8.0 * (double)rows * (double)width);
}

/* A problem of another operator inside this one. */
static struct problem part(const struct problem *p, const struct op_def *op, const void *attrs,
                           const struct operand *in, int n_in, const struct operand *out)
{
    struct problem q = *p;
    q.op = op;
    q.attrs = attrs;
    q.in = in;
    q.n_in = n_in;
    q.out = out;
    q.n_out = 1;
    q.precision =
        CLCNN_PRECISION_STRICT; /* whatever the product is made with, errors are as this algorithm says */
    return q;
}

static struct operand matrix(int32_t rows, int32_t columns, int64_t stride, int view)
{
    return (struct operand){
        .shape = {.rank = 2, .dim = {rows, columns}}, .view = view, .batch_stride = stride, .present = true};
}

/* dy of a->n images from `view` on as a matrix of a row a filter. */
static struct operand emit_slopes(struct emit *e, const struct problem *p, const struct conv_args *a,
                                  int view)
{
    const int32_t map = (int32_t)conv_map(a);
    if (a->n == 1)
        return matrix(a->k, map, map, view);
    const struct axes_attrs turned = {.axes = {3, {1, 0, 2}}};
    const struct operand dy = {.shape = {.rank = 3, .dim = {a->n, a->k, map}},
                               .view = view,
                               .batch_stride = a->dst_n,
                               .present = true};
    struct operand rows = {
        .shape = {.rank = 3, .dim = {a->k, a->n, map}}, .view = VIEW_NONE, .present = true};
    emit_middle(e, &rows);
    const struct problem q = part(p, &op_transpose, &turned, &dy, 1, &rows);
    emit_sub(e, &q);
    return matrix(a->k, a->n * map, rows.batch_stride, rows.view);
}

/* dw = dy times columns, plus `sum` where that is present. */
static void emit_product(struct emit *e, const struct problem *p, struct operand dy, struct operand columns,
                         struct operand sum, const struct operand *dw)
{
    const struct gemm_attrs attrs = {.alpha = 1.0f, .beta = 1.0f, .trans_b = 1};
    const struct operand in[] = {dy, columns, sum};
    const struct problem q = part(p, &op_gemm, &attrs, in, 3, dw);
    emit_sub(e, &q);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_args a = conv_filter_grad_args(p);
    const int images = a.n, chunk = chunk_of(p, &a), rows = a.c * conv_taps(&a);
    const int view = emit_workspace(e, sizeof(float) * columns_of(&a) * (size_t)chunk);
    struct operand sum = {.present = false};
    for (int first = 0; first < images; first += chunk) {
        a.n = images - first < chunk ? images - first : chunk;
        const int32_t width = (int32_t)conv_pixels(&a);
        emit_columns(e, p, &a, first, view);
        struct operand dw = matrix(a.k, rows, p->out[0].batch_stride, p->out[0].view);
        if (first + chunk < images)
            emit_middle(e, &dw);
        const struct operand dy = emit_slopes(e, p, &a, emit_view_from(e, p->in[1].view, first * a.dst_n));
        emit_product(e, p, dy, matrix(rows, width, width, view), sum, &dw);
        sum = dw;
    }
}

const struct algo_def algo_conv_filter_grad_im2col = {
    .name = "im2col",
    .doc = "windows as columns of a matrix and a product with dy, chunks of the batch one after the other",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
