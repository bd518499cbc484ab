/* NVML calls about the machine: init and shutdown, versions, device handles. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

API(319, nvmlInit_v2, void)
{
    return driver_init("nvmlInit");
}

API(319, nvmlInit, void)
{
    return driver_init("nvmlInit");
}

API(396, nvmlInitWithFlags, unsigned flags)
{
    (void)flags;
    return driver_init("nvmlInit");
}

API(319, nvmlShutdown, void)
{
    return driver_shutdown();
}

/* Not an API(), because it returns a string. build.py lists it by name. */
const char *nvmlErrorString(nvmlReturn_t code)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported",
        "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
        "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory",
        "No data", "vGPU ECC not supported",
        "Insufficient Resources", "Frequency Not Supported", "Argument version mismatch",
        "Requested functionality has been deprecated"};
    unsigned number = (unsigned)code;
    return number < sizeof texts / sizeof texts[0] ? texts[number] : "Unknown Error";
}

API(319, nvmlSystemGetDriverVersion, char *text, unsigned size)
{
    ENTER(nvmlSystemGetDriverVersion, WITHOUT_DEVICE, NULL);
    return put_text(&call, text, size, call.scenario->driver);
}

API(319, nvmlSystemGetNVMLVersion, char *text, unsigned size)
{
    ENTER(nvmlSystemGetNVMLVersion, WITHOUT_DRIVER, NULL);
    char version[64];
    snprintf(version, sizeof version, "%d.%s", atoi(call.scenario->cuda), call.scenario->driver);
    return put_text(&call, text, size, version);
}

/* 13010 for CUDA 13.1 */
static nvmlReturn_t cuda_version(const struct call *call, int *version)
{
    int major = 0, minor = 0;
    if (sscanf(call->scenario->cuda, "%d.%d", &major, &minor) < 1)
        return NVML_ERROR_NOT_FOUND;
    return put_u32(call, (unsigned *)version, known((uint64_t)(1000 * major + 10 * minor)));
}

API(396, nvmlSystemGetCudaDriverVersion, int *version)
{
    ENTER(nvmlSystemGetCudaDriverVersion, WITHOUT_DEVICE, NULL);
    return cuda_version(&call, version);
}

API(410, nvmlSystemGetCudaDriverVersion_v2, int *version)
{
    ENTER(nvmlSystemGetCudaDriverVersion_v2, WITHOUT_DEVICE, NULL);
    return cuda_version(&call, version);
}

/* The name in the scenario, or else the program of the real process with this pid. */
static nvmlReturn_t process_name(const struct scenario *scenario, unsigned pid, char *name,
                                 size_t size)
{
    for (int g = 0; g < scenario->gpu_count; g++) {
        for (int p = 0; p < scenario->gpus[g].process_count; p++) {
            const struct process *process = &scenario->gpus[g].processes[p];
            if (process->pid == pid && process->name[0] != '\0') {
                snprintf(name, size, "%s", process->name);
                return NVML_SUCCESS;
            }
        }
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return NVML_ERROR_NOT_FOUND;
    size_t length = fread(name, 1, size - 1, file);
    fclose(file);
    name[length] = '\0'; /* the arguments are behind the first NUL */
    return length > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

API(319, nvmlSystemGetProcessName, unsigned pid, char *text, unsigned size)
{
    ENTER(nvmlSystemGetProcessName, WITHOUT_DEVICE, NULL);
    char name[1024];
    nvmlReturn_t status = process_name(call.scenario, pid, name, sizeof name);
    return status == NVML_SUCCESS ? put_text(&call, text, size, name) : status;
}

API(319, nvmlDeviceGetCount_v2, unsigned *count)
{
    ENTER(nvmlDeviceGetCount_v2, WITHOUT_DEVICE, NULL);
    return put_u32(&call, count, known((uint64_t)call.scenario->gpu_count));
}

API(319, nvmlDeviceGetCount, unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

API(319, nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *device)
{
    ENTER(nvmlDeviceGetHandleByIndex_v2, HANDLE_GETTER, NULL);
    if (index >= (unsigned)call.scenario->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return driver_find(&call, "nvmlDeviceGetHandleByIndex_v2", &call.scenario->gpus[index], NULL,
                       device);
}

API(319, nvmlDeviceGetHandleByIndex, unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API(319, nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *device)
{
    ENTER(nvmlDeviceGetHandleByUUID, HANDLE_GETTER, NULL);
    for (int g = 0; uuid != NULL && g < call.scenario->gpu_count; g++) {
        const struct gpu *gpu = &call.scenario->gpus[g];
        if (strcmp(gpu->uuid, uuid) == 0)
            return driver_find(&call, "nvmlDeviceGetHandleByUUID", gpu, NULL, device);
        for (int i = 0; i < gpu->instance_count; i++) {
            if (strcmp(gpu->instances[i].uuid, uuid) == 0)
                return driver_find(&call, "nvmlDeviceGetHandleByUUID", gpu, &gpu->instances[i],
                                   device);
        }
    }
    return uuid == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

static bool same_address(const char *a, const char *b)
{
    unsigned left[4] = {0}, right[4] = {0};
    return sscanf(a, "%x:%x:%x.%x", &left[0], &left[1], &left[2], &left[3]) >= 3 &&
           sscanf(b, "%x:%x:%x.%x", &right[0], &right[1], &right[2], &right[3]) >= 3 &&
           memcmp(left, right, sizeof left) == 0;
}

API(319, nvmlDeviceGetHandleByPciBusId_v2, const char *address, nvmlDevice_t *device)
{
    ENTER(nvmlDeviceGetHandleByPciBusId_v2, HANDLE_GETTER, NULL);
    for (int g = 0; address != NULL && g < call.scenario->gpu_count; g++) {
        const struct gpu *gpu = &call.scenario->gpus[g];
        if (same_address(gpu->pci, address))
            return driver_find(&call, "nvmlDeviceGetHandleByPciBusId_v2", gpu, NULL, device);
    }
    return address == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

API(319, nvmlDeviceGetHandleByPciBusId, const char *address, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(address, device);
}

API(319, nvmlDeviceGetHandleBySerial, const char *serial, nvmlDevice_t *device)
{
    ENTER(nvmlDeviceGetHandleBySerial, HANDLE_GETTER, NULL);
    for (int g = 0; serial != NULL && g < call.scenario->gpu_count; g++) {
        const struct gpu *gpu = &call.scenario->gpus[g];
        if (strcmp(gpu->serial, serial) == 0)
            return driver_find(&call, "nvmlDeviceGetHandleBySerial", gpu, NULL, device);
    }
    return serial == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

API(450, nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t device, unsigned index,
    nvmlDevice_t *mig)
{
    ENTER(nvmlDeviceGetMigDeviceHandleByIndex, GPU_ONLY, device);
    if (!call.gpu->mig.known || call.gpu->mig.value == 0 ||
        index >= (unsigned)call.gpu->instance_count)
        return NVML_ERROR_NOT_FOUND;
    return driver_find(&call, "nvmlDeviceGetMigDeviceHandleByIndex", call.gpu,
                       &call.gpu->instances[index], mig);
}

API(450, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t mig, nvmlDevice_t *device)
{
    ENTER(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, ANY_HANDLE, mig);
    if (call.instance == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return driver_find(&call, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", call.gpu, NULL,
                       device);
}
