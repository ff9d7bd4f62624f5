/* plan.h: a compiled network. The blueprint is what compile decided (shared by clones, never changes); the plan adds the
 * memory, kernels and queue of one runner. */
#ifndef CLCNN_PLAN_H
#define CLCNN_PLAN_H

#include <stdatomic.h>

#include "base/gate.h"
#include "graph/graph.h"
#include "plan/emit.h"
#include "runtime/runtime.h"

/* A piece of arena memory with one life: the home of one or more values, or scratch. */
struct storage {
    const char *name;                  /* of the value or layer, for messages */
    int64_t items, item_elems, stride; /* elements: items of item_elems, stride apart */
    size_t elem;                       /* bytes of an element */
    int first, last; /* steps that touch it; -1: written before the first, n_steps: read after the last */
    bool scratch;
    struct storage *home; /* whose memory it takes over, NULL: its own */
    size_t offset, bytes; /* in the arena; bytes includes guard bands, offset points past the first */
};

/* A constant in the layout that steps read. */
struct packed {
    int value;        /* constant of the graph */
    char packing[96]; /* "" for the constant as it is */
    int next; /* another layout of the same constant, -1: none; the list starts at the constant as it is */
    size_t bytes;
    struct step *setup; /* fills it; NULL: upload as it is */
    bool used;          /* read by a step of the run (a raw constant may only feed setup steps) */
    float
        largest; /* size of the constant's elements, infinite when one is not finite; -1: not looked for yet */
    const char *layer;
    struct weight *weight;
    bool fresh; /* this blueprint is the one that fills it */
};

/* What steps refer to: memory from an offset on, of a storage, a packed constant or an array of the state. */
struct view {
    int storage, packed, state; /* all but one of them are -1, or all: counters */
    int64_t offset;             /* elements into the storage's first item; counters before these */
};

/* What became of an algorithm that a layer could have. Words for them: describe.c. */
enum candidate_verdict {
    CANDIDATE_REJECTED,
    CANDIDATE_PASSED_OVER,
    CANDIDATE_APPLIES, /* until one of these is chosen; then it is not needed */
    CANDIDATE_CHOSEN,
    CANDIDATE_CHOSEN_BY_OVERRIDE,
    CANDIDATE_CHOSEN_BY_MEASUREMENT,
    CANDIDATE_CHOSEN_AS_LIKE,
    CANDIDATE_CHOSEN_AS_SOON_BUILT,
};
struct candidate {
    const struct algo_def *algo;
    enum candidate_verdict verdict;
    const char *reason;
    size_t workspace;
    double effort; /* see clcnn_candidate_info */
    bool fits;     /* the operands have the layouts that it takes and gives */
    bool asked;    /* algo_preferred() */
};
/* The algorithms of a node, judged, and for which problem: a copy, whose inputs and outputs are in `ops`. */
struct choice {
    struct candidate *candidates; /* NULL: its layer has them */
    struct decision *decisions;   /* of each of them */
    int n;
    struct problem of;
    struct operand *ops;
};
struct layer {
    int node; /* of the rewritten graph */
    char key[CLCNN_KEY_MAX];
    const struct algo_def *algo;
    struct decision decision;
    double effort; /* of the algorithm, 0: not known */
    char fused[48];
    struct candidate *candidates;
    int n_candidates;
    size_t workspace, weight_bytes;
    bool sub;  /* chosen inside another layer (emit_sub) */
    bool fp16; /* reads or writes maps that are stored as halves */
    const struct op_def *op;
    struct clcnn_shape input, output;
    struct clcnn_zeros zeros;
    double macs;
};

struct io_view {
    struct clcnn_io_info info; /* name borrowed from the graph copy */
    int view;
    int64_t batch_stride;
};

/* An input or output whose memory a run may bring along: it is all of a storage. */
#define MAX_ZERO_COPY 16 /* half of them inputs */
struct zero_copy_io {
    int storage, io; /* index of the input or output */
    bool output;
    bool lent; /* an input without memory in the arena: runs that cannot borrow have a copy */
};

