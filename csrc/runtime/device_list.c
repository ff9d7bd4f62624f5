/* device_list.c: what devices there are, what they can do, and which one a selector means. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/runtime_private.h"

/* Copies without white space at both ends; names longer than the field are cut. */
static void copy_trimmed(char out[CLCNN_NAME_MAX], const char *text)
{
    size_t n;

    while (isspace((unsigned char)*text))
        text++;
    n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    n = n < CLCNN_NAME_MAX ? n : CLCNN_NAME_MAX - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

/* The whole text of a device query; malloc'd, NULL when the driver does not answer. */
static char *device_text(const struct cl_api *api, cl_device_id id, cl_device_info what)
{
    size_t size = 0;
    char *text = NULL;
    cl_int code;

    CL_CODE(code, api, clGetDeviceInfo, id, what, 0, NULL, &size);
    if (code == CL_SUCCESS)
        text = clcnn_calloc(size + 1, 1);
    if (text != NULL)
        CL_CODE(code, api, clGetDeviceInfo, id, what, size, text, NULL);
    if (code != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    return text;
}

static void platform_text(char out[CLCNN_NAME_MAX], const struct cl_api *api, cl_platform_id id,
                          cl_platform_info what)
{
    size_t size = 0;
    char *text = NULL;
    cl_int code;

    CL_CODE(code, api, clGetPlatformInfo, id, what, 0, NULL, &size);
    if (code == CL_SUCCESS)
        text = clcnn_calloc(size + 1, 1);
    if (text != NULL)
        CL_CODE(code, api, clGetPlatformInfo, id, what, size, text, NULL);
    if (text != NULL && code == CL_SUCCESS)
        copy_trimmed(out, text);
    free(text);
}

/* Of cl_nv_device_attribute_query; not in Khronos' plain headers. */
#define COMPUTE_CAPABILITY_MAJOR 0x4000
#define COMPUTE_CAPABILITY_MINOR 0x4001

/* Numbers come as cl_uint, cl_ulong, size_t or bit fields; a query that fails counts as 0. */
static uint64_t device_number(const struct cl_api *api, cl_device_id id, cl_device_info what)
{
    union {
        cl_uint u32;
        cl_ulong u64;
    } value = {.u64 = 0};
    size_t size = 0;
    cl_int code;

    CL_CODE(code, api, clGetDeviceInfo, id, what, sizeof value, &value, &size);
    if (code != CL_SUCCESS)
        return 0;
    return size == sizeof value.u32 ? value.u32 : value.u64;
}

static enum clcnn_device_type device_type(uint64_t bits)
{
    static const struct {
        cl_device_type bit;
        enum clcnn_device_type type;
    } types[] = {
        {CL_DEVICE_TYPE_GPU, CLCNN_DEVICE_GPU},
        {CL_DEVICE_TYPE_CPU, CLCNN_DEVICE_CPU},
        {CL_DEVICE_TYPE_ACCELERATOR, CLCNN_DEVICE_ACCELERATOR},
    };

    for (int i = 0; i < COUNT_OF(types); i++)
        if (bits & types[i].bit)
            return types[i].type;
    return CLCNN_DEVICE_OTHER;
}

static void read_info(struct clcnn_device_info *info, const struct cl_api *api, cl_device_id id)
{
    const struct {
        cl_device_info what;
        char *out;
    } texts[] = {
        {CL_DEVICE_NAME, info->name},
        {CL_DEVICE_VENDOR, info->vendor},
        {CL_DEVICE_VERSION, info->version},
        {CL_DRIVER_VERSION, info->driver},
    };
    char *extensions = device_text(api, id, CL_DEVICE_EXTENSIONS);

    for (int i = 0; i < COUNT_OF(texts); i++) {
        char *text = device_text(api, id, texts[i].what);
        if (text != NULL)
            copy_trimmed(texts[i].out, text);
        free(text);
    }
    info->type = device_type(device_number(api, id, CL_DEVICE_TYPE));
    info->compute_units = (uint32_t)device_number(api, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->max_clock_mhz = (uint32_t)device_number(api, id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    info->float_width = (uint32_t)device_number(api, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    if (info->type == CLCNN_DEVICE_CPU) {
        processor_vendor(info->cpu_vendor);
        info->core_cache_bytes = processor_cache_bytes();
        info->byte_products = processor_has_byte_products();
        info->byte_permutes = processor_has_byte_permutes();
        info->amx_tiles = processor_has_amx_tiles();
    }
    info->half_vectors =
        info->type == CLCNN_DEVICE_CPU && info->float_width >= 16 && processor_halves_vectors();
    info->global_mem_bytes = device_number(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc_bytes = device_number(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->cache_bytes = device_number(api, id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->local_mem_bytes = device_number(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->max_group_size = (size_t)device_number(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->host_unified = device_number(api, id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    info->local_is_dedicated = device_number(api, id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
    info->available = device_number(api, id, CL_DEVICE_AVAILABLE) != 0;
    info->has_fp64 = extensions != NULL && strstr(extensions, "cl_khr_fp64") != NULL;
    info->has_fp16 = extensions != NULL && strstr(extensions, "cl_khr_fp16") != NULL;
    if (extensions != NULL && strstr(extensions, "cl_nv_device_attribute_query") != NULL)
        info->compute_capability = (uint32_t)(10 * device_number(api, id, COMPUTE_CAPABILITY_MAJOR) +
                                              device_number(api, id, COMPUTE_CAPABILITY_MINOR));
    /* Drivers that leave these out must not lead to divisions by zero later. */
    info->compute_units += info->compute_units == 0;
    info->float_width += info->float_width == 0;
    free(extensions);
}

struct listing {
    struct device_entry *entries;
    int count, capacity;
    char skipped[384]; /* platforms that gave no device, and their code */
};

static void note_skipped(struct listing *l, const char *platform, cl_int code)
{
    const size_t noted = strlen(l->skipped);
    const char *name = clcnn_cl_code_name(code);

    snprintf(l->skipped + noted, sizeof l->skipped - noted, "%s%.64s (%s)", noted > 0 ? ", " : "",
             platform[0] != '\0' ? platform : "a platform without a name",
             name != NULL ? name : "unknown code");
}

/* A platform that fails, or has no device, is passed over with a note. */
static enum clcnn_status list_platform(struct listing *l, const struct cl_api *api, cl_platform_id platform,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_device_info common = {.index = 0};
    cl_device_id *ids = NULL;
    cl_uint n = 0;
    cl_int code;

    platform_text(common.platform, api, platform, CL_PLATFORM_NAME);
    platform_text(common.platform_version, api, platform, CL_PLATFORM_VERSION);
    CL_CODE(code, api, clGetDeviceIDs, platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
    ids = clcnn_calloc(n, sizeof(cl_device_id));
    if (ids == NULL ||
        !clcnn_grow((void **)&l->entries, &l->capacity, l->count + (int)n, sizeof *l->entries)) {
        st = clcnn_fail_mem(err, n * sizeof *l->entries);
        goto done;
    }
    if (code == CL_SUCCESS && n > 0)
        CL_CODE(code, api, clGetDeviceIDs, platform, CL_DEVICE_TYPE_ALL, n, ids, NULL);
    if (code != CL_SUCCESS || n == 0) {
        note_skipped(l, common.platform, code == CL_SUCCESS ? CL_DEVICE_NOT_FOUND : code);
        goto done;
    }
    for (cl_uint i = 0; i < n; i++) {
        struct device_entry *e = &l->entries[l->count];
        *e = (struct device_entry){.platform = platform, .id = ids[i], .info = common};
        e->info.index = l->count++;
        read_info(&e->info, api, ids[i]);
    }
done:
    free(ids);
    return st;
}

static enum clcnn_status no_device(const char *skipped, struct clcnn_err *err)
{
    const char *offer = driver_offer_failure();
    char icds[384];

    icd_text(icds, sizeof icds);
    return clcnn_fail(err, CLCNN_E_NO_DEVICE,
                      "no OpenCL device: the loader was opened and %s%s. ICD files: %s.%s%s%s To fix it, %s.",
                      skipped[0] != '\0' ? "these platforms have no device: " : "found no platform", skipped,
                      icds, offer[0] != '\0' ? " pip's driver: " : "", offer, offer[0] != '\0' ? "." : "",
                      cl_install_hint);
}

enum clcnn_status device_enumerate(struct device_entry **out, int *count, const struct cl_api *api,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct listing l = {.count = 0};
    cl_platform_id *platforms = NULL;
    cl_uint n = 0;
    cl_int code;

    CL_CODE(code, api, clGetPlatformIDs, 0, NULL, &n);
    if (code == -1001) /* CL_PLATFORM_NOT_FOUND_KHR */
        n = 0;
    else if (code != CL_SUCCESS)
        return cl_fail(err, "clGetPlatformIDs", code);
    platforms = clcnn_calloc(n + DRIVER_OFFER_MOST, sizeof(cl_platform_id));
    if (platforms == NULL)
        return clcnn_fail_mem(err, (n + DRIVER_OFFER_MOST) * sizeof(cl_platform_id));
    if (n > 0)
        CL_TRY(api, clGetPlatformIDs, n, platforms, NULL);
    n = driver_offer_platforms(platforms, n);
    for (cl_uint i = 0; i < n; i++)
        TRY(list_platform(&l, api, platforms[i], err));
    if (l.count == 0) {
        st = no_device(l.skipped, err);
        goto done;
    }
    *out = l.entries;
    *count = l.count;
    l.entries = NULL;
done:
    free(platforms);
    free(l.entries);
    return st;
}

enum clcnn_status clcnn_device_list(struct clcnn_device_info **out, size_t *count, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct cl_api *api = NULL;
    struct device_entry *entries = NULL;
    struct clcnn_device_info *infos = NULL;
    int n = 0;

    TRY(cl_api_get(&api, err));
    TRY(device_enumerate(&entries, &n, api, err));
    infos = clcnn_calloc((size_t)n, sizeof *infos);
    if (infos == NULL) {
        st = clcnn_fail_mem(err, (size_t)n * sizeof *infos);
        goto done;
    }
    for (int i = 0; i < n; i++)
        infos[i] = entries[i].info;
    *out = infos;
    *count = (size_t)n;
done:
    free(entries);
    return st;
}

/* ---- selectors ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum clcnn_device_type type;
} type_words[] = {
    {"gpu", CLCNN_DEVICE_GPU},
    {"cpu", CLCNN_DEVICE_CPU},
    {"accelerator", CLCNN_DEVICE_ACCELERATOR},
};

/* Case-insensitive; needle need not end with a zero. */
static bool contains(const char *text, const char *needle, size_t n)
{
    for (; strlen(text) >= n; text++)
        if (strncasecmp(text, needle, n) == 0)
            return true;
    return false;
}

static const struct device_entry *find_type(const struct device_entry *entries, int count,
                                            enum clcnn_device_type type)
{
    for (int i = 0; i < count; i++)
        if (entries[i].info.available && entries[i].info.type == type)
            return &entries[i];
    return NULL;
}

/* A selector without a platform, among `count` entries that follow each other. */
static const struct device_entry *find(const struct device_entry *entries, int count, const char *selector)
{
    const bool index = selector[0] != '\0' && strspn(selector, "0123456789") == strlen(selector);
    const struct device_entry *found = NULL;

    if (index) {
        const long i = strtol(selector, NULL, 10);
        return i < count ? &entries[i] : NULL;
    }
    for (int i = 0; i < COUNT_OF(type_words); i++) {
        if (selector[0] == '\0' && found == NULL && type_words[i].type != CLCNN_DEVICE_ACCELERATOR)
            found = find_type(entries, count, type_words[i].type);
        if (strcasecmp(selector, type_words[i].word) == 0)
            return find_type(entries, count, type_words[i].type);
    }
    for (int i = 0; i < count && found == NULL; i++) {
        const struct clcnn_device_info *info = &entries[i].info;
        const size_t n = strlen(selector);
        if (contains(info->name, selector, n) || contains(info->platform, selector, n))
            found = &entries[i];
    }
    return found;
}

/* "platform:part": the entries of one platform follow each other. */
static const struct device_entry *find_on_platform(const struct device_entry *entries, int count,
                                                   const char *selector, const char *colon)
{
    const struct device_entry *found = NULL;

    for (int first = 0, last = 0; first < count && found == NULL; first = last) {
        while (last < count && entries[last].platform == entries[first].platform)
            last++;
        if (contains(entries[first].info.platform, selector, (size_t)(colon - selector)))
            found = find(entries + first, last - first, colon + 1);
    }
    return found;
}

enum clcnn_status device_select(const struct device_entry **out, const struct device_entry *entries,
                                int count, const char *selector, struct clcnn_err *err)
{
    const char *wanted = selector != NULL ? selector : "";
    const char *colon = strchr(wanted, ':');
    const struct device_entry *found = find(entries, count, wanted);
    char list[640] = "";

    if (found == NULL && colon != NULL)
        found = find_on_platform(entries, count, wanted, colon);
    if (found != NULL && found->info.available) {
        *out = found;
        return CLCNN_OK;
    }
    if (found != NULL)
        return clcnn_fail(err, CLCNN_E_NO_DEVICE, "device %d (%s) is not available", found->info.index,
                          found->info.name);
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%d %.80s (%.48s)", i > 0 ? ", " : "",
                 entries[i].info.index, entries[i].info.name, entries[i].info.platform);
    }
    return clcnn_fail(
        err, CLCNN_E_NO_DEVICE,
        "no device matches '%.64s'; there are: %s. A selector is \"cpu\", \"gpu\", \"accelerator\", an "
        "index, part of a device or platform name, or \"platform:part\"",
        wanted, list);
}
