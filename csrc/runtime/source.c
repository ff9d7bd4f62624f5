/* source.c: the text of a unit, which is what is built and what the cache key is made of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct define *const *)a)->name, (*(const struct define *const *)b)->name);
}

static void sort_defines(const struct define *sorted[MAX_DEFINES], const struct unit *unit)
{
    for (int i = 0; i < unit->n_defines; i++)
        sorted[i] = &unit->define[i];
    qsort(sorted, (size_t)unit->n_defines, sizeof *sorted, by_name);
}

char *unit_defines(const struct unit *unit)
{
    const struct define *sorted[MAX_DEFINES];
    struct text t = {.at = NULL};

    sort_defines(sorted, unit);
    text_add(&t, "", 0);
    for (int i = 0; i < unit->n_defines; i++)
        text_print(&t, "%s%s=%s", i > 0 ? " " : "", sorted[i]->name, sorted[i]->text);
    if (t.failed)
        free(t.at);
    return t.failed ? NULL : t.at;
}

enum clcnn_status unit_source(char **out, const char *kernel_dir, const struct unit *unit,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct define *sorted[MAX_DEFINES];
    struct text t = {.at = NULL};
    struct scan scan = {
        .entry = unit->entry, .n_entries = unit->n_entries, .keep = true, .only_if = unit->only_if};
    char file[96];

    if (strcmp(unit->file, CHAIN_FILE) == 0)
        return chain_source(out, kernel_dir, unit, err);
    sort_defines(sorted, unit);
    snprintf(file, sizeof file, "%.80s.cl", unit->file);
    text_print(&t, "#define FN(x) %s_k_##x\n", unit->file);
    for (int i = 0; i < unit->n_defines; i++)
        text_print(&t, "#define %s %s\n", sorted[i]->name, sorted[i]->text);
    TRY(source_paste(&t, kernel_dir, file, &scan, 1, err));
    text_print(&t, "#undef FN\n");
    for (int i = 0; i < unit->n_defines; i++)
        text_print(&t, "#undef %s\n", sorted[i]->name);
    if (t.failed) {
        st = clcnn_fail_mem(err, t.capacity);
        goto done;
    }
    *out = t.at;
    t.at = NULL;
done:
    free(t.at);
    free(scan.undefs.at);
    return st;
}
