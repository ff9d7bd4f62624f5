/* source_chain.c: the text of a chain: an instance of a kernel file for every variant, without its kernels, a switch over
 * them, and kernels/chain.clh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/room.h"

/* One variant: its file under names of its own, and its case of the switch. */
static enum clcnn_status add_part(struct text *t, struct text *run, struct text *scratch, const char *dir,
                                  const struct step *part, int index, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct scan scan = {.entry = part->entry};
    char file[96];

    snprintf(file, sizeof file, "%.80s.cl", part->stem);
    text_print(t, "#define FN(x) chain_%d_##x\n", index);
    for (int i = 0; i < part->n_defines; i++)
        text_print(t, "#define %s %s\n", part->define[i].name, part->define[i].text);
    TRY(source_paste(t, dir, file, &scan, 1, err));
    if (scan.body[0] == '\0') {
        st = clcnn_fail(err, CLCNN_E_INTERNAL, "kernel file %s: no body of '%s' found", file, part->entry);
        goto done;
    }
    text_print(t, "enum { chain_%d_scratch = %s };\n", index, scan.scratch[0] ? scan.scratch : "1");
    text_print(t, "#undef FN\n");
    for (int i = 0; i < part->n_defines; i++)
        text_print(t, "#undef %s\n", part->define[i].name);
    text_add(t, scan.undefs.at != NULL ? scan.undefs.at : "", scan.undefs.used);

    text_print(scratch, "CHAIN_LARGER(chain_%d_scratch, ", index);
    text_print(run, " case %d: for (; g < end; g++) chain_%d_%s(g", index, index, scan.body);
    for (int i = 0; i < part->n_buffers; i++)
        text_print(run, ", p[%d]", i);
    text_print(run, "%s%s); break;", part->args_bytes > 0 ? ", (const void *)&args" : "",
               scan.scratch[0] ? ", scratch" : "");
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

enum clcnn_status chain_source(char **out, const char *kernel_dir, const struct unit *unit,
                               struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct text t = {.at = NULL}, run = {.at = NULL}, scratch = {.at = NULL};

    /* what one step writes the next one reads: no restrict on sources */
    text_print(&t, "#define SRC const global float *\n");
    text_print(&t, "#define CHAIN_LARGER(a, b) ((a) > (b) ? (a) : (b))\n");
    for (int i = 0; i < unit->n_parts; i++)
        TRY(add_part(&t, &run, &scratch, kernel_dir, unit->part[i], i, err));
    text_print(&scratch, "1");
    for (int i = 0; i < unit->n_parts; i++)
        text_add(&scratch, ")", 1);
    add_list(&t, "CHAIN_PARAMETERS", "global float *");
    add_list(&t, "CHAIN_BUFFERS", "");
    text_print(&t, "#define CHAIN_SCRATCH ");
    text_add(&t, scratch.at != NULL ? scratch.at : "", scratch.used);
    text_print(&t, "\n#define CHAIN_RUN switch (s->variant) {");
    text_add(&t, run.at != NULL ? run.at : "", run.used);
    text_print(&t, " }\n");
    TRY(source_paste(&t, kernel_dir, "chain.clh", NULL, 1, err));
    if (t.failed || run.failed || scratch.failed) {
        st = clcnn_fail_mem(err, t.capacity);
        goto done;
    }
    *out = t.at;
    t.at = NULL;
done:
    free(t.at);
    free(run.at);
    free(scratch.at);
    return st;
}
