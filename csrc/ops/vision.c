/* vision.c: sampling by coordinates, regions of interest, and boxes. */
#include "ops/rules.h"

static enum clcnn_status infer_grid_sample(struct infer *in, struct clcnn_err *err)
{
    const struct grid_sample_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *grid = &in->in[1];
    enum clcnn_status st = CLCNN_OK;
    const int n = x->rank - 2;

    if (n != 2 && n != 3)
        return shape_fail(in, err, "input %s must have 2 or 3 spatial dimensions", SHAPE(x));
    if (grid->rank != x->rank || grid->dim[0] != x->dim[0] || grid->dim[n + 1] != n) {
        return shape_fail(in, err, "grid has shape %s, expected [%d, %d output sizes, %d] for input %s",
                          SHAPE(grid), (int)x->dim[0], n, n, SHAPE(x));
    }
    if (a->mode == 2 && n == 3)
        return value_fail(in, err, "mode=cubic has 2 spatial dimensions only, the input is %s", SHAPE(x));
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){.rank = 2, .dim = {x->dim[0], x->dim[1]}};
    TRY(rule_push_range(in, &in->out[0], grid, 1, n + 1, err));
done:
    return st;
}

/* x [N,C,H,W] and rois of `width` numbers; a result for each of them. */
static enum clcnn_status rule_rois(struct infer *in, int width, struct clcnn_err *err)
{
    struct roi_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *rois = &in->in[1];
    enum clcnn_status st;

    if (x->rank != 4)
        return shape_fail(in, err, "input %s must be [N, C, height, width]", SHAPE(x));
    if (rois->rank != 2 || rois->dim[1] != width)
        return shape_fail(in, err, "rois have shape %s, expected [number, %d]", SHAPE(rois), width);
    TRY(rule_spread(in, "output_size", &a->output_size, 2, 1, err));
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){
        .rank = 4, .dim = {rois->dim[0], x->dim[1], a->output_size.v[0], a->output_size.v[1]}};
done:
    return st;
}

static enum clcnn_status infer_roi_align(struct infer *in, struct clcnn_err *err)
{
    const struct roi_attrs *a = in->attrs;
    enum clcnn_status st;

    TRY(rule_rois(in, 4, err));
    TRY(rule_vector(in, 2, "batch_indices", in->in[1].dim[0], err));
    if (a->sampling_ratio < 0)
        return value_fail(in, err, "sampling_ratio=%d must not be negative", (int)a->sampling_ratio);
done:
    return st;
}

static enum clcnn_status infer_max_roi_pool(struct infer *in, struct clcnn_err *err)
{
    return rule_rois(in, 5, err);
}

static enum clcnn_status infer_nms(struct infer *in, struct clcnn_err *err)
{
    const struct nms_attrs *a = in->attrs;
    const struct clcnn_shape *boxes = &in->in[0], *scores = &in->in[1];
    enum clcnn_status st = CLCNN_OK;

    if (boxes->rank != 3 || boxes->dim[2] != 4)
        return shape_fail(in, err, "boxes have shape %s, expected [batch, number, 4]", SHAPE(boxes));
    if (scores->rank != 3 || scores->dim[0] != boxes->dim[0] || scores->dim[2] != boxes->dim[1]) {
        return shape_fail(in, err, "scores have shape %s, expected [%d, classes, %d] for boxes %s",
                          SHAPE(scores), (int)boxes->dim[0], (int)boxes->dim[1], SHAPE(boxes));
    }
    if (a->max_output < 1)
        return value_fail(in, err, "max_output=%d must be at least 1", (int)a->max_output);
    if (!(a->iou_threshold >= 0.0f && a->iou_threshold <= 1.0f))
        return value_fail(in, err, "iou_threshold=%g must be from 0 to 1", (double)a->iou_threshold);
    const int64_t each = a->max_output < boxes->dim[1] ? a->max_output : boxes->dim[1];
    in->n_out = 2;
    in->out[0] = (struct clcnn_shape){0};
    TRY(rule_push(in, &in->out[0], each * scores->dim[0] * scores->dim[1], err));
    TRY(rule_push(in, &in->out[0], 3, err));
    in->out[1] = (struct clcnn_shape){.rank = 1, .dim = {1}};
done:
    return st;
}

