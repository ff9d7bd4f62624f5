/* paste.c: the text of a kernel file. Files come from the table embedded in the module, or from a folder (kernel_dir).
 * Quoted includes are pasted in place, every time: files guard themselves, and what lies outside a guard is meant to be
 * repeated. #line keeps the compiler's messages at the file that the person knows. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "runtime/runtime_private.h"

#define MAX_DEPTH 16 /* of includes; more is a cycle */

/* where a file stands between #if and #endif; `from`: the depth at which its guard opened, 0: outside */
struct guard {
    int depth, from;
};

void text_add(struct text *t, const char *s, size_t n)
{
    if (t->failed)
        return;
    if (t->used + n + 1 > t->capacity) {
        const size_t capacity = 2 * (t->used + n + 1) + 4096;
        char *grown = clcnn_calloc(capacity, 1);
        if (grown == NULL) {
            t->failed = true;
            return;
        }
        if (t->used > 0)
            memcpy(grown, t->at, t->used);
        free(t->at);
        t->at = grown;
        t->capacity = capacity;
    }
    memcpy(t->at + t->used, s, n);
    t->used += n;
    t->at[t->used] = '\0';
}

void text_print(struct text *t, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    text_add(t, line, strlen(line));
}

static enum clcnn_status read_disk(char **out, size_t *length, const char *dir, const char *name,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct text path = {.at = NULL}, body = {.at = NULL};
    char piece[4096];
    FILE *file = NULL;
    size_t n;

    text_print(&path, "%.400s/%.100s", dir, name);
    if (!path.failed)
        file = fopen(path.at, "rb");
    if (file == NULL) {
        st = path.failed ? clcnn_fail_mem(err, sizeof piece)
                         : clcnn_fail(err, CLCNN_E_VALUE, "kernel file %s: %s", path.at, strerror(errno));
        goto done;
    }
    while ((n = fread(piece, 1, sizeof piece, file)) > 0)
        text_add(&body, piece, n);
    text_add(&body, "", 0);
    if (ferror(file))
        st = clcnn_fail(err, CLCNN_E_VALUE, "kernel file %s: cannot be read", path.at);
    else if (body.failed)
        st = clcnn_fail_mem(err, body.used + sizeof piece);
    if (st == CLCNN_OK) {
        *out = body.at;
        *length = body.used;
        body.at = NULL;
    }
done:
    if (file != NULL)
        fclose(file);
    free(path.at);
    free(body.at);
    return st;
}

/* A kernel file by its path below kernels/, or by its name alone, which no other file has; NULL: there is none. */
static const struct clcnn_embedded *find_file(const char *name)
{
    for (size_t i = 0; i < clcnn_embedded_count; i++) {
        const char *path = clcnn_embedded_files[i].name, *slash = strrchr(path, '/');
        if (strcmp(path, name) == 0 || (slash != NULL && strcmp(slash + 1, name) == 0))
            return &clcnn_embedded_files[i];
    }
    return NULL;
}

/* A view of the file's text; *owned is to be freed afterwards (NULL for an embedded file). */
static enum clcnn_status open_file(const char **text, size_t *length, char **owned, const char *dir,
                                   const struct clcnn_embedded *file, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    *owned = NULL;
    *text = file->text;
    *length = file->length;
    if (dir != NULL) {
        st = read_disk(owned, length, dir, file->name, err);
        *text = *owned;
    }
    return st;
}

/* The name of a quoted include, a path below kernels/ or a file's name. */
static bool quoted_include(char name[64], const char *line, const char *end)
{
    static const char word[] = "include";
    size_t n = 0;

    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    if (line == end || *line++ != '#')
        return false;
    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    if ((size_t)(end - line) < sizeof word || strncmp(line, word, sizeof word - 1) != 0)
        return false;
    line += sizeof word - 1;
    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    if (line == end || *line++ != '"')
        return false;
    while (line < end && *line != '"' && n < 63)
        name[n++] = *line++;
    name[n] = '\0';
    return n > 0 && line < end && *line == '"';
}

/* Reads "# word" and the rest of a line; false when it is no directive. */
static bool directive(const char *line, const char *end, char word[16], char name[64])
{
    size_t n = 0;

    while (line < end && (*line == ' ' || *line == '\t' || *line == '#'))
        n += *line++ == '#';
    if (n != 1)
        return false;
    for (n = 0; line < end && n < 15 && *line >= 'a' && *line <= 'z'; line++)
        word[n++] = *line;
    word[n] = '\0';
    while (line < end && *line == ' ')
        line++;
    for (n = 0; line < end && n < 63 && (*line == '_' || isalnum((unsigned char)*line)); line++)
        name[n++] = *line;
    name[n] = '\0';
    return true;
}

/* Macros that the file defines outside a guard (#ifndef <NAME>_CLH, _H) are listed to be undefined after the instance. */
static void scan_directive(struct scan *scan, struct guard *guard, const char *line, const char *end)
{
    char word[16], name[64];

    if (!directive(line, end, word, name))
        return;
    if (strncmp(word, "if", 2) == 0) {
        guard->depth++;
        const char *last = strrchr(name, '_');
        const bool header = last != NULL && (strcmp(last, "_CLH") == 0 || strcmp(last, "_H") == 0);
        if (guard->from == 0 && strcmp(word, "ifndef") == 0 && header)
            guard->from = guard->depth;
    } else if (strcmp(word, "endif") == 0) {
        if (guard->depth-- == guard->from)
            guard->from = 0;
    } else if (strcmp(word, "define") == 0 && guard->from == 0) {
        text_print(&scan->undefs, "#undef %s\n", name);
    }
}

