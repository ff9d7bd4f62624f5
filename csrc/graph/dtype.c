/* dtype.c: types of elements, and the rules by which operators take and give them (op_def.types). */
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

static const struct {
    const char *name, *opencl;
    size_t bytes;
    char letter;
} dtypes[CLCNN_DTYPE_COUNT] = {
    [CLCNN_FLOAT32] = {"float32", "float", 4, 'f'}, [CLCNN_INT64] = {"int64", "long", 8, 'l'},
    [CLCNN_INT32] = {"int32", "int", 4, 'i'},       [CLCNN_BOOL] = {"bool", "uchar", 1, 'b'},
    [CLCNN_UINT8] = {"uint8", "uchar", 1, 'u'},
};

const char *clcnn_dtype_name(enum clcnn_dtype dtype)
{
    return dtypes[dtype].name;
}

int clcnn_dtype_find(const char *name)
{
    for (int i = 0; i < CLCNN_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return i;
    }
    return -1;
}

size_t clcnn_dtype_bytes(enum clcnn_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *dtype_opencl(enum clcnn_dtype dtype)
{
    return dtypes[dtype].opencl;
}

/* ---- rules --------------------------------------------------------------------------------------------- */

static const char float_rule[] = "f > f";

/* The next word of a rule, 0 at its end; a last word before ">" or the end stays for all that follow. */
static size_t next_word(const char **cursor, const char **word)
{
    const char *at = *cursor + strspn(*cursor, " ");
    const size_t length = strcspn(at, " ");

    if (length == 0 || *at == '>')
        return *word ? strcspn(*word, " ") : 0;
    *word = at;
    *cursor = at + length;
    return length;
}

static bool accepts(const char *word, size_t length, enum clcnn_dtype dtype)
{
    return memchr(word, dtypes[dtype].letter, length) != NULL;
}

static const char *accepted_text(const char *word, size_t length, char buf[48])
{
    buf[0] = '\0';
    for (int i = 0; i < CLCNN_DTYPE_COUNT; i++) {
        if (accepts(word, length, i))
            snprintf(buf + strlen(buf), 48 - strlen(buf), "%s%s", *buf ? " or " : "", dtypes[i].name);
    }
    return buf;
}

/* Input k of the operator, named `name`, against its word. `first` is the input that settled T, -1 before. */
static enum clcnn_status check_one(const struct infer *in, int k, const char *name, const char *word,
                                   size_t length, int *first, const char *first_name, struct clcnn_err *err)
{
    const enum clcnn_dtype dtype = in->in[k].dtype;
    const bool common = *word == 'T';
    char buf[48];

    if (common && *first >= 0) {
        if (dtype == in->in[*first].dtype)
            return CLCNN_OK;
        return clcnn_fail(
            err, CLCNN_E_DTYPE,
            "%s %s: input \"%s\" is %s, but input \"%s\" is %s: both must have the same type of "
            "elements (see cast)",
            in->op->name, in->layer, name, dtypes[dtype].name, first_name, dtypes[in->in[*first].dtype].name);
    }
    if (!accepts(word, length, dtype)) {
        return clcnn_fail(err, CLCNN_E_DTYPE, "%s %s: input \"%s\" is %s, expected %s (see cast)",
                          in->op->name, in->layer, name, dtypes[dtype].name,
                          accepted_text(word, length, buf));
    }
    if (common)
        *first = k;
    return CLCNN_OK;
}

enum clcnn_status types_check(const struct infer *in, struct clcnn_err *err)
{
    const char *cursor = in->op->types ? in->op->types : float_rule, *word = NULL, *names = in->op->inputs;
    struct input_name name = {0}, first_name = {0};
    enum clcnn_status st = CLCNN_OK;
    int first = -1;

    for (int k = 0; st == CLCNN_OK && k < in->n_in; k++) {
        const size_t length = next_word(&cursor, &word);
        if (!name.many)
            next_input(&names, &name);
        if (in->in[k].rank < 0) /* an optional input that is absent */
            continue;
        st = check_one(in, k, name.text, word, length, &first, first_name.text, err);
        if (first == k)
            first_name = name;
    }
    return st;
}

/* The type that T stands for: that of the first input with such a word. */
static enum clcnn_dtype common_type(const struct infer *in)
{
    const char *cursor = in->op->types, *word = NULL;

    for (int k = 0; k < in->n_in; k++) {
        next_word(&cursor, &word);
        if (*word == 'T' && in->in[k].rank >= 0)
            return in->in[k].dtype;
    }
    return CLCNN_FLOAT32;
}

void types_of_outputs(struct infer *in)
{
    const char *rule = in->op->types ? in->op->types : float_rule;
    const char *cursor = strchr(rule, '>') + 1, *word = NULL;

    for (int k = 0; k < in->n_out; k++) {
        next_word(&cursor, &word);
        if (*word == 'T') {
            in->out[k].dtype = common_type(in);
            continue;
        }
        for (int i = 0; i < CLCNN_DTYPE_COUNT; i++) {
            if (*word == dtypes[i].letter)
                in->out[k].dtype = i;
        }
    }
}
