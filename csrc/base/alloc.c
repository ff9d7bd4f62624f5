/* alloc.c: host memory. Everything the core allocates comes from clcnn_calloc, so that tests can make each allocation
 * fail in turn. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/base.h"

/* Tests only: CLCNN_FAIL_ALLOC=n makes the n-th allocation fail, counted from when the variable took that value. The
 * counter is the one piece of state that is not in a handle; without the variable it is never touched. */
static bool fail_injected(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char seen[24];
    static long calls;
    const char *nth = getenv("CLCNN_FAIL_ALLOC");
    bool fail;

    if (nth == NULL)
        return false;
    pthread_mutex_lock(&lock);
    if (strncmp(seen, nth, sizeof seen - 1) != 0) {
        strncpy(seen, nth, sizeof seen - 1);
        calls = 0;
    }
    fail = ++calls == strtol(seen, NULL, 10);
    pthread_mutex_unlock(&lock);
    return fail;
}

void *clcnn_calloc(size_t count, size_t size)
{
    if (fail_injected())
        return NULL;
    /* calloc checks the product; NULL means failure only */
    return calloc(count > 0 ? count : 1, size > 0 ? size : 1);
}

char *clcnn_strdup(const char *s)
{
    const size_t bytes = strlen(s) + 1;
    char *copy = clcnn_calloc(bytes, 1);

    if (copy != NULL)
        memcpy(copy, s, bytes);
    return copy;
}

bool clcnn_grow(void **items, int *capacity, int need, size_t size)
{
    int wanted = *capacity > 0 ? *capacity : 8;
    void *grown;

    if (need <= *capacity)
        return true;
    while (wanted < need)
        wanted = wanted > INT32_MAX / 2 ? need : 2 * wanted;
    grown = clcnn_calloc((size_t)wanted, size);
    if (grown == NULL)
        return false;
    if (*items != NULL)
        memcpy(grown, *items, (size_t)*capacity * size);
    free(*items);
    *items = grown;
    *capacity = wanted;
    return true;
}

void alloc_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

#ifdef __linux__
/* Tells the system of the whole pages in a block; that it may not listen is no error. */
static void advise(void *block, size_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
    const uintptr_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, advice);
}
#endif

void alloc_drop_pages(void *block, size_t bytes)
{
#ifdef __linux__ /* elsewhere MADV_DONTNEED is a hint, which frees nothing at once */
    advise(block, bytes, MADV_DONTNEED);
#else
    (void)block;
    (void)bytes;
#endif
}

void alloc_use_large_pages(void *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    advise(block, bytes, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}