/* Learns the type of a kernel's argument block, "const struct conv_args a", where the line has it. */
static void scan_block(struct scan *scan, const char *line, const char *end)
{
    static const char word[] = "const struct ";

    for (; end - line > (ptrdiff_t)sizeof word; line++)
        if (strncmp(line, word, sizeof word - 1) == 0) {
            line += sizeof word - 1;
            snprintf(scan->block, sizeof scan->block, "%.*s", (int)strcspn(line, " "), line);
            return;
        }
}

static bool is_wanted(const struct scan *scan, const char *name)
{
    bool wanted = false;
    for (int i = 0; i < scan->n_entries && !wanted; i++) {
        const size_t n = strlen(scan->entry[i]);
        wanted = strncmp(name, scan->entry[i], n) == 0 && name[n] == ')';
    }
    return wanted;
}

/* Leaves out kernels, from "KERNEL FN(entry)" to "}", and learns from the wanted one which body it calls and what scratch
 * it declares. Tells whether the line belongs to a kernel. */
static bool scan_kernel(struct scan *scan, const char *line, const char *end)
{
    static const char head[] = "KERNEL FN(", scratch[] = "local float4 scratch[", call[] = "FN(";
    const int n = (int)(end - line);

    if (!scan->in_kernel) {
        if (n < (int)sizeof head || strncmp(line, head, sizeof head - 1) != 0)
            return false;
        line += sizeof head - 1;
        scan->in_kernel = true;
        scan->wanted = is_wanted(scan, line);
        if (scan->wanted)
            scan_block(scan, line, end);
        return true;
    }
    if (line < end && *line == '}')
        scan->in_kernel = false;
    while (line < end && *line == ' ')
        line++;
    if (!scan->wanted)
        return true;
    scan_block(scan, line, end);
    if (strncmp(line, scratch, sizeof scratch - 1) == 0)
        snprintf(scan->scratch, sizeof scan->scratch, "%.*s", (int)strcspn(line + sizeof scratch - 1, "]"),
                 line + sizeof scratch - 1);
    else if (strncmp(line, call, sizeof call - 1) == 0)
        snprintf(scan->body, sizeof scan->body, "%.*s", (int)strcspn(line + sizeof call - 1, ")"),
                 line + sizeof call - 1);
    return true;
}

/* A line of a kernel that stays: its head gets an operand more in front, and its first line looks at it. */
static void paste_only_if(struct text *out, const char *line, const char *end)
{
    static const char head[] = "KERNEL FN(";
    const bool first = (size_t)(end - line) > sizeof head && strncmp(line, head, sizeof head - 1) == 0;

    if (first) {
        const char *operands = strchr(line + sizeof head - 1, '(') + 1;
        text_add(out, line, (size_t)(operands - line));
        text_print(out, "const global uint *only_if, ulong only_if_off, ");
        line = operands;
    }
    text_add(out, line, (size_t)(end - line));
    if (!first && *line == '{')
        text_print(out, " if (only_if[only_if_off] == 0) return;");
}

enum clcnn_status source_paste(struct text *out, const char *dir, const char *name, struct scan *scan,
                               int depth, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const char *text = NULL;
    char *owned = NULL, include[64];
    const struct clcnn_embedded *file = find_file(name);
    struct guard guard = {0, 0};
    size_t length = 0;
    int number = 1;

    if (depth > MAX_DEPTH)
        return clcnn_fail(err, CLCNN_E_VALUE, "kernel file %s: includes more than %d deep", name, MAX_DEPTH);
    if (file == NULL)
        return clcnn_fail(err, CLCNN_E_INTERNAL, "kernel file %s is not part of the module", name);
    TRY(open_file(&text, &length, &owned, dir, file, err));
    text_print(out, "#line 1 \"%s\"\n", file->name);
    for (const char *line = text, *stop = text + length; line < stop; number++) {
        const char *newline = memchr(line, '\n', (size_t)(stop - line));
        const char *end = newline != NULL ? newline : stop;
        if (scan != NULL)
            scan_directive(scan, &guard, line, end);
        const bool in_kernel = scan != NULL && scan_kernel(scan, line, end);
        if (in_kernel && !(scan->keep && scan->wanted)) {
            text_add(out, "\n", 1);
        } else if (in_kernel && scan->only_if) {
            paste_only_if(out, line, end);
            text_add(out, "\n", 1);
        } else if (quoted_include(include, line, end)) {
            TRY(source_paste(out, dir, include, scan, depth + 1, err));
            text_print(out, "#line %d \"%s\"\n", number + 1, file->name);
        } else {
            text_add(out, line, (size_t)(end - line));
            text_add(out, "\n", 1);
        }
        line = end + 1;
    }
done:
    free(owned);
    return st;
}
