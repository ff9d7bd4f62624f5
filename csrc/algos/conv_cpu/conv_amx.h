/* conv_amx.h: convolutions and linear layers by tiles (kernels/conv_cpu/amx_products.clh). */
#ifndef CLCNN_ALGOS_CONV_AMX_H
#define CLCNN_ALGOS_CONV_AMX_H

#include "algos/common/blocked.h"
#include "conv_cpu/amx_args.h"

/* For REQUIRE. */
#define NARROW_LANES "tiles of bfloat16 end in vectors of 16 floats"
/* For PREFER. */
#define NO_TILES "the processor has no tiles of bfloat16 (AMX), or the driver takes no assembly"
#define SPLIT_FILTERS "splitting filters in every run takes more than the products save"
#define FEW_POSITIONS "few pixels or rows: filters are waited for, whose parts take more memory"
#define SHARED "few pixels and filters: a step that splits for all groups takes what the products save"
#define THIN "few channels or filters: splitting pixels takes what the products save"
#define TILES_BUILT_LATER "the kernel that is soon built has other products"

/* How positions and filters are shared out among groups of the products, and positions among those that split. */
struct amx_cut {
    struct conv_amx_args args; /* all but the epilogue */
    size_t groups, splits;
};
/* What tiles hold: floats as three parts of bfloat16, whole numbers as one, or bytes. */
enum amx_format { AMX_PARTS, AMX_WHOLE, AMX_BYTES };
/* a: the convolution; span: chunks of channels that a block of filters reads, 0: all; where x and y are rows, a row a pixel of an image of one row, they are x_row and y_row elements apart; else
 * these are 0. */
struct amx_cut amx_cut_of(const struct problem *p, enum amx_format format, const struct conv_args *a,
                          int span, int64_t x_row, int64_t y_row);
/* Of a layer of floats. */
enum amx_format amx_format_of(const struct problem *p);
/* algo_def.effort_of() of all. */
double amx_effort(const struct problem *p, const struct amx_cut *c);
/* Of the convolution `amx`; infinite where it is not preferred. */
double amx_conv_effort(const struct problem *p);
bool amx_pays(const struct problem *p, const struct amx_cut *c, int fewest_channels, struct why *why);
size_t amx_position_bytes(const struct conv_amx_args *a);
size_t amx_workspace(const struct problem *p, const struct amx_cut *c);
/* The last operands of a step: it reads positions or writes them, and writes y or has none. */
void amx_step_results(struct step *s, const struct conv_amx_args *a, int positions, int y);
/* What splits x: `begin` emits a step with what it reads, x only if `reads`, and its defines; `end` gives it the arguments. */
struct amx_source {
    void *of;
    struct step *(*begin)(struct emit *e, void *of, size_t groups, bool reads);
    void (*end)(struct step *s, void *of, const struct conv_amx_args *a);
};
/* The steps; that of the products has no cost yet. p: the convolution, or linear layer. */
struct step *emit_amx(struct emit *e, const struct problem *p, const struct amx_cut *c,
                      const struct amx_source *source);
struct step *emit_amx_conv(struct emit *e, const struct problem *p, const struct amx_cut *c);

#endif
