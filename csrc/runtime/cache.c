/* cache.c: kernel binaries on disk, `<dir>/<first two digits of the key>/<key>.bin`. A file is written under a temporary
 * name and renamed, carries its length and SHA-256, and counts as absent when these do not fit. Nothing here reports an
 * error: without the cache, kernels are built. Files are touched when they are read; the oldest go when there are too
 * many. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/runtime_private.h"

#define LIMIT_BYTES (512LL << 20)
#define STALE_SECONDS (24 * 3600) /* a temporary file this old belongs to a process that died */
#define PATH_BYTES 1024

struct header {
    char magic[8];
    uint64_t bytes;
    char digest[64]; /* SHA-256 of the payload, hexadecimal */
};
static const char magic[8] = "clcnn01";

static bool make_path(char path[PATH_BYTES], const char *dir, const char *key, const char *suffix)
{
    return snprintf(path, PATH_BYTES, "%s/%.2s/%s%s", dir, key, key, suffix) < PATH_BYTES;
}

static void digest_of(char digest[65], const void *data, size_t bytes)
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, data, bytes);
    sha256_hex(&h, digest);
}

static void *read_payload(FILE *file, size_t *bytes)
{
    struct header head;
    struct stat info;
    char digest[65];
    void *data;

    if (fstat(fileno(file), &info) != 0 || fread(&head, sizeof head, 1, file) != 1 ||
        memcmp(head.magic, magic, sizeof magic) != 0 || head.bytes == 0 ||
        (uint64_t)info.st_size != sizeof head + head.bytes)
        return NULL;
    data = clcnn_calloc(1, head.bytes);
    if (data != NULL && fread(data, 1, head.bytes, file) == head.bytes) {
        digest_of(digest, data, head.bytes);
        if (memcmp(digest, head.digest, sizeof head.digest) == 0) {
            *bytes = head.bytes;
            return data;
        }
    }
    free(data);
    return NULL;
}

void *cache_load(const char *dir, const char *key, size_t *bytes)
{
    char path[PATH_BYTES];
    void *data;
    FILE *file;

    if (dir == NULL || !make_path(path, dir, key, ".bin"))
        return NULL;
    file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    data = read_payload(file, bytes);
    if (data != NULL)
        futimens(fileno(file), NULL);
    fclose(file);
    return data;
}

/* ---- pruning --------------------------------------------------------------------------------------------------- */

struct aged {
    char name[96]; /* "ab/<key>.bin" */
    int64_t bytes;
    time_t used;
};
struct inventory {
    struct aged *files;
    int count, capacity;
    int64_t bytes;
};

static int oldest_first(const void *a, const void *b)
{
    const time_t x = ((const struct aged *)a)->used, y = ((const struct aged *)b)->used;
    return (x > y) - (x < y);
}

static bool is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

/* Our files of one sub-folder; everything else there is left alone. */
static void take_stock(struct inventory *inv, const char *dir, const char *sub)
{
    const time_t now = time(NULL);
    char path[PATH_BYTES];
    const struct dirent *entry;
    struct stat info;
    DIR *d = NULL;

    if (snprintf(path, sizeof path, "%s/%s", dir, sub) < PATH_BYTES)
        d = opendir(path);
    while (d != NULL && (entry = readdir(d)) != NULL) {
        const size_t n = strlen(entry->d_name);
        if (n < 68 || n > 80 || !is_hex(entry->d_name, 64) || fstatat(dirfd(d), entry->d_name, &info, 0) != 0)
            continue;
        if (strcmp(entry->d_name + 64, ".bin") != 0) {
            if (now - info.st_mtime > STALE_SECONDS)
                unlinkat(dirfd(d), entry->d_name, 0);
            continue;
        }
        if (!clcnn_grow((void **)&inv->files, &inv->capacity, inv->count + 1, sizeof *inv->files))
            break;
        struct aged *file = &inv->files[inv->count++];
        snprintf(file->name, sizeof file->name, "%.2s/%.80s", sub, entry->d_name);
        file->bytes = info.st_size;
        file->used = info.st_mtime;
        inv->bytes += info.st_size;
    }
    if (d != NULL)
        closedir(d);
}

static void prune(const char *dir)
{
    struct inventory inv = {.files = NULL};
    char path[PATH_BYTES], sub[3];

    for (int i = 0; i < 256; i++) {
        snprintf(sub, sizeof sub, "%02x", (unsigned)i & 255u);
        take_stock(&inv, dir, sub);
    }
    if (inv.bytes > LIMIT_BYTES) {
        qsort(inv.files, (size_t)inv.count, sizeof *inv.files, oldest_first);
        for (int i = 0; i < inv.count && inv.bytes > LIMIT_BYTES / 4 * 3; i++)
            if (snprintf(path, sizeof path, "%s/%s", dir, inv.files[i].name) < PATH_BYTES &&
                unlink(path) == 0)
                inv.bytes -= inv.files[i].bytes;
    }
    free(inv.files);
}

/* ---- saving ---------------------------------------------------------------------------------------------------- */

/* Creates the folders of a file's path. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

void cache_save(const char *dir, const char *key, const void *data, size_t bytes)
{
    struct header head = {.bytes = bytes};
    char path[PATH_BYTES], temporary[PATH_BYTES], digest[65];
    bool good;
    FILE *file;
    int fd;

    if (dir == NULL || !make_path(path, dir, key, ".bin") || !make_path(temporary, dir, key, ".XXXXXX"))
        return;
    make_folders(path);
    fd = mkstemp(temporary);
    if (fd < 0)
        return;
    file = fdopen(fd, "wb");
    if (file == NULL) {
        close(fd);
        unlink(temporary);
        return;
    }
    memcpy(head.magic, magic, sizeof magic);
    digest_of(digest, data, bytes);
    memcpy(head.digest, digest, sizeof head.digest);
    good = fwrite(&head, sizeof head, 1, file) == 1 && fwrite(data, 1, bytes, file) == bytes;
    good = fclose(file) == 0 && good;
    if (!good || rename(temporary, path) != 0)
        unlink(temporary);
    else if (key[2] == '0') /* for one file in sixteen: looking through the folder takes milliseconds */
        prune(dir);
}
