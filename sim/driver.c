/* State of the simulated driver: the current scenario, issued handles, fault injection. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A handle is the UUID of its GPU, so it survives a rewritten scenario file. */
struct nvmlDevice_st {
    char uuid[80];
};

enum { MAX_HANDLES = 1024, POLL_MS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlDevice_st handles[MAX_HANDLES];
static int handle_count;
static int initialized;
static struct scenario *current;
static struct stat seen;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ino == b->st_ino && a->st_size == b->st_size;
}

/* Reload the scenario when the file has changed; the last good one stays current if the file is
   gone or does not parse. */
static void refresh(void)
{
    static int fixed = -1;
    static const char *path;
    if (fixed < 0) {
        const char *value = getenv("FLEET_SMI_SIM_STATIC");
        fixed = value != NULL && strcmp(value, "1") == 0;
        path = getenv("FLEET_SMI_SIM");
    }
    struct stat now;
    if (path == NULL || (fixed && current != NULL) || stat(path, &now) != 0 ||
        same_file(&now, &seen))
        return;
    seen = now; /* also for a bad file, which would otherwise be parsed again on every call */
    struct scenario *fresh = scenario_load(path);
    if (fresh != NULL) {
        scenario_free(current);
        current = fresh;
    }
}

static void sleep_ms(uint64_t ms)
{
    struct timespec rest = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0) /* a signal must not shorten a "slow" fault */
        continue;
}

/* "nvmlDeviceGetPowerUsage" and "PowerUsage" both name it; versions of a function
   ("..._v3") match the plain name too. */
static bool names(const char *fault, const char *function)
{
    static const char *const prefixes[] = {"", "nvmlDeviceGet", "nvmlSystemGet", "nvmlDevice", "nvml"};
    size_t length = strlen(fault);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t prefix = strlen(prefixes[i]);
        if (strncmp(function, prefixes[i], prefix) != 0 ||
            strncmp(function + prefix, fault, length) != 0)
            continue;
        const char *rest = function + prefix + length;
        if (*rest == '\0' || (strncmp(rest, "_v", 2) == 0 && strlen(rest) == 3))
            return true;
    }
    return false;
}

static const struct fault *find_fault(const struct faults *faults, const char *function,
                                      enum scope scope)
{
    for (int i = 0; i < faults->count; i++) {
        const struct fault *fault = &faults->list[i];
        bool everything = strcmp(fault->call, "**") == 0;
        bool most = strcmp(fault->call, "*") == 0 && scope != HANDLE_GETTER;
        if (everything || most || names(fault->call, function))
            return fault;
    }
    return NULL;
}

/* A handle getter comes here twice: first without a GPU, for the faults of the machine, then with
   the one it found. The second time those of the machine must not be injected again. */
static struct fault fault_now(const struct gpu *gpu, const char *function, enum scope scope)
{
    const struct fault *fault = NULL;
    if (gpu == NULL || scope != HANDLE_GETTER)
        fault = find_fault(&current->faults, function, scope);
    if (fault == NULL && gpu != NULL)
        fault = find_fault(&gpu->faults, function, scope);
    return fault != NULL ? *fault : (struct fault){.kind = FAULT_NONE};
}

/* Find the GPU or instance of a handle in the current scenario. */
static nvmlReturn_t resolve(nvmlDevice_t device, const struct gpu **gpu,
                            const struct instance **instance)
{
    *gpu = NULL;
    *instance = NULL;
    if (device < handles || device >= handles + handle_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int g = 0; g < current->gpu_count; g++) {
        struct gpu *candidate = &current->gpus[g];
        *gpu = candidate;
        if (strcmp(candidate->uuid, device->uuid) == 0)
            return NVML_SUCCESS;
        for (int i = 0; i < candidate->instance_count; i++) {
            *instance = &candidate->instances[i];
            if (strcmp((*instance)->uuid, device->uuid) == 0)
                return NVML_SUCCESS;
        }
        *instance = NULL;
    }
    *gpu = NULL;
    return NVML_ERROR_GPU_IS_LOST;
}

/* Block until the scenario no longer has the fault "never" for this call: a test ends a hang by
   rewriting the file. */
static void wait_while_hung(nvmlDevice_t device, const char *function, enum scope scope,
                            const struct gpu *wanted)
{
    char uuid[80] = ""; /* a copy: `wanted` is freed with its scenario by refresh() */
    if (wanted != NULL)
        snprintf(uuid, sizeof uuid, "%s", wanted->uuid);
    for (;;) {
        pthread_mutex_unlock(&lock);
        sleep_ms(POLL_MS);
        pthread_mutex_lock(&lock);
        refresh();
        const struct gpu *gpu = NULL;
        const struct instance *instance;
        if (device != NULL)
            resolve(device, &gpu, &instance);
        for (int g = 0; device == NULL && g < current->gpu_count; g++) {
            if (strcmp(current->gpus[g].uuid, uuid) == 0)
                gpu = &current->gpus[g];
        }
        if (fault_now(gpu, function, scope).kind != FAULT_NEVER)
            return;
    }
}

/* Inject the fault of this call. The lock is released during delays, so that calls of other
   threads continue as in a real driver. */
