/* source_chain.c: the text of a chain: an instance of a kernel file for every variant, without its kernels, a switch over
 * them, and kernels/chain/chain.clh, or chain_groups.clh where work-groups have more than one work-item. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

/* Groups g to end - 1 of a variant, for chain_groups.clh every `step`-th, as a function: out of line, since as one function a dozen
 * variants take compilers long. The argument block is a private copy, as it is in a kernel of its own. */
static void add_run(struct text *t, struct text *run, const struct step *variant, const struct scan *scan,
                    int index, bool alone)
{
    const char *block = variant->args_bytes > 0 ? scan->block : "chain_args";

    text_print(t, "__attribute__((noinline)) void chain_%d_run(int g, int end, ", index);
    if (alone)
        text_print(t, "global float *const *p, const struct chain_args *args, local float4 *scratch)\n{\n");
    else
        text_print(t,
                   "int step, const local long *p, const local struct chain_args *args, "
                   "local float4 *scratch)\n{\n    const struct %s a = *(const local struct %s *)args;\n",
                   block, block);
    text_print(t, "    for (; g < end; g %s)\n        chain_%d_%s(g", alone ? "++" : "+= step", index,
               scan->body);
    for (int i = 0; i < variant->n_buffers; i++)
        text_print(t, ", (global void *)p[%d]", i);
    text_print(t, "%s%s);\n}\n",
               variant->args_bytes == 0 ? ""
               : alone                  ? ", (const void *)args"
                                        : ", &a",
               scan->scratch[0] ? ", scratch" : "");
    text_print(run, " case %d: chain_%d_run(g, %s, scratch); break;", index, index,
               alone ? "end, p, &args" : "groups, step, row->offset, &row->args");
}

/* One variant: its file under names of its own, and its case of the switch. */
static enum clcnn_status add_variant(struct text *t, struct text *run, const char *dir,
                                     const struct step *variant, int index, bool alone, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct scan scan = {.entry = &variant->entry, .n_entries = 1};
    char file[96];

    snprintf(file, sizeof file, "%.80s.cl", variant->file);
    text_print(t, "#define FN(x) chain_%d_##x\n", index);
    for (int i = 0; i < variant->n_defines; i++)
        text_print(t, "#define %s %s\n", variant->define[i].name, variant->define[i].text);
    TRY(source_paste(t, dir, file, &scan, 1, err));
    if (scan.body[0] == '\0') {
        st = clcnn_fail(err, CLCNN_E_INTERNAL, "kernel file %s: no body of '%s' found", file, variant->entry);
        goto done;
    }
    text_print(t, "enum { chain_%d_own = %s, ", index, scan.scratch[0] ? scan.scratch : "1");
    text_print(t, "chain_%d_most = CHAIN_LARGER(chain_%d_own, chain_%d_most) };\n", index + 1, index, index);
    text_print(t, "#undef FN\n");
    for (int i = 0; i < variant->n_defines; i++)
        text_print(t, "#undef %s\n", variant->define[i].name);
    text_add(t, scan.undefs.at != NULL ? scan.undefs.at : "", scan.undefs.used);

    add_run(t, run, variant, &scan, index, alone);
done:
    free(scan.undefs.at);
    return st;
}

static void add_list(struct text *t, const char *name, const char *type)
{
    text_print(t, "#define %s", name);
    for (int i = 0; i < CHAIN_MEMORIES; i++)
        text_print(t, "%s %sb%d", i > 0 ? "," : "", type, i);
    text_add(t, "\n", 1);
}

/* What precedes the instances. What one step writes the next one reads: no restrict on sources. */
static void add_head(struct text *t, const struct unit *unit)
{
    text_print(t, "#define SRC const global float *\n#define SRC_OF(t) const global t *\n#define "
                  "CHAIN_LARGER(a, b) ((a) > (b) ? (a) : (b))\n"
                  "enum { chain_0_most = 1 };\n");
    if (unit->group_size == 1) /* one work-item waits for nobody */
        text_print(t, "#define LANE 0\n#define barrier(flags) mem_fence(flags)\n");
    else
        text_print(t, "#define CHAIN_WG %zu\n", unit->group_size);
}

/* Memory objects as parameters, and their addresses. */
static void add_memories(struct text *t)
{
    add_list(t, "CHAIN_PARAMETERS", "global float *");
    add_list(t, "CHAIN_ADDRESSES", "(ulong)");
}

/* The switch over the variants, and how the walk comes by the memory of steps. */
static void add_tail(struct text *t, const struct unit *unit, const struct text *run)
{
    add_memories(t);
    text_print(t, "#define CHAIN_SCRATCH chain_%d_most\n#define CHAIN_RUN ", unit->n_variants);
    if (unit->only_if)
        text_print(t, "if (p[%d] == 0 || *(const global uint *)p[%d] != 0) ", CHAIN_ONLY_IF, CHAIN_ONLY_IF);
    text_print(t, "switch (%s) {", unit->group_size == 1 ? "*variant" : "row->variant");
    text_add(t, run->at != NULL ? run->at : "", run->used);
    text_print(t, " }\n");
}

static enum clcnn_status add_chain(struct text *t, const char *kernel_dir, const struct unit *unit,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct text run = {.at = NULL};
    const bool alone = unit->group_size == 1;

    add_head(t, unit);
    TRY(source_paste(t, kernel_dir, "chain/chain_args.h", NULL, 1, err));
    for (int i = 0; i < unit->n_variants; i++)
        TRY(add_variant(t, &run, kernel_dir, unit->variants[i], i, alone, err));
    add_tail(t, unit, &run);
    t->failed |= run.failed;
    st = source_paste(t, kernel_dir, alone ? "chain/chain.clh" : "chain/chain_groups.clh", NULL, 1, err);
done:
    free(run.at);
    return st;
}

static enum clcnn_status add_addresses(struct text *t, const char *kernel_dir, struct clcnn_err *err)
{
    add_memories(t);
    return source_paste(t, kernel_dir, "chain/chain_table.clh", NULL, 1, err);
}

enum clcnn_status chain_source(char **out, const char *kernel_dir, const struct unit *unit,
                               struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct text t = {.at = NULL};

    TRY(unit->n_variants > 0 ? add_chain(&t, kernel_dir, unit, err) : add_addresses(&t, kernel_dir, err));
    if (t.failed) {
        st = clcnn_fail_mem(err, t.capacity);
        goto done;
    }
    *out = t.at;
    t.at = NULL;
done:
    free(t.at);
    return st;
}