struct blueprint {
    atomic_int refs;
    atomic_int open; /* plans that are not closed: the last one to close gives the weights back */
    struct clcnn_device *dev;
    struct clcnn_device_info device; /* with what was measured of it */
    /* the rewritten copy: names live here; folded weights are freed after packing */
    struct clcnn_graph *graph;
    struct notes notes;
    bool guard;
    bool fp16_activations; /* maps between steps are stored so where they can be */
    enum clcnn_chain chain;
    bool chained, rows_elsewhere; /* as in struct problem */

    struct storage *storages;
    struct packed *packed;
    struct view *views;
    struct step **steps; /* those that commit last */
    struct layer *layers;
    struct choice *choices; /* of nodes, until they are layers */
    int n_storages, n_packed, n_views, n_steps, n_layers, n_choices;
    int n_commits;             /* of the steps */
    struct clcnn_state *state; /* that the graph's states are in; NULL: it has none */
    int cap_storages, cap_packed, cap_views, cap_steps, cap_layers, cap_choices;

    struct io_view *inputs, *outputs;
    int n_inputs, n_outputs;
    struct zero_copy_io zero_copy[MAX_ZERO_COPY];
    int n_zero_copy;

    pthread_mutex_t lock; /* of `programs`, once there are clones */
    /* per step; NULL for library calls, and for steps of chains until one is launched */
    struct program **programs;
    /* one step of every variant that chains can run; NULL: there are no chains */
    const struct step **variants;
    int *variant, n_variants;      /* per step: index of its variant, -1: always a launch of its own */
    int *wait;                     /* per step: so many of the first steps are done before it begins */
    struct chain_weights *weights; /* per step, for chains */
    bool chain_asks;               /* some steps of the chain hang on a word of memory */
    struct blueprint *like;        /* whose kernels serve here too, where they can; NULL: none */
    bool new_programs; /* some were not in memory: drivers may generate their code at the first launch */
    struct program *chain_program;
    int *gemm_scratch;   /* view per step, VIEW_NONE without one */
    char **defines_text; /* per step, for step_info */
    size_t least_arena;  /* known before algorithms are chosen */
    size_t arena_bytes;
    size_t n_counters; /* behind the arena, each as large as a float */
    double rate;       /* queue_rate() of the first plan's first run; 0: not yet */
    struct clcnn_plan_stats stats;
};

struct zero_copy {
    struct zero_copy_io of;
    cl_mem own, now; /* its memory in the arena; what kernels have, NULL: what a run before has given back */
    void *host;      /* the caller's memory in a run whose steps the host calls; NULL: it is `own` */
    cl_mem borrowed; /* for the run that is under way; NULL: what the caller has is copied */
    struct memory copy; /* where to, if it is lent */
    struct zero_copy_user {
        int step, buffer;
    } * users;
    int n_users, cap_users;
};

struct clcnn_plan {
    struct blueprint *bp;
    struct gate gate;   /* held from begin to the end of a run */
    atomic_bool closed; /* written inside the gate, read anywhere */
    bool counted;       /* holds the blueprint open */
    struct memory arena;
    struct launch *launches;
    struct chain **chains;   /* NULL: none */
    atomic_bool called;      /* runs call the chains' code, and launch nothing */
    atomic_bool left_chains; /* a work-group waited too long, and the plan launches every step since */
    atomic_int launch_count; /* kernels and library calls of a run */
    struct queue *queue;
    struct clcnn_io *io_copy; /* outputs of the run in flight, then its inputs */
    struct relay_of_output {
        int job; /* -1: it has none */
        bool begun;
    } * relay;               /* per output; NULL: no run has had any */
    bool relays;             /* the run in flight has some */
    bool fetched;            /* outputs have been asked for */
    bool commit, committing; /* the run in flight is to commit; it does */
    bool in_state;           /* it is the run's turn on the state */
    double started_ms;       /* when it began */
    struct zero_copy zero_copy[MAX_ZERO_COPY];
};

