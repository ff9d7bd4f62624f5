/* weights.c: packed constants, one copy for all plans of a device. The store's lists and the references are guarded by
 * weights_gate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

static void account(struct clcnn_device *dev, size_t bytes, bool added)
{
    pthread_mutex_lock(&dev->lock);
    if (added)
        dev->stats.weights_bytes += bytes;
    else
        dev->stats.weights_bytes -= bytes;
    pthread_mutex_unlock(&dev->lock);
}

static struct weight **list_of(struct clcnn_device *dev, const struct weight_key *key)
{
    return &dev->weights[key->content.a % WEIGHT_LISTS];
}

static bool same_key(const struct weight_key *a, const struct weight_key *b)
{
    return a->content.a == b->content.a && a->content.b == b->content.b &&
           strcmp(a->packing, b->packing) == 0;
}

enum clcnn_status weight_acquire(struct weight **out, bool *fresh, struct clcnn_device *dev,
                                 const struct weight_key *key, size_t bytes, const char *layer,
                                 struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct weight *w;
    char what[CLCNN_NAME_MAX + 16];

    for (w = *list_of(dev, key); w != NULL; w = w->next)
        if (same_key(&w->key, key)) {
            w->refs++;
            *out = w;
            *fresh = false;
            return CLCNN_OK;
        }
    w = clcnn_calloc(1, sizeof *w);
    if (w == NULL)
        return clcnn_fail_mem(err, sizeof *w);
    snprintf(what, sizeof what, "weights of %s", layer);
    TRY(memory_create(&w->memory, dev, bytes, what, err));
    account(dev, w->memory.bytes, true);
    w->key = *key;
    w->refs = 1;
    w->next = *list_of(dev, key);
    *list_of(dev, key) = w;
    *out = w;
    *fresh = true;
    w = NULL;
done:
    free(w);
    return st;
}

void weight_abandon(struct clcnn_device *dev, struct weight *w)
{
    struct weight **link = list_of(dev, &w->key);

    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    account(dev, w->memory.bytes, false);
    memory_release(&w->memory, dev);
    free(w);
}

void weight_release(struct clcnn_device *dev, struct weight *w)
{
    if (device_forked(dev))
        return;
    gate_enter(&dev->weights_gate, NULL, "the weights", NULL);
    if (--w->refs == 0)
        weight_abandon(dev, w);
    gate_leave(&dev->weights_gate);
}