static nvmlReturn_t inject_fault(struct call *call, nvmlDevice_t device, const char *function,
                                 enum scope scope, const struct gpu *gpu)
{
    struct fault fault = fault_now(gpu, function, scope);
    switch (fault.kind) {
    case FAULT_ERROR:
        return (nvmlReturn_t)fault.argument;
    case FAULT_VALUE:
        call->distorted = true;
        call->raw = fault.argument;
        return NVML_SUCCESS;
    case FAULT_NEVER:
        wait_while_hung(device, function, scope, gpu);
        return NVML_SUCCESS;
    case FAULT_SLOW:
        pthread_mutex_unlock(&lock);
        sleep_ms(fault.argument);
        pthread_mutex_lock(&lock);
        return NVML_SUCCESS;
    default:
        return NVML_SUCCESS;
    }
}

static nvmlReturn_t begin_call(struct call *call, const char *function, int since,
                               enum scope scope, nvmlDevice_t device)
{
    if (initialized == 0 && scope != WITHOUT_DRIVER)
        return NVML_ERROR_UNINITIALIZED;
    if (since > scenario_branch(current))
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    bool with_device = scope == GPU_ONLY || scope == ANY_HANDLE;
    const struct gpu *gpu = NULL;
    nvmlReturn_t status = NVML_SUCCESS;
    if (with_device)
        status = resolve(device, &gpu, &call->instance);
    if (status == NVML_SUCCESS)
        status = inject_fault(call, device, function, scope, gpu);
    /* Again: a scenario that was reloaded during a delay has freed the GPU found above. */
    if (status == NVML_SUCCESS && with_device)
        status = resolve(device, &call->gpu, &call->instance);
    call->scenario = current;
    if (status == NVML_SUCCESS && scope == GPU_ONLY && call->instance != NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    return status;
}

struct call driver_enter(const char *function, int since, enum scope scope, nvmlDevice_t device)
{
    struct call call = {.status = NVML_SUCCESS, .locked = true};
    pthread_mutex_lock(&lock);
    refresh();
    call.status = begin_call(&call, function, since, scope, device);
    if (call.status != NVML_SUCCESS)
        driver_leave(&call);
    return call;
}

void driver_leave(struct call *call)
{
    if (call->locked)
        pthread_mutex_unlock(&lock);
    call->locked = false;
}

static nvmlDevice_t handle_of(const char *uuid)
{
    for (int i = 0; i < handle_count; i++) {
        if (strcmp(handles[i].uuid, uuid) == 0)
            return &handles[i];
    }
    if (handle_count == MAX_HANDLES)
        return NULL;
    snprintf(handles[handle_count].uuid, sizeof handles[0].uuid, "%s", uuid);
    return &handles[handle_count++];
}

nvmlReturn_t driver_find(struct call *call, const char *function, const struct gpu *gpu,
                         const struct instance *instance, nvmlDevice_t *device)
{
    if (device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlDevice_t handle = handle_of(instance != NULL ? instance->uuid : gpu->uuid);
    if (handle == NULL)
        return NVML_ERROR_MEMORY;
    nvmlReturn_t status = inject_fault(call, NULL, function, HANDLE_GETTER, gpu);
    if (status == NVML_SUCCESS)
        *device = handle;
    return status;
}

nvmlReturn_t driver_init(const char *function)
{
    struct call unused = {.status = NVML_SUCCESS};
    pthread_mutex_lock(&lock);
    refresh();
    nvmlReturn_t status = NVML_ERROR_DRIVER_NOT_LOADED;
    if (current != NULL)
        status = inject_fault(&unused, NULL, function, HANDLE_GETTER, NULL);
    if (current != NULL && status == NVML_SUCCESS)
        status = (nvmlReturn_t)current->init;
    if (status == NVML_SUCCESS)
        initialized++;
    pthread_mutex_unlock(&lock);
    return status;
}

nvmlReturn_t driver_shutdown(void)
{
    pthread_mutex_lock(&lock);
    nvmlReturn_t status = initialized > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (initialized > 0)
        initialized--;
    pthread_mutex_unlock(&lock);
    return status;
}

int driver_branch(void)
{
    return current != NULL ? scenario_branch(current) : 0;
}

void driver_version(char *text, size_t size)
{
    snprintf(text, size, "%s", current != NULL ? current->driver : "");
}

void driver_address(unsigned index, char *text, size_t size)
{
    bool there = current != NULL && index < (unsigned)current->gpu_count;
    snprintf(text, size, "%s", there ? current->gpus[index].pci : "");
}

nvmlReturn_t put_u32(const struct call *call, unsigned *to, struct number from)
{
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!from.known && !call->distorted)
        return NVML_ERROR_NOT_SUPPORTED;
    *to = (unsigned)(call->distorted ? call->raw : from.value);
    return NVML_SUCCESS;
}

nvmlReturn_t put_u64(const struct call *call, unsigned long long *to, struct number from)
{
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!from.known && !call->distorted)
        return NVML_ERROR_NOT_SUPPORTED;
    *to = call->distorted ? call->raw : from.value;
    return NVML_SUCCESS;
}

nvmlReturn_t put_text(const struct call *call, char *to, unsigned size, const char *from)
{
    (void)call;
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (from[0] == '\0' || strcmp(from, "n/a") == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(from) + 1 > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, from, strlen(from) + 1);
    return NVML_SUCCESS;
}
