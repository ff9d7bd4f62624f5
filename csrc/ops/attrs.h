/* attrs.h: the attributes of operators, as C structs. */
#ifndef CLCNN_OPS_ATTRS_H
#define CLCNN_OPS_ATTRS_H

#include "base/base.h"

struct ints {
    int32_t n, v[2 * CLCNN_MAX_RANK];
};
struct floats {
    int32_t n;
    float v[CLCNN_MAX_RANK];
};

/* Attribute structs that several files read. Names equal the public attribute names. */
/* conv and conv_transpose; canonical: every list has one entry per spatial dim, padding two */
struct conv_attrs {
    struct ints stride, padding, dilation, output_padding;
    int32_t groups;
};
struct filter_attrs { /* conv_filter_grad */
    struct conv_attrs conv;
    struct ints kernel_size;
};
struct deform_attrs {
    struct conv_attrs conv;
    int32_t offset_groups;
};
struct grid_sample_attrs {
    int32_t mode, padding_mode, align_corners;
};
struct roi_attrs { /* roi_align, max_roi_pool */
    struct ints output_size;
    int32_t mode, sampling_ratio, coordinates;
    float spatial_scale;
};
struct nms_attrs {
    int32_t max_output, center_point_box;
    float iou_threshold, score_threshold;
};
struct pool_attrs {
    struct ints kernel_size, stride, padding, dilation;
    int32_t ceil_mode, count_include_pad;
};
struct max_pool_grad_attrs {
    struct pool_attrs pool;
    int32_t rectified;
};
struct lp_pool_attrs {
    struct pool_attrs pool;
    int32_t p;
};
struct max_indices_attrs {
    struct pool_attrs pool;
    int32_t storage_order; /* 1: the spatial dimensions of an index in column-major order */
};
struct adaptive_attrs {
    struct ints output_size;
};
struct loss_attrs {    /* cross_entropy */
    int32_t reduction; /* mean, none */
    float label_smoothing;
};
struct norm_attrs { /* batch_norm */
    float eps;
};
struct norm_train_attrs { /* batch_norm_train, batch_norm_train_grad */
    float eps, low, high;
};
struct rows_norm_attrs {       /* instance_norm, group_norm, layer_norm, rms_norm, l2_norm */
    int32_t groups, dim, dims; /* canonical: dims >= 1 where the operator has a dim */
    float eps;
};
struct sgd_attrs {
    float momentum, weight_decay;
    int32_t nesterov;
};
struct adamw_attrs {
    float beta1, beta2, epsilon, weight_decay;
    int32_t decoupled;
};
struct lrn_attrs {
    int32_t size;
    float alpha, beta, k;
};
struct gemm_attrs {
    float alpha, beta;
    int32_t trans_a, trans_b;
};
/* Where matrices lie in a value of another shape: their strides along items, heads, rows, columns, and runs of items are items[i]
 * batch strides of that value and elements[i] elements. */
