/* ptx.c: instructions of one NVIDIA architecture alone (wgmma of Hopper) in OpenCL C.
 *
 * The driver compiles OpenCL C for the plain architecture, say sm_90, which refuses what belongs to sm_90a. But a program
 * binary of this driver is PTX text. So kernels write such instructions in inline assembly behind PTX_MARK, which makes
 * them comments of the PTX; here the marks go, the target becomes sm_90a, and the text goes back to the driver as a binary.
 * A comment PTX_GROUPS with a number says how many groups should share a multiprocessor; it becomes the directive for that,
 * which OpenCL C has no word for and which bounds the registers.
 * A comment PTX_LOCAL with a number says how many bytes the kernel's array in local memory has: the driver refuses more than
 * 48 KiB in OpenCL C and as an argument, but not in a binary (227 KiB were filled and read on an H200).
 */
#include <stdio.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define TARGET ".target sm_90"
#define GROUP_LINE ".reqntid"
#define RESIDENT "\n.minnctapersm "
#define LOCAL_LINE ".shared .align"

struct number {
    char digit[12];
    size_t n; /* 0: the comment is missing */
};

bool ptx_is_marked(const char *source)
{
    return strstr(source, PTX_MARK) != NULL;
}

static bool starts(const unsigned char *text, size_t left, const char *word)
{
    const size_t n = strlen(word);
    return left > n && memcmp(text, word, n) == 0;
}

/* What stands after the comment `mark`. */
static struct number number_after(const unsigned char *binary, size_t bytes, const char *mark)
{
    struct number found = {.n = 0};
    size_t i = 0;
    while (i < bytes && binary[i] != '\0' && !starts(binary + i, bytes - i, mark))
        i++;
    for (i += strlen(mark); i < bytes && binary[i] >= '0' && binary[i] <= '9' && found.n < sizeof found.digit;
         i++)
        found.digit[found.n++] = (char)binary[i];
    return found;
}

/* Where the text goes. */
struct writer {
    unsigned char *text;
    size_t n;
};

static void put(struct writer *w, const void *text, size_t n)
{
    memcpy(w->text + w->n, text, n);
    w->n += n;
}

unsigned char *ptx_unmarked(const unsigned char *binary, size_t bytes, size_t *out_bytes)
{
    const struct number groups = number_after(binary, bytes, PTX_GROUPS),
                        local = number_after(binary, bytes, PTX_LOCAL);
    /* marks are removed; a letter, one directive, two numbers and a zero are added */
    struct writer w = {clcnn_calloc(bytes + sizeof RESIDENT + 2 * sizeof groups.digit + 2, 1), 0};
    bool sized = groups.n == 0, group_line = false, longer = local.n == 0, local_line = false;

    if (w.text == NULL)
        return NULL;
    for (size_t i = 0; i < bytes && binary[i] != '\0';) {
        const unsigned char *at = binary + i;
        if (starts(at, bytes - i, PTX_MARK)) {
            i += sizeof PTX_MARK - 1;
            continue;
        }
        if (group_line && *at == '\n') {
            put(&w, RESIDENT, sizeof RESIDENT - 1);
            put(&w, groups.digit, groups.n);
            sized = true;
            group_line = false;
        } else if (!sized && starts(at, bytes - i, GROUP_LINE)) {
            group_line = true;
        }
        if (local_line && *at == '[') {
            put(&w, "[", 1);
            put(&w, local.digit, local.n);
            longer = true;
            local_line = false;
            while (i < bytes && binary[i] != ']')
                i++;
            continue;
        }
        local_line |= !longer && starts(at, bytes - i, LOCAL_LINE);
        const bool target = starts(at, bytes - i, TARGET) && at[sizeof TARGET - 1] != 'a';
        const size_t taken = target ? sizeof TARGET - 1 : 1;
        put(&w, at, taken);
        i += taken;
        if (target)
            put(&w, "a", 1);
    }
    *out_bytes = w.n;
    return w.text;
}
