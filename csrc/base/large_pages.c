/* large_pages.c: memory out of pages of 2 MiB. Blocks lie one after the other in slabs, so that small ones share a page. */
#include "base/base.h"

#ifdef __linux__
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BLOCK_BYTES = 4096, PAGE_BYTES = 2 << 20, SLAB_BYTES = 32 << 20 };

struct slab {
    struct slab *next;
    char *at;
    size_t bytes, used;
    atomic_size_t refs; /* blocks, and the list */
};

/* Address space that begins with a page; NULL: there is none. */
static char *map(size_t bytes)
{
    char *all = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    const size_t before = (PAGE_BYTES - (uintptr_t)all % PAGE_BYTES) % PAGE_BYTES;
    if (before > 0)
        munmap(all, before);
    munmap(all + before + bytes, PAGE_BYTES - before);
    alloc_use_large_pages(all + before, bytes);
    return all + before;
}

static struct slab *slab_create(size_t bytes)
{
    struct slab *s = clcnn_calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->bytes = bytes > SLAB_BYTES ? round_up(bytes, PAGE_BYTES) : SLAB_BYTES;
    s->at = map(s->bytes);
    if (s->at == NULL) {
        free(s);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    return s;
}

static void slab_release(struct slab *s)
{
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    munmap(s->at, s->bytes);
    free(s);
}

void *large_pages_alloc(struct slab **slabs, size_t bytes, struct slab **of)
{
    const size_t whole = round_up(bytes, BLOCK_BYTES);
    struct slab *s = *slabs;
    if (whole < bytes)
        return NULL;
    for (; s != NULL; s = s->next) {
        if (atomic_load(&s->refs) == 1)
            s->used = 0; /* all blocks were freed */
        if (s->bytes - s->used >= whole)
            break;
    }
    if (s == NULL) {
        s = slab_create(whole);
        if (s == NULL)
            return NULL;
        s->next = *slabs;
        *slabs = s;
    }
    void *block = s->at + s->used;
    s->used += whole;
    atomic_fetch_add(&s->refs, 1);
    *of = s;
    return block;
}

void large_pages_free(struct slab *of, void *block, size_t bytes)
{
    alloc_drop_pages(block, round_up(bytes, BLOCK_BYTES));
    slab_release(of);
}

void large_pages_close(struct slab **slabs)
{
    for (struct slab *s = *slabs, *next; s != NULL; s = next) {
        next = s->next;
        slab_release(s);
    }
    *slabs = NULL;
}
#else
void *large_pages_alloc(struct slab **slabs, size_t bytes, struct slab **of)
{
    (void)slabs;
    (void)bytes;
    (void)of;
    return NULL;
}

void large_pages_free(struct slab *of, void *block, size_t bytes)
{
    (void)of;
    (void)block;
    (void)bytes;
}

void large_pages_close(struct slab **slabs)
{
    (void)slabs;
}
#endif