/* blueprint.c: its lists grow while it is compiled. */
int blueprint_view(struct blueprint *bp, int storage, int packed, int64_t offset); /* -1: out of memory */
int blueprint_view_as(struct blueprint *bp, struct view of);                       /* likewise */
int blueprint_storage(struct blueprint *bp, const char *name, int64_t items, int64_t item_elems,
                      bool pad_items, bool scratch);
/* as it is, for packed[] */
int blueprint_constant(struct blueprint *bp, int value, size_t bytes, const char *layer);
/* packed[raw], a constant as it is, in another layout. */
int blueprint_packed(struct blueprint *bp, int raw, const char *packing, size_t bytes, const char *layer);
void choice_free(struct choice *c);
/* Plans open and close on a blueprint; the weights go with the last one. Open fails once that has happened. */
bool blueprint_open(struct blueprint *bp);
void blueprint_close(struct blueprint *bp);
void blueprint_retain(struct blueprint *bp);
void blueprint_release(struct blueprint *bp);

/* views.c: where every value lives: a view each, as operands. */
struct value_views {
    struct operand *operand; /* per value */
    bool *skip;              /* per node: nothing to do, its outputs are views */
};
enum clcnn_status find_value_views(struct value_views *out, struct blueprint *bp,
                                   const struct clcnn_plan_options *options, struct clcnn_err *err);
void value_views_free(struct value_views *views);
/* The storage that a value lies in, -1: none. */
int value_storage(const struct blueprint *bp, const struct value_views *views, int value);

/* emit.c: the builder that algorithms write into. */
struct emit {
    struct blueprint *bp;
    const struct clcnn_plan_options *options;
    const char *layer;
    const struct op_def *op;
    const struct algo_def *algo;
    int layer_index;
    /* per storage that values have: the one of the batch slice that is being emitted, -1: none yet */
    int *slice_storage;
    int again; /* the next layer of a node that was emitted before, for other items; -1: they are new */
    int only_if_view; /* emit_only_if() */
    int64_t only_if_offset;
    enum clcnn_status status; /* first error, kept until the planner looks */
    struct clcnn_err *err;
    struct step sink;    /* what emit functions hand out after an error */
    bool *override_used; /* per override: some layer had that name */
};

/* problem.c: what a node asks of an algorithm. */
struct operand operand_of_value(const struct value *v); /* shape and kind; no place yet */
void operand_take_items(struct operand *o, int items);  /* 0: all */
/* Items of an input of the node, the operand o, that it reads at a time, 0: all, as of weights. */
int node_input_items(const struct node *n, int input, const struct operand *o);
/* Input `input` of this concat node was written straight into its view of the output. */
bool concat_input_in_place(const struct blueprint *bp, const struct value_views *views, const struct node *n,
                           int input);
/* Sets what the arena must hold at least: the activations of the node that has most of them. */
void blueprint_least_arena(struct blueprint *bp);
struct problem problem_of_node(const struct blueprint *bp, const struct clcnn_plan_options *options,
                               const struct node *n, const struct operand *operands);
/* What a node asks before it is settled in which layouts its operands lie; `ops` takes its inputs, then its outputs. */
struct problem open_problem(struct operand *ops, const struct blueprint *bp,
                            const struct clcnn_plan_options *options, const struct node *n);
/* What the node asks as its values lie now, of the first slice; the caller frees *ops. */
enum clcnn_status node_problem_now(struct problem *out, struct operand **ops, struct blueprint *bp,
                                   const struct value_views *views, const struct clcnn_plan_options *options,
                                   const struct node *n, struct clcnn_err *err);
