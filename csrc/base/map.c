/* map.c: a hash table from the 128-bit hash of some bytes to a small integer. Equal hashes count as equal bytes, as they do
 * for the identity of weights. Open addressing, linear probing; nothing is ever removed. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct map_slot {
    struct hash128 key;
    int value; /* plus 1; 0: free */
};

static struct map_slot *slot_of(const struct map *m, struct hash128 key)
{
    size_t at = (size_t)key.a & (m->capacity - 1);

    while (m->slots[at].value && (m->slots[at].key.a != key.a || m->slots[at].key.b != key.b))
        at = (at + 1) & (m->capacity - 1);
    return &m->slots[at];
}

bool map_reserve(struct map *m)
{
    struct map old = *m;

    if (2 * (m->count + 1) <= m->capacity)
        return true;
    m->capacity = old.capacity ? 2 * old.capacity : 16; /* a power of two */
    m->slots = clcnn_calloc(m->capacity, sizeof *m->slots);
    if (!m->slots) {
        *m = old;
        return false;
    }
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].value)
            *slot_of(m, old.slots[i].key) = old.slots[i];
    free(old.slots);
    return true;
}

void map_put(struct map *m, struct hash128 key, int value)
{
    struct map_slot *slot = slot_of(m, key);

    m->count += !slot->value;
    *slot = (struct map_slot){key, value + 1};
}

int map_get(const struct map *m, struct hash128 key)
{
    return m->capacity ? slot_of(m, key)->value - 1 : -1;
}

void map_free(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}

struct hash128 hash128_text(const char *text)
{
    return hash128_bytes(text, strlen(text));
}
