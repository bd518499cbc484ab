/* NVML calls about the processes on a device. */
#include "driver.h"

#include <string.h>
#include <time.h>

/* The struct layout of an entry in each version of the call. */
enum form { FORM_V1, FORM_V2, FORM_WIDE };

static bool belongs(const struct call *call, const struct process *process)
{
    const struct instance *instance = call->instance;
    return instance == NULL || (process->gi.known && process->gi.value == instance->gi &&
                                process->ci.value == instance->ci);
}

static nvmlProcessDetail_t entry_of(const struct call *call, const struct process *process)
{
    unsigned none = (unsigned)NVML_NO_INSTANCE;
    unsigned long long memory = process->memory.known ? process->memory.value : NVML_NOT_AVAILABLE;
    return (nvmlProcessDetail_t){
        .pid = process->pid,
        .usedGpuMemory = call->distorted ? call->raw : memory,
        .gpuInstanceId = process->gi.known ? (unsigned)process->gi.value : none,
        .computeInstanceId = process->gi.known ? (unsigned)process->ci.value : none};
}

static void write_entry(void *list, unsigned place, enum form form, nvmlProcessDetail_t entry)
{
    nvmlProcessInfo_v2_t narrow = {entry.pid, entry.usedGpuMemory, entry.gpuInstanceId,
                                   entry.computeInstanceId};
    nvmlProcessInfo_v1_t oldest = {entry.pid, entry.usedGpuMemory};
    switch (form) {
    case FORM_V1:
        ((nvmlProcessInfo_v1_t *)list)[place] = oldest;
        break;
    case FORM_V2:
        ((nvmlProcessInfo_v2_t *)list)[place] = narrow;
        break;
    case FORM_WIDE:
        ((nvmlProcessDetail_t *)list)[place] = entry;
        break;
    }
}

/* Set the count; write the entries if the caller's buffer is large enough for all. */
static nvmlReturn_t put_processes(const struct call *call, enum process_kind kind, enum form form,
                                  unsigned *count, void *list)
{
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = list != NULL ? *count : 0;
    *count = 0;
    for (int i = 0; i < call->gpu->process_count; i++) {
        const struct process *process = &call->gpu->processes[i];
        if (process->kind != kind || !belongs(call, process))
            continue;
        if (*count < room)
            write_entry(list, *count, form, entry_of(call, process));
        ++*count;
    }
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(since, name, kind, form)                            \
    API(since, name, nvmlDevice_t device, unsigned *count, void *list) \
    {                                                                 \
        ENTER(name, ANY_HANDLE, device);                                \
        return put_processes(&call, kind, form, count, list);         \
    }
#define V3 call.scenario->wide_v3 ? FORM_WIDE : FORM_V2

PROCESSES(319, nvmlDeviceGetComputeRunningProcesses, PROCESS_COMPUTE, FORM_V1)
PROCESSES(450, nvmlDeviceGetComputeRunningProcesses_v2, PROCESS_COMPUTE, FORM_V2)
PROCESSES(510, nvmlDeviceGetComputeRunningProcesses_v3, PROCESS_COMPUTE, V3)
PROCESSES(319, nvmlDeviceGetGraphicsRunningProcesses, PROCESS_GRAPHICS, FORM_V1)
PROCESSES(450, nvmlDeviceGetGraphicsRunningProcesses_v2, PROCESS_GRAPHICS, FORM_V2)
PROCESSES(510, nvmlDeviceGetGraphicsRunningProcesses_v3, PROCESS_GRAPHICS, V3)
PROCESSES(450, nvmlDeviceGetMPSComputeRunningProcesses, PROCESS_MPS, FORM_V1)
PROCESSES(450, nvmlDeviceGetMPSComputeRunningProcesses_v2, PROCESS_MPS, FORM_V2)
PROCESSES(510, nvmlDeviceGetMPSComputeRunningProcesses_v3, PROCESS_MPS, V3)

API(535, nvmlDeviceGetRunningProcessDetailList, nvmlDevice_t device,
    nvmlProcessDetailList_t *details)
{
    ENTER(nvmlDeviceGetRunningProcessDetailList, ANY_HANDLE, device);
    if (details->version != NVML_VERSION(*details, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (details->mode > PROCESS_MPS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_processes(&call, (enum process_kind)details->mode, FORM_WIDE,
                         &details->numProcArrayEntries, details->procArray);
}

/* --- load by process --- */

static unsigned long long now_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

static nvmlProcessUtilizationInfo_t sample_of(const struct call *call,
                                              const struct process *process)
{
    unsigned raw = (unsigned)call->raw;
    bool real = !call->distorted;
    return (nvmlProcessUtilizationInfo_t){
        .timeStamp = now_microseconds(),
        .pid = process->pid,
        .smUtil = real ? (unsigned)process->sm.value : raw,
        .memUtil = real ? (unsigned)process->mem.value : raw,
        .encUtil = real ? (unsigned)process->enc.value : raw,
        .decUtil = real ? (unsigned)process->dec.value : raw};
}

typedef void (*write_sample)(void *list, unsigned place, nvmlProcessUtilizationInfo_t sample);

static void write_old(void *list, unsigned place, nvmlProcessUtilizationInfo_t sample)
{
    ((nvmlProcessUtilizationSample_t *)list)[place] = (nvmlProcessUtilizationSample_t){
        sample.pid,     sample.timeStamp, sample.smUtil,
        sample.memUtil, sample.encUtil,   sample.decUtil};
}

static void write_new(void *list, unsigned place, nvmlProcessUtilizationInfo_t sample)
{
    ((nvmlProcessUtilizationInfo_t *)list)[place] = sample;
}

/* One sample per process with a known load, all with the current time. */
static nvmlReturn_t put_samples(const struct call *call, unsigned long long last_seen,
                                unsigned *count, void *list, write_sample write)
{
    unsigned room = list != NULL ? *count : 0;
    *count = 0;
    if (call->gpu->mig.known && call->gpu->mig.value == 1)
        return NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < call->gpu->process_count && last_seen < now_microseconds(); i++) {
        if (!call->gpu->processes[i].sm.known)
            continue;
        if (*count < room)
            write(list, *count, sample_of(call, &call->gpu->processes[i]));
        ++*count;
    }
    if (*count == 0)
        return NVML_ERROR_NOT_FOUND;
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

API(375, nvmlDeviceGetProcessUtilization, nvmlDevice_t device,
    nvmlProcessUtilizationSample_t *list, unsigned *count, unsigned long long last_seen)
{
    ENTER(nvmlDeviceGetProcessUtilization, GPU_ONLY, device);
    return put_samples(&call, last_seen, count, list, write_old);
}

API(545, nvmlDeviceGetProcessesUtilizationInfo, nvmlDevice_t device,
    nvmlProcessesUtilizationInfo_t *info)
{
    ENTER(nvmlDeviceGetProcessesUtilizationInfo, GPU_ONLY, device);
    if (info->version != NVML_VERSION(*info, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return put_samples(&call, info->lastSeenTimeStamp, &info->processSamplesCount,
                       info->procUtilArray, write_new);
}
