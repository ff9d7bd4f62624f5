/* pinning.h: see pinning.c. Includes nothing of the core, so that tests can load it by itself. */
#ifndef CLCNN_PINNING_H
#define CLCNN_PINNING_H

#include <stdbool.h>

#define PINNING_MOST 1024 /* processors that PoCL's mask has room for */

typedef const char *pinning_variable(const char *name); /* of the environment; NULL: not set */
/* online: the text of /sys/devices/system/cpu/online. allowed: for each processor, whether this process may use it. */
bool pinning_is_safe(const char *online, const unsigned char allowed[PINNING_MOST],
                     pinning_variable *variable);

#endif