/* What an algorithm is shown of batch slice `slice` of a node (0 where there are none); `ops` takes its inputs, then its outputs. */
enum clcnn_status node_problem(struct problem *out, struct operand *ops, struct emit *e,
                               const struct value_views *views, const struct node *n, int slice);

/* select.c: a node's algorithms are judged once, when layouts are chosen or the maps that are stored as halves, and the
 * judgement is carried on to its layer. Only where the problem has changed since is it made anew. */
/* Which override names the layer, or a part of a merged one; -1: none does. */
int override_of_layer(const struct clcnn_plan_options *o, const char *layer);
/* The same, or else the one that is for every layer with such an algorithm. */
int override_of(const struct clcnn_plan_options *o, const struct problem *p);
bool override_is_for_all(const struct clcnn_override *o);
const struct algo_def *
quick_algo(const struct op_def *op); /* the one that is soon built; NULL: there is none */
bool algo_is_rejected(const struct algo_def *algo, const struct problem *p);
/* What the planner would take as far as things stand. */
enum clcnn_status select_for_node(const struct algo_def **out, struct blueprint *bp, struct node *n,
                                  const struct problem *p, const struct clcnn_plan_options *options,
                                  struct clcnn_err *err);
/* What the rules would choose, if nothing else says otherwise: no override, no measured choice, no plan to be like; else NULL. */
const struct algo_def *algo_undisputed(const struct problem *p, const struct clcnn_plan_options *options);
/* Takes it, for the layer that is being emitted; n: its node, NULL: a part of a merged layer. */
enum clcnn_status select_for_layer(struct emit *e, struct node *n, const struct problem *p,
                                   struct clcnn_err *err);

/* take_apart.c */
enum clcnn_status blueprint_take_apart(struct blueprint *bp, const struct clcnn_plan_options *options,
                                       struct clcnn_err *err);

/* wisdom.c */
void problem_key(char out[CLCNN_KEY_MAX], const struct problem *p); /* "" where it would be too long */
const char *wisdom_find(const struct problem *p); /* name of the algorithm measured to be fastest, or NULL */

/* like.c */
/* The blueprint that a compile is to be like when it is to be like this plan, NULL: none; so that all are like the first one. */
struct blueprint *like_of(const struct clcnn_device *dev, const struct clcnn_plan *plan);
const char *like_find(const struct problem *p); /* the algorithm of the same layer there, or NULL */
void like_variants(struct blueprint *bp);       /* takes over the variants of its chain */

/* layout.c */
enum clcnn_status layout_values(struct blueprint *bp, const struct clcnn_plan_options *options,
                                struct clcnn_err *err);

/* fp16_activations.c: chooses the maps that are stored as halves, once every value is a view. */
enum clcnn_status choose_fp16_activations(struct blueprint *bp, const struct value_views *views,
                                          const struct clcnn_plan_options *options, struct clcnn_err *err);

/* maps_in_cores.c: chooses the maps that are left as scaled halves for those who multiply them, after all of this. */
/* Whether precision asks for it. */
bool plan_has_cores(const struct clcnn_plan_options *options);
enum clcnn_status choose_cores(struct blueprint *bp, struct value_views *views,
                               const struct clcnn_plan_options *options, struct clcnn_err *err);

/* batch_slices.c: runs of nodes that compute a few items of the batch at a time. */
/* Sets node.items, before values are laid out; */
enum clcnn_status blueprint_batch_slices(struct blueprint *bp, const struct clcnn_plan_options *options,
                                         struct clcnn_err *err);
/* The least `whole_below` for which more layers at the end compute all items; 0: all do. */
uint64_t batch_slices_longer_tail(const struct clcnn_graph *g, uint64_t whole_below);
/* and value.items, after that: of values that no one outside their sliced span reads. */
enum clcnn_status blueprint_private_values(struct blueprint *bp, struct clcnn_err *err);
/* The node after the last one of the sliced span, or of the single node, that begins here; *slices: how often it is run. */
int sliced_span_end(const struct clcnn_graph *g, int first, int *slices);

