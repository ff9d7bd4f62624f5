/* build_error.c: what a compiler said of a kernel that did not build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

static char *build_log(const struct clcnn_device *dev, cl_program program)
{
    size_t size = 0;
    char *log = NULL;
    cl_int code;

    CL_CODE(code, dev->api, clGetProgramBuildInfo, program, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    if (code == CL_SUCCESS)
        log = clcnn_calloc(size + 1, 1);
    if (log != NULL)
        CL_CODE(code, dev->api, clGetProgramBuildInfo, program, dev->id, CL_PROGRAM_BUILD_LOG, size, log,
                NULL);
    return log;
}

/* The first line that speaks of an error, else the first line. */
static void first_error(char out[256], const char *log)
{
    const char *error = strstr(log, "error");
    const char *line = error != NULL ? error : log;

    while (line > log && line[-1] != '\n')
        line--;
    snprintf(out, 256, "%.*s", (int)strcspn(line, "\n"), line);
}

enum clcnn_status build_fail(struct clcnn_err *err, const struct clcnn_device *dev, cl_program program,
                             const struct unit *unit, cl_int code)
{
    char *log = build_log(dev, program), *defines = unit_defines(unit), *options = NULL;
    const char *name = clcnn_cl_code_name(code);
    char line[256] = "no build log";

    if (log != NULL && log[0] != '\0')
        first_error(line, log);
    if (defines != NULL)
        options = clcnn_calloc(strlen(defines) + strlen(driver_build_options(dev)) + 2, 1);
    if (options != NULL)
        sprintf(options, "%s %s", driver_build_options(dev), defines);
    clcnn_fail(err, CLCNN_E_BUILD, "kernel %s did not build on '%s' with %s: %s (%s)", unit->file,
               dev->info.name, defines != NULL && defines[0] != '\0' ? defines : "no defines", line,
               name != NULL ? name : "unknown code");
    free(defines);
    if (err == NULL) {
        free(log);
        free(options);
        return CLCNN_E_BUILD;
    }
    err->cl_code = code;
    err->call = "clBuildProgram";
    err->log = log;
    err->options = options;
    snprintf(err->kernel, sizeof err->kernel, "%s", unit->file);
    return CLCNN_E_BUILD;
}
