/* ahead.c: programs that are made before anyone asks for them. The cache folder keeps, for each device, the sources of the
 * programs of the last process's first compile: who starts a script again compiles the same. A thread makes them while
 * the model is read; it ends as soon as a compile knows what it needs. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define MOST_BYTES ((size_t)16 << 20) /* of all sources */
/* Stands for a source in the key of the list, which depends on the device and its driver as those of programs do. */
#define LIST "programs that are made ahead"

/* An entry is a file's name and the source, each with its final zero; where the next one begins. */
static size_t past_entry(const char *list, size_t at)
{
    const size_t source = at + strlen(list + at) + 1;
    return source + strlen(list + source) + 1;
}

/* The same for the same entries in any order. */
static struct hash128 hash_list(const char *list, size_t bytes)
{
    struct hash128 all = {bytes, 0};
    for (size_t at = 0, past; at < bytes; at = past) {
        past = past_entry(list, at);
        const struct hash128 one = hash128_bytes(list + at, past - at);
        all.a += one.a;
        all.b += one.b;
    }
    return all;
}

void clcnn_device_build_ahead(struct clcnn_device *dev)
{
    struct ahead *a = &dev->ahead;
    char key[65];
    size_t bytes = 0;

    if (device_pin(dev, NULL) != CLCNN_OK)
        return;
    program_key(key, dev, LIST);
    char *list = cache_load(dev->cache_dir, key, &bytes);
    pthread_mutex_lock(&a->making);
    a->notes = dev->cache_dir != NULL && !atomic_load(&a->asked);
    a->hash = hash_list(list, bytes);
    pthread_mutex_unlock(&a->making);
    for (size_t at = 0; at < bytes && !device_closed(dev); at = past_entry(list, at)) {
        char *file = list + at;
        pthread_mutex_lock(&a->making);
        if (!atomic_load(&a->asked))
            program_make_idle(dev, file, file + strlen(file) + 1, false);
        pthread_mutex_unlock(&a->making);
    }
    free(list);
    device_unpin(dev);
}

void programs_keep_list(struct clcnn_device *dev)
{
    struct ahead *a = &dev->ahead;
    char key[65];

    pthread_mutex_lock(&a->making);
    struct text list = a->noted;
    const struct hash128 known = a->hash;
    a->noted = (struct text){.at = NULL};
    a->notes = false;
    pthread_mutex_unlock(&a->making);
    const struct hash128 hash = hash_list(list.at, list.failed ? 0 : list.used);
    if (!list.failed && list.used > 0 && list.used <= MOST_BYTES &&
        (hash.a != known.a || hash.b != known.b)) {
        program_key(key, dev, LIST);
        cache_save(dev->cache_dir, key, list.at, list.used);
    }
    free(list.at);
}