/* recompute.c: makes backward compute maps of forward again instead of keeping them: those that are cheapest, which hold that
 * share of all bytes that it waits with, but for the ends of so many segments of forward, 0: of none. *repeated: nodes. */
enum clcnn_status graph_recompute(struct clcnn_graph *g, double share, int segments, int *repeated,
                                  struct clcnn_err *err);

/* best_blueprint.c */
/* What is compiled, rewritten once: folding overwrites constants that a compile may overwrite. Blueprints copy the graph of
 * `rewritten`, whose weights they read. */
struct subject {
    const struct clcnn_graph *original;
    struct blueprint *rewritten;
};
/* One without a graph; `chained`: its algorithms expect chains of groups. NULL: no memory. */
struct blueprint *empty_blueprint(struct clcnn_device *dev, const struct clcnn_plan_options *options,
                                  struct blueprint *like, bool chained);
/* The same with a copy of a rewritten graph, and of what was noted of it. */
enum clcnn_status blueprint_of(struct blueprint **out, const struct blueprint *rewritten,
                               const struct clcnn_plan_options *options, bool chained, struct clcnn_err *err);
/* With chains where the device has them and the rules take them. */
enum clcnn_status best_blueprint(struct blueprint **out, const struct subject *of,
                                 const struct clcnn_plan_options *options, struct clcnn_err *err);

/* memory_limit.c */
/* Another plan instead of *bp, where that needs more than memory_limit: if it trains, with maps that are computed again; with less
 * scratch, fewer items of the batch at a time, filters that are not kept transformed. */
enum clcnn_status meet_memory_limit(struct blueprint **bp, const struct subject *of,
                                    const struct clcnn_plan_options *options, struct clcnn_err *err);

/* layers.c */
enum clcnn_status emit_layers(struct blueprint *bp, const struct value_views *views,
                              const struct clcnn_plan_options *options, const struct clcnn_graph *original,
                              struct clcnn_err *err);

/* commits.c: states, and the steps that change them. */
enum clcnn_status blueprint_states(struct blueprint *bp, const struct clcnn_plan_options *options,
                                   struct clcnn_err *err);
/* Notes which nodes write states themselves, in the commit. */
void find_in_commit(struct clcnn_graph *g);
enum clcnn_status emit_commits(struct blueprint *bp, const struct value_views *views,
                               const struct clcnn_plan_options *options, struct clcnn_err *err);
/* Whether the steps that commit do so from now on, or keep states as they are. */
enum clcnn_status plan_set_commit(struct clcnn_plan *plan, bool commit, struct clcnn_err *err);

/* arena.c */
size_t storage_guard(const struct blueprint *bp, const struct storage *r);
enum clcnn_status arena_plan(struct blueprint *bp, struct clcnn_err *err);

/* chain_select.c: which steps can run inside one kernel. */
bool device_chains_groups(const struct clcnn_device_info *info); /* else single work-items, or none */
enum clcnn_status blueprint_share_variants(struct blueprint *bp, struct clcnn_err *err);
enum clcnn_status blueprint_variants(struct blueprint *bp, struct clcnn_err *err);

/* chain_order.c: the order of steps that chains of groups run, before the arena is planned; and after it, what each of them waits for. */
enum clcnn_status blueprint_order(struct blueprint *bp, struct clcnn_err *err);
void blueprint_waits(struct blueprint *bp);

/* programs.c */
enum clcnn_status blueprint_programs(struct blueprint *bp, const struct clcnn_patience *patience,
                                     struct clcnn_err *err);
enum clcnn_status blueprint_launch_programs(struct blueprint *bp, struct clcnn_err *err);
void blueprint_save_programs(struct blueprint *bp); /* to the disk cache, after each has run */
struct step *blueprint_setup(const struct blueprint *bp, int packed); /* fills a constant; NULL: none */

