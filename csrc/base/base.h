/* base.h: what every folder of the core uses: errors, host memory, hashes, maps, shapes, sizes. */
#ifndef CLCNN_BASE_BASE_H
#define CLCNN_BASE_BASE_H

#include "clcnn.h"

/* ---- errors: one idiom ---------------------------------------------------------------------------------------- */

/* Fills err and returns status, so that `return clcnn_fail(err, CLCNN_E_SHAPE, "conv %s: ...", ...)` reads well. */
enum clcnn_status clcnn_fail(struct clcnn_err *err, enum clcnn_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum clcnn_status clcnn_fail_mem(struct clcnn_err *err, size_t bytes); /* HOST_MEM */
/* TRY: run, and leave through the function's single exit `done:` with `st` set when it fails. */
#define TRY(expr)           \
    do {                    \
        st = (expr);        \
        if (st != CLCNN_OK) \
            goto done;      \
    } while (0)

void *clcnn_calloc(size_t count, size_t size); /* checks the product; tests make it fail (CLCNN_FAIL_ALLOC) */
char *clcnn_strdup(const char *s);
/* Grows *items (element size `size`) to hold at least `need`; false when out of memory. */
bool clcnn_grow(void **items, int *capacity, int need, size_t size);
void alloc_trim(void); /* gives the system what malloc() keeps of freed memory, where that can be asked for */
/* Gives the whole pages of a block back to the system. The block stays valid; what is in it is not kept. */
void alloc_drop_pages(void *block, size_t bytes);
/* before it is written; fewer misses of address translation */
void alloc_use_large_pages(void *block, size_t bytes);

/* Memory out of pages of 2 MiB, which blocks share, in whole pages of 4 KiB; a list of slabs is empty at first. alloc: by one thread at a
 * time, NULL where there is none. free: by any thread, also after close, with the bytes that were asked. */
struct slab;
void *large_pages_alloc(struct slab **slabs, size_t bytes, struct slab **of);
void large_pages_free(struct slab *of, void *block, size_t bytes);
void large_pages_close(struct slab **slabs);

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof((a)[0])))

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};
void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t bytes);
void sha256_hex(struct sha256 *h, char out[65]);
struct hash128 {
    uint64_t a, b;
};
struct hash128 hash128_bytes(const void *data, size_t bytes); /* fast, not cryptographic: weight identity */
struct hash128 hash128_text(const char *text);

/* map.c: a table from hashes to integers of 0 and above. Starts as zeros. */
struct map {
    struct map_slot *slots;
    size_t capacity, count;
};
bool map_reserve(struct map *m);                            /* room for one more; false when out of memory */
void map_put(struct map *m, struct hash128 key, int value); /* after map_reserve() */
int map_get(const struct map *m, struct hash128 key);       /* -1: not there */
void map_free(struct map *m);

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}
/* Division that rounds down for a negative numerator too. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}
static inline size_t round_up(size_t a, size_t step)
{
    return ceil_div(a, step) * step;
}
/* Compute units of a device, 1 where the driver tells none. */
static inline size_t device_units(const struct clcnn_device_info *info)
{
    return info->compute_units ? info->compute_units : 1;
}
static inline bool cpu_device(const struct clcnn_device_info *info)
{
    return info->type == CLCNN_DEVICE_CPU;
}

/* ---- shapes --------------------------------------------------------------------------------------------------- */

int64_t shape_count(const struct clcnn_shape *s); /* 1 for rank 0 */
size_t shape_bytes(const struct clcnn_shape *s);
int64_t shape_count_from(const struct clcnn_shape *s, int first); /* product of dim[first..] */
const char *dtype_opencl(enum clcnn_dtype dtype); /* OpenCL C's word: "float", "long", "int", "uchar" */
bool shape_equal(const struct clcnn_shape *a, const struct clcnn_shape *b); /* dimensions alone */
const char *shape_text(const struct clcnn_shape *s, char buf[96]);          /* "[1, 3, 224, 224]" */
/* Rank up to CLCNN_MAX_RANK, every dimension at least 1, fewer than 2^40 elements; `what` names the value in messages. */
enum clcnn_status shape_check(const struct clcnn_shape *s, const char *what, struct clcnn_err *err);

#endif
