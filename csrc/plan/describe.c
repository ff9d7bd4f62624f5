/* describe.c: what a plan tells about itself. Read only; no lock needed, since a blueprint never changes. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int clcnn_plan_input_count(const struct clcnn_plan *plan)
{
    return plan->bp->n_inputs;
}

int clcnn_plan_output_count(const struct clcnn_plan *plan)
{
    return plan->bp->n_outputs;
}

const struct clcnn_io_info *clcnn_plan_input(const struct clcnn_plan *plan, int i)
{
    return i >= 0 && i < plan->bp->n_inputs ? &plan->bp->inputs[i].info : NULL;
}

const struct clcnn_io_info *clcnn_plan_output(const struct clcnn_plan *plan, int i)
{
    return i >= 0 && i < plan->bp->n_outputs ? &plan->bp->outputs[i].info : NULL;
}

bool clcnn_plan_left_chains(const struct clcnn_plan *plan)
{
    return atomic_load(&plan->left_chains);
}

void clcnn_plan_get_stats(const struct clcnn_plan *plan, struct clcnn_plan_stats *out)
{
    const struct blueprint *bp = plan->bp;
    *out = bp->stats;
    out->peak_bytes = out->arena_bytes + out->weights_bytes;
    out->launch_count = atomic_load(&plan->launch_count);
    out->called = atomic_load(&plan->called);
    if (clcnn_plan_left_chains(plan))
        out->chained_steps = 0;
}

enum clcnn_status blueprint_describe_steps(struct blueprint *bp, struct clcnn_err *err)
{
    bp->defines_text = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *bp->defines_text);
    for (int i = 0; bp->defines_text && i < bp->n_steps; i++) {
        const struct step *s = bp->steps[i];
        char text[MAX_DEFINES * (sizeof s->define[0].name + sizeof s->define[0].text + 2)] = "";
        size_t at = 0;
        for (int d = 0; d < s->n_defines; d++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%s", d ? " " : "", s->define[d].name,
                                   s->define[d].text);
        bp->defines_text[i] = clcnn_strdup(text);
        if (!bp->defines_text[i])
            return clcnn_fail_mem(err, at);
    }
    return bp->defines_text ? CLCNN_OK : clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof(char *));
}

enum clcnn_status clcnn_plan_step_info(const struct clcnn_plan *plan, int step, struct clcnn_step_info *info,
                                       struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    if (step < 0 || step >= bp->n_steps)
        return clcnn_fail(err, CLCNN_E_VALUE, "step %d: the plan has %d", step, bp->n_steps);
    const struct step *s = bp->steps[step];
    *info = (struct clcnn_step_info){
        .layer = s->layer,
        .op = s->op,
        .algo = s->algo,
        .kernel = s->file ? s->file : "clblast",
        .entry = s->entry,
        .defines = bp->defines_text[step],
        .groups = s->groups,
        .group_size = s->group_size,
        .macs = s->macs,
        .bytes = s->bytes,
    };
    return CLCNN_OK;
}

int clcnn_plan_layer_count(const struct clcnn_plan *plan)
{
    return plan->bp->n_layers;
}

enum clcnn_status clcnn_plan_layer_info(const struct clcnn_plan *plan, int layer,
                                        struct clcnn_layer_info *info, struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    if (layer < 0 || layer >= bp->n_layers)
        return clcnn_fail(err, CLCNN_E_VALUE, "layer %d: the plan has %d", layer, bp->n_layers);
    const struct layer *l = &bp->layers[layer];
    *info = (struct clcnn_layer_info){
        .key = l->key,
        .layer = bp->graph->nodes[l->node].name,
        .op = l->op->name,
        .algo = l->algo->name,
        .fused = l->fused,
        .error_class = error_class_name(l->fp16 ? ERROR_MEDIUM : l->algo->error),
        .error_bound = error_bound_name(l->algo->bound),
        .error_rounding = error_rounding_name(l->algo->rounding),
        .part = l->sub,
        .input = l->input,
        .output = l->output,
        .zeros = l->zeros,
        .workspace_bytes = l->workspace,
        .weight_bytes = l->weight_bytes,
        .macs = l->macs,
        .candidate_count = l->n_candidates,
    };
    return CLCNN_OK;
}

static const char *verdict_text(enum candidate_verdict verdict)
{
    static const char *const text[] = {
        [CANDIDATE_REJECTED] = "rejected",
        [CANDIDATE_PASSED_OVER] = "passed over",
        [CANDIDATE_APPLIES] = "not needed",
        [CANDIDATE_CHOSEN] = "chosen",
        [CANDIDATE_CHOSEN_BY_OVERRIDE] = "chosen by override",
        [CANDIDATE_CHOSEN_BY_MEASUREMENT] = "chosen by measurement",
        [CANDIDATE_CHOSEN_AS_LIKE] = "chosen as in the plan that this one is like",
        [CANDIDATE_CHOSEN_AS_SOON_BUILT] = "chosen since its kernel is soon built",
    };
    return text[verdict];
}

enum clcnn_status clcnn_plan_candidate_info(const struct clcnn_plan *plan, int layer, int candidate,
                                            struct clcnn_candidate_info *info, struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    if (layer < 0 || layer >= bp->n_layers || candidate < 0 || candidate >= bp->layers[layer].n_candidates)
        return clcnn_fail(err, CLCNN_E_VALUE, "layer %d has no candidate %d", layer, candidate);
    const struct candidate *c = &bp->layers[layer].candidates[candidate];
    *info = (struct clcnn_candidate_info){c->algo->name, verdict_text(c->verdict), c->reason, c->workspace,
                                          c->effort};
    return CLCNN_OK;
}

const char *clcnn_plan_rewrite_note(const struct clcnn_plan *plan, int i)
{
    return i >= 0 && i < plan->bp->notes.n ? plan->bp->notes.line[i] : NULL;
}
