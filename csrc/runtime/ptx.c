/* ptx.c: instructions of one NVIDIA architecture alone (wgmma of Hopper) in OpenCL C.
 *
 * The driver compiles OpenCL C for the plain architecture, say sm_90, which refuses what belongs to sm_90a. But a program
 * binary of this driver is PTX text. So kernels write such instructions in inline assembly behind PTX_MARK, which makes
 * them comments of the PTX; here the marks go, the target becomes sm_90a, and the text goes back to the driver as a binary.
 * A comment PTX_GROUPS with a digit says how many groups should share a multiprocessor; it becomes the directive for that,
 * which OpenCL C has no word for and which bounds the registers.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/room.h"

#define TARGET ".target sm_90"
#define GROUP_LINE ".reqntid"
#define RESIDENT "\n.minnctapersm %c"

bool ptx_is_marked(const char *source)
{
    return strstr(source, PTX_MARK) != NULL;
}

static bool starts(const unsigned char *text, size_t left, const char *word)
{
    const size_t n = strlen(word);
    return left > n && memcmp(text, word, n) == 0;
}

/* The digit after PTX_GROUPS, 0: there is none. */
static char resident_groups(const unsigned char *binary, size_t bytes)
{
    for (size_t i = 0; i < bytes && binary[i] != '\0'; i++)
        if (starts(binary + i, bytes - i, PTX_GROUPS))
            return (char)binary[i + sizeof PTX_GROUPS - 1];
    return 0;
}

unsigned char *ptx_unmarked(const unsigned char *binary, size_t bytes, size_t *out_bytes)
{
    const char groups = resident_groups(binary, bytes);
    const size_t extra =
        sizeof RESIDENT + 1; /* marks are removed; a letter, one directive and a zero are added */
    unsigned char *out = clcnn_calloc(bytes + extra, 1);
    bool sized = groups == 0, group_line = false;
    size_t n = 0;

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < bytes && binary[i] != '\0';) {
        if (starts(binary + i, bytes - i, PTX_MARK)) {
            i += sizeof PTX_MARK - 1;
            continue;
        }
        if (group_line && binary[i] == '\n') {
            n += (size_t)sprintf((char *)out + n, RESIDENT, groups);
            sized = true;
            group_line = false;
        } else if (!sized && starts(binary + i, bytes - i, GROUP_LINE)) {
            group_line = true;
        }
        const bool target = starts(binary + i, bytes - i, TARGET) && binary[i + sizeof TARGET - 1] != 'a';
        for (size_t j = 0; target && j < sizeof TARGET - 1; j++)
            out[n++] = binary[i++];
        if (target)
            out[n++] = 'a';
        else
            out[n++] = binary[i++];
    }
    *out_bytes = n;
    return out;
}
