/* pinning.c: whether PoCL may be asked to keep its worker i on processor i (POCL_AFFINITY=1). It calls
 * pthread_setaffinity_np() for each worker and aborts the process where that fails, so every worker needs a processor of its own
 * number that this process may use. PoCL starts as many workers as hwloc counts processors, online and allowed by the
 * control group, or as many as a variable says. Nothing here asks the machine: pinning_is_safe() is told. */
#include <stdlib.h>
#include <string.h>

#include "runtime/pinning.h"

/* How many workers there are, or at least: PoCL 1 to 3, then 4 to 6, then 7 on. */
static const char *const counts[] = {"POCL_MAX_PTHREAD_COUNT", "POCL_PTHREAD_MIN_THREADS",
                                     "POCL_CPU_MAX_CU_COUNT", "POCL_CPU_MIN_CU_COUNT",
                                     "POCL_MAX_COMPUTE_UNITS"};
/* With these hwloc tells of another machine, or of processors that are not allowed. */
static const char *const topologies[] = {"HWLOC_XMLFILE",    "HWLOC_SYNTHETIC",  "HWLOC_FSROOT",
                                         "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS", "HWLOC_ALLOW"};

/* A whole number from 0 to `most` at *text, which then points behind it; -1: there is none. */
static long number(const char **text, long most)
{
    char *end = NULL;
    const long n = strspn(*text, "0123456789") > 0 ? strtol(*text, &end, 10) : -1;

    if (n < 0 || n > most)
        return -1;
    *text = end;
    return n;
}

/* How many processors "0-7" means, or "0"; 0 where numbers begin elsewhere or have gaps. */
static int counted_from_zero(const char *online)
{
    const char *at = online;
    long last = number(&at, 0);

    if (last == 0 && *at == '-') {
        at++;
        last = number(&at, PINNING_MOST - 1);
    }
    return last >= 0 && strspn(at, " \n") == strlen(at) ? (int)last + 1 : 0;
}

static bool is_count(const char *text, int most)
{
    const long n = number(&text, most);

    return n > 0 && *text == '\0';
}

bool pinning_is_safe(const char *online, const unsigned char allowed[PINNING_MOST],
                     pinning_variable *variable)
{
    const int processors = counted_from_zero(online);

    if (processors == 0)
        return false;
    for (int i = 0; i < PINNING_MOST; i++)
        if ((allowed[i] != 0) != (i < processors))
            return false;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (variable(counts[i]) != NULL && !is_count(variable(counts[i]), processors))
            return false;
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++)
        if (variable(topologies[i]) != NULL)
            return false;
    return true;
}