#define VIEW_STRIDES 5
struct operand_view {
    int64_t offset, items[VIEW_STRIDES], elements[VIEW_STRIDES];
};
struct matmul_attrs { /* all zero but where a rewrite has set them */
    int32_t viewed;   /* operands are views, as follows, and the product is multiplied by alpha */
    float alpha;
    int32_t size[5];           /* items, heads, rows of a, columns of b, columns of a */
    int32_t run;               /* items side by side in views, where runs of them lie elsewhere, else 1 */
    struct clcnn_shape result; /* of the output */
    struct operand_view in[2], out;
};
struct eltwise_attrs { /* every unary op: at most two numbers */
    float p0, p1;
    int32_t choice; /* of an enumeration: not the first one has a function of its own (gelu: none, tanh) */
};
struct dim_attrs { /* softmax, log_softmax, concat, gather, gather_elements */
    int32_t dim;
};
struct gather_nd_attrs {
    int32_t batch_dims;
};
struct scatter_attrs {
    int32_t dim, reduction;
};
struct line_attrs { /* argmax, argmin, cumsum: along one dimension */
    int32_t dim, keepdims, select_last_index, exclusive, reverse;
};
struct topk_attrs {
    int32_t k, dim, largest, sorted;
};
struct sequence_attrs { /* lstm, gru */
    int32_t reverse;
};
struct reduce_attrs {
    struct ints axes;
    int32_t keepdims;
};
struct split_attrs {
    struct ints sizes;
    int32_t dim;
};
struct slice_attrs {
    struct ints starts, ends, axes, steps;
};
enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP, PAD_ROLL };
struct pad_attrs {
    struct ints pads;
    float value;
    int32_t mode; /* a PAD_ name */
};
struct shape_attrs { /* reshape, expand */
    struct ints shape;
};
struct flatten_attrs {
    int32_t start_dim, end_dim;
};
struct axes_attrs { /* transpose (perm), squeeze, unsqueeze */
    struct ints axes;
};
enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum {
    RESIZE_HALF_PIXEL,
    RESIZE_ASYMMETRIC,
    RESIZE_ALIGN_CORNERS,
    RESIZE_PYTORCH_HALF_PIXEL,
    RESIZE_HALF_PIXEL_SYMMETRIC,
    RESIZE_TF_CROP_AND_RESIZE
};
struct resize_attrs {
    struct ints size;
    struct floats scales;
    int32_t mode, coordinates, nearest_rounding;
    float cubic_coeff_a, extrapolation_value;
    int32_t exclude_outside, antialias;
    struct floats roi; /* starts, then ends, over the size less one */
};
struct rotary_attrs {
    int32_t interleaved;
};
struct dropout_attrs {
    float p;
    int32_t layer;
};
#define ELEMENTWISE_PARTS 4
struct op_def;
/* Made by the rewriter: element-wise functions one after the other. */
struct elementwise_attrs {
    int32_t n;
    struct elementwise_part {
        const struct op_def *op;
        struct eltwise_attrs attrs;
        bool turned; /* of two arguments the other one comes first */
    } part[ELEMENTWISE_PARTS];
};
struct separable_attrs { /* made by the rewriter: depthwise conv, its activation, then a 1x1 conv */
    struct conv_attrs dw;
    int32_t mid_act; /* enum act */
    float mid_p0, mid_p1;
    int32_t dw_bias, pw_bias; /* whether inputs 2 and 4 are present */
};
struct inverted_residual_attrs { /* made by the rewriter: 1x1 conv, its activation, then a separable one */
    int32_t expand_act;          /* enum act */
    float expand_p0, expand_p1;
    struct separable_attrs tail;
};
struct squeeze_excite_attrs { /* made by the rewriter: means of channels, a layer, its activation, a layer */
    int32_t mid_act;          /* enum act */
    float mid_p0, mid_p1;
};
/* All steps of an lstm or a gru: weights that stay in the registers of one group, and what its units are rounded up to; the same
 * where all groups share the weights, and the units that each of them has. */
#define SEQUENCE_MOST_WEIGHTS (4 * 112 * 112)
#define SEQUENCE_TOGETHER 16
#define SEQUENCE_SHARED_TOGETHER 128
#define SEQUENCE_UNITS 8
/* Whether one group has registers for the weights. */
bool sequence_fits_group(size_t gates, size_t units);
/* Rows that such a group takes at a time, and how often (kernels/matmul/sequence_shared.cl), of a state of [rows, units], where so many
 * groups run at once; 0: the layer has no room in their registers and local memory. */
struct sequence_rows {
    int at_once, parts;
};
struct sequence_rows sequence_shared_rows(size_t units, size_t rows, size_t groups);
#define ATTENTION_MOST_COLUMNS 256 /* of q and v for attention in one kernel */
struct attention_attrs {
    float scale;
    int32_t is_causal;
    int32_t size[6]; /* items, heads, rows of q, rows of k, columns of q, columns of v */
    int32_t run;     /* items side by side in views, where runs of them lie elsewhere, else 1 */
    int32_t viewed;  /* by a rewrite: operands are views, as follows; attn_mask has 4 dimensions, of which the
                                    first may be a part of the items, which is used again */
    struct clcnn_shape result; /* of the output */
    struct operand_view in[3], out;
    int32_t
        wide; /* not 0: attn_mask has so many columns, used again and again, and a fifth input is added whose columns
                                    are each used for so many; `mask` says where the two lie */
    struct operand_view mask[2];
};
struct conv_pool_attrs { /* made by the rewriter: a conv, its epilogue, small windows */
    struct conv_attrs conv;
    struct pool_attrs pool;
    int32_t average;    /* 0: max_pool */
    struct ints middle; /* spatial sizes between the two */
};
/* Maps of bytes, made by the rewriter (csrc/ops/byte_maps.c): a byte stands for (byte - zero) * scale. */
struct to_bytes_attrs {
    float scale;
    int32_t zero, block; /* channels of a block: 4 or 16 */
    int32_t rows;        /* 1: channels are the last dimension, all others together pixels */
};
struct from_bytes_attrs {
    float scale;
    int32_t zero, channels, rank; /* rank of the result: 4, or 2 for maps of one pixel */
    struct ints rows;             /* of rows: all dimensions but the last, that of channels; n 0: a map */
};
struct byte_conv_attrs {
    struct conv_attrs conv;
    int32_t x_zero, y_zero;
    /* With a map that is added: the result is own * y + other * add + shift, where y are the bytes that the convolution gives by itself. */
    float own, other, shift;
    int32_t own_last; /* own * y is added last */
};
struct byte_join_attrs { /* blocks of channels of all inputs together */
    int32_t first, count;
};
struct byte_mean_attrs { /* byte_mean, byte_scale */
    float factor;        /* of the sum of a channel; of a number a channel */
    int32_t x_zero, y_zero;
};

#endif
