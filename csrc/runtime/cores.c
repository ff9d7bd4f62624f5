/* cores.c: how many processor cores this process may keep busy: those of its affinity mask, and no more than its control
 * group's quota. Containers often have a share of a large machine, whose drivers start a thread for each core. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/pinning.h"
#include "runtime/runtime_private.h"

/* "<quota> <period>" in microseconds, "max" for no limit: cpu.max of a control group (version 2). */
static long quota_of(const char *path)
{
    char text[512];
    long quota = 0, period = 0;
    FILE *file = NULL;

    if (snprintf(text, sizeof text, "/sys/fs/cgroup%.400s/cpu.max", path) > 0)
        file = fopen(text, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%ld %ld", &quota, &period) != 2 || period <= 0)
        quota = 0;
    fclose(file);
    return quota > 0 ? (quota + period - 1) / period : 0;
}

/* Of the process's own group, or of the root that a container shows; 0: none. */
static long quota_cores(void)
{
    char line[512];
    long cores = 0;
    FILE *file = fopen("/proc/self/cgroup", "r");

    while (file != NULL && cores == 0 && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            cores = quota_of(strcmp(line + 3, "/") == 0 ? "" : line + 3);
    }
    if (file != NULL)
        fclose(file);
    return cores > 0 ? cores : quota_of("");
}

/* PoCL makes a device for each word of this list, and one set of threads for all of them. */
static long devices_on_cores(void)
{
    const char *at = getenv("POCL_DEVICES");
    long devices = 0;

    for (; at != NULL && *(at += strspn(at, " ")) != '\0'; at += strcspn(at, " "))
        devices += strncmp(at, "pthread", 7) == 0 || strncmp(at, "cpu", 3) == 0;
    return devices > 1 ? devices : 1;
}

long cores_usable(void)
{
    const long quota = quota_cores();
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef CPU_COUNT
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < cores)
        cores = CPU_COUNT(&allowed);
#endif
    return quota > 0 && quota < cores ? quota : cores;
}

long cores_of_device(void)
{
    const long cores = cores_usable() / devices_on_cores();

    return cores > 1 ? cores : 1;
}

#ifdef CPU_COUNT
static const char *variable(const char *name)
{
    return getenv(name);
}
#endif

bool cores_pin_safe(void)
{
#ifdef CPU_COUNT
    char online[512] = "";
    unsigned char allowed[PINNING_MOST] = {0};
    cpu_set_t mask;
    FILE *file = fopen("/sys/devices/system/cpu/online", "r");

    if (file != NULL && fgets(online, sizeof online, file) == NULL)
        online[0] = '\0';
    if (file != NULL)
        fclose(file);
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return false;
    for (int i = 0; i < PINNING_MOST && i < CPU_SETSIZE; i++)
        allowed[i] = CPU_ISSET(i, &mask);
    return pinning_is_safe(online, allowed, variable);
#else
    return false;
#endif
}
