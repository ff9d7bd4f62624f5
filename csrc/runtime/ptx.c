/* ptx.c: instructions of one NVIDIA architecture alone (wgmma of Hopper) in OpenCL C.
 *
 * The driver compiles OpenCL C for the plain architecture, say sm_90, which refuses what belongs to sm_90a. But a program
 * binary of this driver is PTX text. So kernels write such instructions in inline assembly behind PTX_MARK, which makes
 * them comments of the PTX; here the marks go, the target becomes sm_90a, and the text goes back to the driver as a binary.
 */
#include <string.h>

#include "runtime/room.h"

bool ptx_is_marked(const char *source)
{
    return strstr(source, PTX_MARK) != NULL;
}

unsigned char *ptx_unmarked(const unsigned char *binary, size_t bytes, size_t *out_bytes)
{
    static const char target[] = ".target sm_90";
    const size_t mark = sizeof PTX_MARK - 1, name = sizeof target - 1;
    unsigned char *out = clcnn_calloc(bytes + 2, 1); /* marks are removed, one letter is added, and a zero */
    size_t n = 0;

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < bytes && binary[i] != '\0';) {
        if (bytes - i >= mark && memcmp(binary + i, PTX_MARK, mark) == 0) {
            i += mark;
        } else if (bytes - i > name && memcmp(binary + i, target, name) == 0 && binary[i + name] != 'a') {
            memcpy(out + n, target, name);
            out[n + name] = 'a';
            n += name + 1;
            i += name;
        } else {
            out[n++] = binary[i++];
        }
    }
    *out_bytes = n;
    return out;
}
