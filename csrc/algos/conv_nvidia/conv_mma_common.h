/* conv_mma_common.h: convolutions and linear layers on NVIDIA's tensor cores, kernels/conv_nvidia/conv_mma.cl. */
#ifndef CLCNN_ALGOS_CONV_MMA_COMMON_H
#define CLCNN_ALGOS_CONV_MMA_COMMON_H

#include "algos/conv/conv_common.h"
#include "algos/conv_nvidia/mma_activation.h"
#include "conv/conv_args.h"

/* How many products stand for one of float32 values: three, of tf32 values or on Hopper of halves, keep the error of float32. MMA_TF32: one
 * of tf32 values; MMA_HALF: one of halves, which filters are stored as. */
enum mma_products { MMA_HALF, MMA_TF32, MMA_FLOAT32 = 3 };
enum mma_kernel { MMA_AMPERE, MMA_HOPPER, MMA_KERNELS }; /* conv_mma.cl, conv_wgmma.cl */
struct mma_form {
    enum mma_kernel kernel;
    enum mma_products products;
    int points; /* as in struct conv_packing */
};

/* Whether the device has the kernel's instructions. */
bool mma_on_device(const struct problem *p, enum mma_kernel kernel);
/* Whether channels are too few to be rounded up to what a tensor core multiplies at once. */
bool mma_few_channels(const struct conv_args *a);
/* The cheapest products that the precision allows. */
enum mma_products mma_cheapest(const struct problem *p);
/* Time that the cost model expects, in ns. */
float mma_expected(const struct problem *p, const struct conv_args *a, struct mma_form form);
/* The shorter of those of mma and wgmma. */
float mma_shortest(const struct problem *p, const struct conv_args *a, enum mma_products products);

/* What memory that a plan would not need otherwise is worth, in ns: a layer's scratch, and bytes that its filters take beyond
 * those of the net. */
float mma_memory_price(const struct problem *p, size_t scratch, size_t filters);

/* Operands that the kernel takes as halves, for algo_def.fp16_of: copies to local memory need windows of whole channels. */
unsigned mma_fp16(const struct conv_args *a);

/* What is chosen for a product: its tile, and between how many groups the depth is split. */
struct mma_choice {
    struct mma_form form;
    const struct mma_tile *tile;
    int split_k, share; /* chunks of each group */
    float time;         /* that is expected, in ns */
};
/* a is the convolution, p what its operands and epilogue are taken from: in[0] x, in[1] filters, in[2] bias. */
struct mma_choice mma_choose(const struct problem *p, const struct conv_args *a, struct mma_form form);
/* With the kernel that is expected to be the faster one of those that the device has. */
struct mma_choice mma_choose_kernel(const struct problem *p, const struct conv_args *a,
                                    enum mma_products products, int points);
size_t mma_workspace(const struct problem *p, const struct conv_args *a, const struct mma_choice *c);
/* What is done to pixels on the way: act(scale x + shift), a number a channel; for 1x1 windows without padding. */
struct mma_prologue {
    int scale, shift; /* views */
    enum act act;
    float p0, p1;
};
/* Returns the step of the products, whose cost is the caller's to state; pre may be NULL. */
struct step *emit_mma(struct emit *e, const struct problem *p, const struct conv_args *a,
                      const struct mma_choice *c, const struct mma_prologue *pre);

/* The same where p->out[0] and a->dst_n are those of the windows of 2x2 (POOL_MAX, POOL_MEAN) of a map of even sides. The
 * windows of `a` are no 1x1 ones, nothing is added, and no depth is split. */
struct step *emit_mma_pooled(struct emit *e, const struct problem *p, const struct conv_args *a,
                             const struct mma_choice *c, int pool);

/* The same for a transposed convolution `of`, whose phases are the conv groups of a, phase by phase. */
struct step *emit_mma_phases(struct emit *e, const struct problem *p, const struct conv_args *a,
                             const struct mma_choice *c, const struct conv_args *of);

/* `workspace` and `emit` of an algorithm that differs from others by its form alone, as bytes_<name>() and emit_<name>():
 * the file has bytes_of(p, form) and emit_form(p, e, form). */
#define MMA_FORM(name, ...)                                          \
    static size_t bytes_##name(const struct problem *p)              \
    {                                                                \
        return bytes_of(p, (struct mma_form)__VA_ARGS__);            \
    }                                                                \
    static void emit_##name(const struct problem *p, struct emit *e) \
    {                                                                \
        emit_form(p, e, (struct mma_form)__VA_ARGS__);               \
    }

/* The largest finite weight of each filter, of its transform where there are points: packed beside what is scaled by it. */
size_t filter_sizes_bytes(const struct conv_args *a);
int emit_filter_sizes(struct emit *e, const struct problem *p, const struct conv_args *a, int points);

/* The filters as wgmma_tf32 has them, `block` filters together and `padded` channels between taps. */
int emit_hopper_filters(struct emit *e, const struct problem *p, const struct conv_args *a, int padded,
                        int block);

/* Filters packed for kernels/conv_nvidia/conv_mma.cl as depths (tap * padded + channel) up to `depth`. */
struct mma_filters {
    int padded, depth;
    enum mma_products products;
};
size_t mma_filters_workspace(const struct problem *p, const struct conv_args *a, struct mma_filters filters);
int emit_mma_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                     struct mma_filters filters);

#endif