static const struct clcnn_attr_info grid_table[] = {
    ATTR_ENUM(grid_sample_attrs, mode, 0, "linear|nearest|cubic",
              "a blend of the elements around, or the nearest one"),
    ATTR_ENUM(grid_sample_attrs, padding_mode, 0, "zeros|border|reflection",
              "what lies outside: 0, the element at the edge, or x mirrored"),
    ATTR(BOOL, grid_sample_attrs, align_corners, 0,
         "-1 and 1 are the centres of the outermost elements, not their edges"),
};
static const struct clcnn_attr_info roi_align_table[] = {
    ATTR_REQUIRED(INTS, roi_attrs, output_size, "height and width of the result for a region"),
    ATTR_ENUM(roi_attrs, mode, 0, "avg|max", "how the samples of a bin become one number"),
    ATTR(INT, roi_attrs, sampling_ratio, 0,
         "samples of a bin along each dimension; 0: as many as it has elements"),
    ATTR(FLOAT, roi_attrs, spatial_scale, 1.0, "size of x over that of the picture that regions refer to"),
    ATTR_ENUM(roi_attrs, coordinates, 0, "half_pixel|output_half_pixel",
              "half_pixel: coordinates less a half, else regions are at least one element large"),
};
static const struct clcnn_attr_info roi_pool_table[] = {
    ATTR_REQUIRED(INTS, roi_attrs, output_size, "height and width of the result for a region"),
    ATTR(FLOAT, roi_attrs, spatial_scale, 1.0, "size of x over that of the picture that regions refer to"),
};
static const struct clcnn_attr_info nms_table[] = {
    ATTR_REQUIRED(INT, nms_attrs, max_output, "most boxes kept for a class of an item"),
    ATTR(FLOAT, nms_attrs, iou_threshold, 0.0,
         "two boxes are the same above this overlap (intersection over union)"),
    ATTR(FLOAT, nms_attrs, score_threshold, -INFINITY, "only scores above it count"),
    ATTR(BOOL, nms_attrs, center_point_box, 0,
         "boxes are x, y of the centre, width, height; else y, x, y, x of corners"),
};

const struct op_def op_grid_sample = {
    .name = "grid_sample",
    .doc = "x[N,C,*spatial] at the places grid[N,*out,2 or 3] gives, x first, from -1 to 1 "
           "(torch.nn.functional)",
    .inputs = "x grid",
    ATTRS(grid_table, grid_sample_attrs),
    .infer = infer_grid_sample,
};

const struct op_def op_roi_align = {
    .name = "roi_align",
    .doc = "regions rois[R,4] (x1, y1, x2, y2) of items batch_indices[R] of x[N,C,H,W], sampled into "
           "output_size bins",
    .inputs = "x rois batch_indices",
    ATTRS(roi_align_table, roi_attrs),
    .types = "f f li > f",
    .infer = infer_roi_align,
};

const struct op_def op_max_roi_pool = {
    .name = "max_roi_pool",
    .doc = "maxima of output_size bins of regions rois[R,5] (item, x1, y1, x2, y2) of x[N,C,H,W]",
    .inputs = "x rois",
    ATTRS(roi_pool_table, roi_attrs),
    .infer = infer_max_roi_pool,
};

const struct op_def op_nms = {
    .name = "nms",
    .doc = "boxes[B,N,4] by scores[B,C,N] without those that overlap better ones: rows (item, class, box), "
           "-1 behind the "
           "last one, and their number",
    .inputs = "boxes scores",
    ATTRS(nms_table, nms_attrs),
    .types = "f f > l l",
    .infer = infer_nms,
};
