/* ahead_list.c: what program.c tells of the programs that a compile asks for; see ahead.c. */
#include <string.h>

#include "runtime/runtime_private.h"

void ahead_wait(struct clcnn_device *dev)
{
    struct ahead *a = &dev->ahead;
    atomic_store(&a->asked, true);
    pthread_mutex_lock(&a->making);
    pthread_mutex_unlock(&a->making);
}

void ahead_note(struct clcnn_device *dev, const char *file, const char *source)
{
    struct ahead *a = &dev->ahead;
    pthread_mutex_lock(&a->making);
    if (a->notes) {
        text_add(&a->noted, file, strlen(file) + 1);
        text_add(&a->noted, source, strlen(source) + 1);
    }
    pthread_mutex_unlock(&a->making);
}
