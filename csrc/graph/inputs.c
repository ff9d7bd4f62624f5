/* inputs.c: the grammar of op_def.inputs: "x w b?" or "xs...". */
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"

/* Reads the next name and moves on; false at the end. */
bool next_input(const char **cursor, struct input_name *out)
{
    *cursor += strspn(*cursor, " ");
    size_t length = strcspn(*cursor, " ");

    if (length == 0)
        return false;
    snprintf(out->text, sizeof out->text, "%.*s", (int)length, *cursor);
    size_t name = strcspn(out->text, "?.");
    out->optional = out->text[name] == '?';
    out->many = out->text[name] == '.';
    out->text[name] = '\0';
    *cursor += length;
    return true;
}
