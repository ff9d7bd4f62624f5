/* rewrite.c: the passes in their order. */
#include "graph/rewrite.h"

#include <stdlib.h>

static enum clcnn_status run_pass(struct rewriter *r, enum clcnn_status (*pass)(struct rewriter *r))
{
    const enum clcnn_status st = rewrite_count_anew(r);
    return st == CLCNN_OK ? pass(r) : st;
}

enum clcnn_status graph_rewrite(struct clcnn_graph *g, const struct rewrite_options *options,
                                struct notes *notes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct rewriter r = {.g = g, .options = options, .notes = notes, .err = err};
    enum clcnn_status (*const passes[])(struct rewriter *) = {
        rewrite_to_bytes,        /* first: others move steps of rounding away from the sums that they round */
        rewrite_drop_identities, /* before all others: they hide the patterns below */
        rewrite_drop_expands,
        rewrite_find_rolls,
        rewrite_find_rotary,     /* before moves are joined: it knows them as exporters write them */
        rewrite_move_factors,    /* before attention, which they would forbid */
        rewrite_merge_attention, /* before moves are joined: it knows them as exporters write them */
        rewrite_find_cells,      /* before additions become epilogues of their products */
        rewrite_find_sequences,  /* of these, and before slices are joined with other moves */
        rewrite_join_moves,
        rewrite_drop_identities,  /* again: moves that undo each other became such */
        rewrite_find_activations, /* before epilogues, which take them */
        rewrite_find_row_norms,
        rewrite_products,          /* before epilogues: a bias is not a residual */
        rewrite_cancel_transposes, /* after norms and products, which may stand between them */
        rewrite_join_gates,        /* before additions of constants are taken by what is near */
        rewrite_take_scales,       /* after what takes them, and before additions become epilogues */
        rewrite_fold_batch_norm,   /* before epilogues, which would take its place */
        rewrite_merge_branches,    /* after norms became weights, and before additions become epilogues */
        rewrite_fold_batch_norm,   /* again: a norm of a sum may be one of a convolution now */
        rewrite_norm_into_readers, /* after layers before it; before epilogues: an activation forbids it */
        rewrite_patches_to_rows,   /* after norms became weights, and before moves are joined */
        rewrite_depthwise_tokens,  /* after norms became weights; before moves are joined, and epilogues */
        rewrite_join_moves,        /* again: reshapes around a norm that became weights undo each other */
        rewrite_drop_identities,
        rewrite_transposed_to_conv, /* before merges, which take convolutions */
        rewrite_find_splits,        /* after products became linear layers */
        rewrite_fuse_epilogues,     /* before merges, which carry them */
        rewrite_split_products,     /* after activations that all parts share became theirs */
        rewrite_fuse_epilogues,     /* again: what follows one part */
        rewrite_cancel_transposes, /* again: parts that are multiplied, and what is between the moves, became layers */
        rewrite_view_products, /* after all that takes factors, slices and transposes, and before epilogues behind these */
        rewrite_fuse_epilogues, /* again: what follows the second one */
        rewrite_masks,
        rewrite_channel_orders, /* after epilogues: what is between the moves is gone; before merges, too */
        rewrite_pool_before_pointwise, /* after epilogues: an activation between the two forbids it */
        rewrite_norm_to_depthwise,
        rewrite_merge_separable, /* before the next, which takes what convolutions are left */
        rewrite_merge_inverted_residual,
        rewrite_merge_conv_pool,
        rewrite_whole_maps, /* after folds and epilogues, which it carries, and merges, which take convolutions */
        rewrite_tokens_to_maps,   /* after all that joins moves, which would take it back */
        rewrite_mean_to_pool,     /* late: means are parts of other patterns */
        rewrite_squeeze_excite,   /* after means became pools, and activations epilogues */
        rewrite_join_elementwise, /* last: what no other layer took */
    };
    for (int i = 0; i < COUNT_OF(passes); i++)
        TRY(run_pass(&r, passes[i]));
done:
    free(r.uses);
    free(r.scratch);
    return st;
}
