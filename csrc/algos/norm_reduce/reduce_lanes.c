/* reduce_lanes: sum, mean, max and min by several work-items an output, for GPUs; see kernels/norm_reduce/reduce_lanes.cl. */
#include "algos/common/norm_rows.h"
#include "algos/common/reduction.h"

enum {
    MOST_BLOCKS = 64, /* blocks that a work-item adds up, since errors grow with them */
    FEW_BLOCKS = 2,   /* and what it adds up at least before there are more parts */
    FILL = 4          /* groups for a unit */
};

/* Where what is reduced is not one walk, each walk is by itself first. */
static struct reduction walks_of(const struct problem *p)
{
    struct reduction r = reduction_of(p);
    reduction_take_apart(&r);
    return r;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "elements are no floats");
    return true;
}

/* How work-items share it, uncut; tiles of columns that are cut are wide. */
static struct lanes shares_of(const struct problem *p, const struct reduction *r)
{
    const struct reduce_args *a = &r->args;
    if (!r->columns)
        return lanes_of(p, false, 1, 1, a->chunk);
    const int64_t inner = a->size[a->kept - 1];
    const struct lanes l = lanes_of(p, true, r->outputs / inner, inner, a->chunk);
    return l.loops || a->parts > 1 ? lanes_wide(p, inner, a->chunk) : l;
}

/* Few outputs leave a device idle, and sums of many blocks add up their errors. */
static struct reduction cut_reduction(const struct problem *p)
{
    struct reduction r = walks_of(p);
    const struct lanes l = shares_of(p, &r);
    const int64_t rows = r.columns ? r.outputs / r.args.size[r.args.kept - 1] : r.outputs;
    const int64_t groups = (int64_t)lanes_groups(&l, rows), block = (int64_t)l.lanes * l.kept;
    const int64_t units = (int64_t)device_units(p->device);
    if (!l.loops)
        return r;
    const int64_t wanted = FILL * units / groups, most = r.length / (FEW_BLOCKS * block);
    const int64_t least = (int64_t)ceil_div((size_t)r.length, (size_t)(MOST_BLOCKS * block));
    const int64_t parts = wanted < most ? wanted : most;
    reduction_cut(p, &r, parts > least ? parts : least);
    return r;
}

static void emit_pass(const struct problem *p, struct emit *e, const struct reduction *r, const char *red,
                      int from, int to)
{
    const struct lanes l = shares_of(p, r);
    struct lanes_reduce_args a = reduction_lanes_args(r);
    a.pieces = l.tiles;
    struct step *s = lanes_emit(e, "reduce_lanes", "main", lanes_groups(&l, a.rows), &l, a.rows);
    step_define_id(s, "RED", red);
    step_read(s, from);
    step_write(s, to);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[0].shape));
}

static size_t workspace(const struct problem *p)
{
    const struct reduction r = cut_reduction(p);
    return reduction_workspace(&r);
}

REDUCTION_ALGOS(lanes, cut_reduction,
                .doc = "several work-items an output, walk by walk, in parts when outputs are few",
                .devices = DEVICES_GPU, .applicable = applicable, .workspace = workspace);
