/* cl.c: opens the OpenCL loader and CLBlast at the first use of a device, and turns their codes into errors. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime_private.h"

const char *const cl_install_hint = "install a driver: `pip install \"clcnn[cpu]\"` (x86-64 Linux) or "
                                    "`apt install ocl-icd-libopencl1 pocl-opencl-icd` runs on the CPU, "
                                    "the GPU's vendor package (with its .icd file) on the GPU";

/* Written once, under pthread_once, and only read afterwards. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cl_api table;
static char table_reason[512]; /* why there is no table; empty when there is one */
static atomic_long table_pid;  /* who opens or has opened it, 0: nobody yet; drivers do not survive fork() */
static atomic_bool table_done;

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in struct cl_api */
};

static const struct symbol cl_symbols[] = {
#define CL_FN(ret, name, params) {#name, offsetof(struct cl_api, name)},
#include "runtime/cl.def"
#undef CL_FN
};

static const struct symbol clblast_symbols[] = {
#define CLBLAST_FN(ret, name, params) {#name, offsetof(struct cl_api, name)},
#define CLBLAST_SECTION
#include "runtime/cl.def"
#undef CLBLAST_SECTION
#undef CLBLAST_FN
};

/* Adds why a library did not open. A library that is there may still lack others: dlopen() names those, not the library. */
static void note_failure(char *reason, size_t size, const char *name, const char *why)
{
    static const char missing[] = ": cannot open shared object file: No such file";
    const size_t used = strlen(reason), n = strlen(name);
    const char *separator = used > 0 ? "; " : "";

    if (why == NULL || (strncmp(why, name, n) == 0 && strncmp(why + n, missing, sizeof missing - 1) == 0))
        snprintf(reason + used, size - used, "%s%s not found", separator, name);
    else
        snprintf(reason + used, size - used, "%s%s does not open (%s)", separator, name, why);
}

/* The first library of the list that opens; an environment variable (tests) replaces the list. */
static void *open_library(const char *variable, const char *const *names, const char **opened, char *reason,
                          size_t size)
{
    const char *wanted = getenv(variable);
    const char *const only[] = {wanted, NULL};
    void *handle = NULL;

    reason[0] = '\0';
    for (const char *const *name = wanted != NULL ? only : names; *name != NULL && handle == NULL; name++) {
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        *opened = *name;
        if (handle == NULL)
            note_failure(reason, size, *name, dlerror());
    }
    return handle;
}

static bool load_symbols(void *handle, const struct symbol *symbols, int count, const char *library,
                         char *reason, size_t size)
{
    for (int i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (address == NULL) {
            snprintf(reason, size, "%s lacks %s", library, symbols[i].name);
            return false;
        }
        memcpy((char *)&table + symbols[i].offset, &address, sizeof address);
    }
    reason[0] = '\0';
    return true;
}

/* PoCL's worker threads wait between kernels, and Linux often wakes two of them on one core while another one idles: nets of
 * short layers then take up to twice their time. POCL_AFFINITY=1 makes worker i stay on core i, which is asked for only
 * where this process may use every core, and where PoCL does not abort for it (pinning.c); what the user has set stays. */
static void pin_workers(void)
{
    if (cores_usable() == sysconf(_SC_NPROCESSORS_ONLN) && cores_pin_safe())
        setenv("POCL_AFFINITY", "1", 0);
}

static void load_table(void)
{
    const char *const loaders[] = {"libOpenCL.so.1", "libOpenCL.so",
                                   "/System/Library/Frameworks/OpenCL.framework/OpenCL", driver_offered(),
                                   NULL};
    static const char *const clblasts[] = {"libclblast.so.1", "libclblast.so", "libclblast.dylib", NULL};
    const char *name = NULL;
    void *clblast;

    table.loader = open_library("CLCNN_OPENCL_LIBRARY", loaders, &name, table_reason, sizeof table_reason);
    if (table.loader == NULL || !load_symbols(table.loader, cl_symbols, COUNT_OF(cl_symbols), name,
                                              table_reason, sizeof table_reason))
        return;
    if (name != driver_offered())
        driver_offer_open(&table);
    clblast = open_library("CLCNN_CLBLAST_LIBRARY", clblasts, &name, table.clblast_reason,
                           sizeof table.clblast_reason);
    if (clblast != NULL && load_symbols(clblast, clblast_symbols, COUNT_OF(clblast_symbols), name,
                                        table.clblast_reason, sizeof table.clblast_reason))
        table.clblast = clblast;
}