/* bind.c */
enum clcnn_status blueprint_weights(struct blueprint *bp, const struct clcnn_patience *patience,
                                    struct clcnn_err *err);
/* Makes the plan's launches and chains. */
enum clcnn_status plan_bind(struct clcnn_plan *plan, struct clcnn_err *err);
/* A queue for the plan's launches. */
enum clcnn_status plan_queue(struct queue **out, struct clcnn_plan *plan, bool profiling,
                             struct clcnn_err *err);
/* Gives the steps of chains kernels of their own, for runs that time each step. *made: some were missing. */
enum clcnn_status plan_bind_launches(struct clcnn_plan *plan, bool *made, struct clcnn_err *err);

/* zero_copy.c */
void blueprint_zero_copy(struct blueprint *bp, bool lent_inputs); /* before the arena is planned */
/* Before anything is bound to their memory, and when launches and chains are bound. */
enum clcnn_status zero_copy_create(struct clcnn_plan *plan, struct clcnn_err *err);
enum clcnn_status zero_copy_find_users(struct clcnn_plan *plan, struct clcnn_err *err);
struct zero_copy *zero_copy_of_storage(struct clcnn_plan *plan, int storage); /* NULL: none */
struct zero_copy *zero_copy_of_io(struct clcnn_plan *plan, int io, bool output);
/* Before a run: borrows what can be, or, with NULL for both, lets steps use the arena. */
enum clcnn_status zero_copy_set(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                const struct clcnn_io *outputs, struct clcnn_err *err);
/* The same when steps have other kernels. */
/* Before steps that chains run otherwise are launched one by one. */
enum clcnn_status zero_copy_launch_all(struct clcnn_plan *plan, struct clcnn_err *err);
enum clcnn_status zero_copy_rebind(struct clcnn_plan *plan, struct clcnn_err *err);
void zero_copy_return(struct clcnn_plan *plan); /* after it, when the device is done */
void zero_copy_free(struct clcnn_plan *plan);

/* io.c: enqueued, unless the device works in the caller's memory already. */
struct place { /* one value in device memory */
    cl_mem mem;
    size_t offset, stride, row, rows; /* bytes */
};
struct place plan_place(struct clcnn_plan *plan, const struct io_view *io);
enum clcnn_status plan_send(struct clcnn_plan *plan, struct queue *q, int input, const struct clcnn_io *from,
                            struct clcnn_err *err);
enum clcnn_status plan_fetch(struct clcnn_plan *plan, struct queue *q, int output, const struct clcnn_io *to,
                             struct clcnn_err *err);

/* relays.c: outputs that go to other devices too. */
void blueprint_ready(struct blueprint *bp); /* once steps have their order */
enum clcnn_status relays_begin(struct clcnn_plan *plan, struct clcnn_err *err);
void relays_start(struct clcnn_plan *plan); /* of a walk up to the outputs */
/* An output that was asked for, or, with relays, is to be asked for. */
enum clcnn_status relays_fetch(struct clcnn_plan *plan, int output, struct clcnn_err *err);
bool relays_have(const struct clcnn_plan *plan, int output);
void relays_end(struct clcnn_plan *plan);

/* run.c */
/* After the steps of a run: if a work-group of a chain has waited too long for others, the run is to be repeated, with a launch for
 * each step, as all later ones. *left: that was so. */
enum clcnn_status plan_leave_chains(bool *left, struct clcnn_plan *plan, struct clcnn_err *err);
enum clcnn_status plan_paint(struct clcnn_plan *plan, struct queue *q, const struct clcnn_io *inputs,
                             struct clcnn_err *err);

/* open.c: plans come to life on a blueprint. */
enum clcnn_status plan_instantiate(struct clcnn_plan **out, struct blueprint *bp, struct clcnn_err *err);
enum clcnn_status plan_warm(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                            struct clcnn_err *err);

/* describe.c */
enum clcnn_status blueprint_describe_steps(struct blueprint *bp, struct clcnn_err *err);

#endif