static void open_table(void)
{
    atomic_store(&table_pid, (long)getpid());
    pin_workers();
    load_table();
    atomic_store(&table_done, true);
}

/* Also of one that is being opened by another thread of the parent, which will not finish in the child. */
static bool table_forked(void)
{
    const long pid = atomic_load(&table_pid);
    return pid != 0 && pid != (long)getpid();
}

/* One source of ICD files: a folder, of which the .icd files are named, or a single file or library. */
static void icd_folder(char *out, size_t size, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    const char *separator = ": ";
    size_t used = strlen(out);

    used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "; " : "", path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot == NULL || strcmp(dot, ".icd") != 0 || used + strlen(entry->d_name) + 3 > size)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", separator, entry->d_name);
        separator = ", ";
    }
    if (used < size && separator[0] == ':')
        snprintf(out + used, size - used, "%s",
                 dir != NULL               ? " has none"
                 : access(path, R_OK) == 0 ? ""
                                           : " does not exist");
    if (dir != NULL)
        closedir(dir);
}

void icd_text(char *out, size_t size)
{
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"};
    bool redirected = false;

    out[0] = '\0';
    for (int i = 0; i < COUNT_OF(variables); i++) {
        const char *path = getenv(variables[i]);
        if (path == NULL || path[0] == '\0' || strlen(out) + strlen(path) + 64 > size)
            continue;
        icd_folder(out, size, path);
        redirected = true;
    }
    if (!redirected)
        icd_folder(out, size, "/etc/OpenCL/vendors");
}

enum clcnn_status cl_api_get(const struct cl_api **out, struct clcnn_err *err)
{
    char icds[384];

    if (!table_forked())
        pthread_once(&once, open_table);
    if (atomic_load(&table_done) && table_reason[0] != '\0') {
        icd_text(icds, sizeof icds);
        return clcnn_fail(err, CLCNN_E_NO_DEVICE,
                          "no usable OpenCL loader: %s. ICD files: %s. To fix it, %s.", table_reason, icds,
                          cl_install_hint);
    }
    if (table_forked())
        return clcnn_fail(
            err, CLCNN_E_STATE,
            "OpenCL was opened in process %d and cannot be used in a forked child; use the \"spawn\" "
            "start method, or use no device before the fork",
            (int)atomic_load(&table_pid));
    cl_fault_arm();
    *out = &table;
    return CLCNN_OK;
}

enum clcnn_status cl_fail(struct clcnn_err *err, const char *call, cl_int code)
{
    static const struct {
        cl_int code;
        enum clcnn_status status;
    } memory_codes[] = {
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, CLCNN_E_DEVICE_MEM},
        {CL_OUT_OF_HOST_MEMORY, CLCNN_E_HOST_MEM},
    };
    const char *name = clcnn_cl_code_name(code);
    enum clcnn_status status = CLCNN_E_CL;

    for (int i = 0; i < COUNT_OF(memory_codes); i++)
        if (memory_codes[i].code == code)
            status = memory_codes[i].status;
    clcnn_fail(err, status, "%s: %s (%d)", call, name != NULL ? name : "unknown code", (int)code);
    if (err != NULL) {
        err->cl_code = code;
        err->call = call;
    }
    return status;
}

enum clcnn_status err_prefix(struct clcnn_err *err, enum clcnn_status status, const char *prefix)
{
    char text[sizeof err->text];

    if (err != NULL && prefix != NULL) {
        memcpy(text, err->text, sizeof text);
        snprintf(err->text, sizeof err->text, "%.*s: %.*s", CLCNN_NAME_MAX, prefix,
                 (int)(sizeof text - CLCNN_NAME_MAX - 4), text);
    }
    return status;
}
