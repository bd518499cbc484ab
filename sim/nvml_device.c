/* NVML calls about one device: its identity and its readings. */
#include "driver.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Most NVML functions return one number of one device: each row defines one. */
#define U32(since, name, scope, field)                         \
    API(since, name, nvmlDevice_t device, unsigned *value)     \
    {                                                          \
        ENTER(name, scope, device);                              \
        return put_u32(&call, value, call.gpu->field);         \
    }
#define U64(since, name, scope, field)                               \
    API(since, name, nvmlDevice_t device, unsigned long long *value) \
    {                                                                \
        ENTER(name, scope, device);                                    \
        return put_u64(&call, value, call.gpu->field);               \
    }
#define TEXT(since, name, scope, field)                            \
    API(since, name, nvmlDevice_t device, char *text, unsigned size) \
    {                                                              \
        ENTER(name, scope, device);                                  \
        return put_text(&call, text, size, call.gpu->field);       \
    }
/* Current and pending mode, which are the same here. */
#define PAIR(since, name, field)                                                 \
    API(since, name, nvmlDevice_t device, unsigned *now, unsigned *pending)      \
    {                                                                            \
        ENTER(name, GPU_ONLY, device);                                             \
        nvmlReturn_t status = put_u32(&call, now, call.gpu->field);              \
        return status != NVML_SUCCESS ? status                                   \
                                      : put_u32(&call, pending, call.gpu->field); \
    }
/* An engine's load and the sampling period; a GPU split by MIG has none. */
#define ENGINE(since, name, field)                                                 \
    API(since, name, nvmlDevice_t device, unsigned *percent, unsigned *microseconds) \
    {                                                                              \
        ENTER(name, GPU_ONLY, device);                                               \
        if (is_split(call.gpu))                                                    \
            return NVML_ERROR_NOT_SUPPORTED;                                       \
        if (microseconds != NULL)                                                  \
            *microseconds = 167000;                                                \
        return put_u32(&call, percent, call.gpu->field);                           \
    }
/* Exported, but not supported by any simulated card. */
#define NEVER_SUPPORTED(since, name)                   \
    API(since, name, nvmlDevice_t device, void *answer) \
    {                                                  \
        ENTER(name, ANY_HANDLE, device);                 \
        (void)answer;                                  \
        return NVML_ERROR_NOT_SUPPORTED;               \
    }

static bool is_split(const struct gpu *gpu)
{
    return gpu->mig.known && gpu->mig.value == 1;
}

TEXT(319, nvmlDeviceGetSerial, ANY_HANDLE, serial)
TEXT(319, nvmlDeviceGetVbiosVersion, ANY_HANDLE, vbios)
U32(331, nvmlDeviceGetMinorNumber, ANY_HANDLE, minor)
U32(319, nvmlDeviceGetBrand, ANY_HANDLE, brand)
U32(450, nvmlDeviceGetArchitecture, ANY_HANDLE, architecture)
U32(495, nvmlDeviceGetNumGpuCores, ANY_HANDLE, cores)
U32(319, nvmlDeviceGetDisplayMode, ANY_HANDLE, display_mode)
U32(319, nvmlDeviceGetDisplayActive, ANY_HANDLE, display_active)
U32(319, nvmlDeviceGetPersistenceMode, ANY_HANDLE, persistence)
U32(319, nvmlDeviceGetComputeMode, ANY_HANDLE, compute_mode)
U32(319, nvmlDeviceGetFanSpeed, GPU_ONLY, fan)
U32(470, nvmlDeviceGetNumFans, GPU_ONLY, fans)
U32(319, nvmlDeviceGetPowerUsage, GPU_ONLY, power_usage)
U32(319, nvmlDeviceGetPowerManagementLimit, GPU_ONLY, power_limit)
U32(319, nvmlDeviceGetPowerManagementDefaultLimit, GPU_ONLY, power_limit_default)
U32(331, nvmlDeviceGetEnforcedPowerLimit, GPU_ONLY, power_limit)
U32(319, nvmlDeviceGetPerformanceState, GPU_ONLY, pstate)
U32(319, nvmlDeviceGetPowerState, GPU_ONLY, pstate)
U64(340, nvmlDeviceGetCurrentClocksThrottleReasons, GPU_ONLY, throttle)
U64(535, nvmlDeviceGetCurrentClocksEventReasons, GPU_ONLY, throttle)
U64(390, nvmlDeviceGetTotalEnergyConsumption, GPU_ONLY, energy)
U32(331, nvmlDeviceGetRetiredPagesPendingStatus, GPU_ONLY, retired_pending)
U32(319, nvmlDeviceGetCurrPcieLinkGeneration, GPU_ONLY, pcie_gen)
U32(319, nvmlDeviceGetMaxPcieLinkGeneration, GPU_ONLY, pcie_gen_max)
U32(510, nvmlDeviceGetGpuMaxPcieLinkGeneration, GPU_ONLY, pcie_gen_max)
U32(319, nvmlDeviceGetCurrPcieLinkWidth, GPU_ONLY, pcie_width)
U32(319, nvmlDeviceGetMaxPcieLinkWidth, GPU_ONLY, pcie_width_max)
U32(346, nvmlDeviceGetPcieReplayCounter, GPU_ONLY, pcie_replay)
PAIR(319, nvmlDeviceGetEccMode, ecc)
PAIR(450, nvmlDeviceGetMigMode, mig)
ENGINE(346, nvmlDeviceGetEncoderUtilization, util_encoder)
ENGINE(346, nvmlDeviceGetDecoderUtilization, util_decoder)
ENGINE(530, nvmlDeviceGetJpgUtilization, util_jpeg)
ENGINE(530, nvmlDeviceGetOfaUtilization, util_ofa)
NEVER_SUPPORTED(525, nvmlDeviceGetGpuFabricInfo)
NEVER_SUPPORTED(545, nvmlDeviceGetGpuFabricInfoV)
NEVER_SUPPORTED(535, nvmlDeviceGetConfComputeMemSizeInfo)
NEVER_SUPPORTED(535, nvmlDeviceGetConfComputeProtectedMemoryUsage)

API(319, nvmlDeviceGetDriverModel, nvmlDevice_t device, unsigned *now, unsigned *pending)
{
    ENTER(nvmlDeviceGetDriverModel, ANY_HANDLE, device);
    (void)now, (void)pending;
    return NVML_ERROR_NOT_SUPPORTED; /* Windows only */
}

API(545, nvmlDeviceGetDriverModel_v2, nvmlDevice_t device, unsigned *now, unsigned *pending)
{
    return nvmlDeviceGetDriverModel(device, now, pending);
}

API(319, nvmlDeviceGetName, nvmlDevice_t device, char *text, unsigned size)
{
    ENTER(nvmlDeviceGetName, ANY_HANDLE, device);
    char name[192];
    if (call.instance == NULL)
        return put_text(&call, text, size, call.gpu->name);
    snprintf(name, sizeof name, "%s MIG %s", call.gpu->name, call.instance->profile);
    return put_text(&call, text, size, name);
}

API(319, nvmlDeviceGetUUID, nvmlDevice_t device, char *text, unsigned size)
{
    ENTER(nvmlDeviceGetUUID, ANY_HANDLE, device);
    return put_text(&call, text, size, call.instance ? call.instance->uuid : call.gpu->uuid);
}

/* Among all GPUs, or among the instances of the GPU. */
API(319, nvmlDeviceGetIndex, nvmlDevice_t device, unsigned *index)
{
    ENTER(nvmlDeviceGetIndex, ANY_HANDLE, device);
    ptrdiff_t place = call.instance ? call.instance - call.gpu->instances
                                    : call.gpu - call.scenario->gpus;
    return put_u32(&call, index, known((uint64_t)place));
}

struct address {
    unsigned domain, bus, device, function;
};

static struct address address_of(const struct gpu *gpu)
{
    struct address at = {0, 0, 0, 0};
    sscanf(gpu->pci, "%x:%x:%x.%x", &at.domain, &at.bus, &at.device, &at.function);
    return at;
}

enum { PCI_DEVICE = 0x233010DE, PCI_SUBSYSTEM = 0x16C110DE };

API(384, nvmlDeviceGetPciInfo_v3, nvmlDevice_t device, nvmlPciInfo_t *info)
{
    ENTER(nvmlDeviceGetPciInfo_v3, ANY_HANDLE, device);
    struct address at = address_of(call.gpu);
    *info = (nvmlPciInfo_t){.domain = at.domain, .bus = at.bus, .device = at.device,
                            .pciDeviceId = PCI_DEVICE, .pciSubSystemId = PCI_SUBSYSTEM};
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.%X",
             at.domain & 0xFFFF, at.bus & 0xFF, at.device & 0xFF, at.function & 0xF);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.%X", at.domain, at.bus, at.device,
             at.function);
    return NVML_SUCCESS;
}

API(319, nvmlDeviceGetPciInfo_v2, nvmlDevice_t device, nvmlPciInfo_v2_t *info)
{
    ENTER(nvmlDeviceGetPciInfo_v2, ANY_HANDLE, device);
    struct address at = address_of(call.gpu);
    *info = (nvmlPciInfo_v2_t){.domain = at.domain, .bus = at.bus, .device = at.device,
                               .pciDeviceId = PCI_DEVICE, .pciSubSystemId = PCI_SUBSYSTEM};
    snprintf(info->busId, sizeof info->busId, "%04X:%02X:%02X.%X", at.domain & 0xFFFF,
             at.bus & 0xFF, at.device & 0xFF, at.function & 0xF);
    return NVML_SUCCESS;
}

API(319, nvmlDeviceGetPciInfo, nvmlDevice_t device, nvmlPciInfo_v2_t *info)
{
    return nvmlDeviceGetPciInfo_v2(device, info);
}

API(535, nvmlDeviceGetPciInfoExt, nvmlDevice_t device, nvmlPciInfoExt_t *info)
{
    ENTER(nvmlDeviceGetPciInfoExt, ANY_HANDLE, device);
    if (info->version != NVML_VERSION(*info, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct address at = address_of(call.gpu);
    *info = (nvmlPciInfoExt_t){.version = info->version, .domain = at.domain, .bus = at.bus,
                               .device = at.device, .pciDeviceId = PCI_DEVICE,
                               .pciSubSystemId = PCI_SUBSYSTEM, .baseClass = 3, .subClass = 2};
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.%X", at.domain, at.bus, at.device,
             at.function);
    return NVML_SUCCESS;
}

API(340, nvmlDeviceGetCudaComputeCapability, nvmlDevice_t device, int *major, int *minor)
{
    ENTER(nvmlDeviceGetCudaComputeCapability, ANY_HANDLE, device);
    nvmlReturn_t status = put_u32(&call, (unsigned *)major, call.gpu->capability_major);
    return status != NVML_SUCCESS
               ? status
               : put_u32(&call, (unsigned *)minor, call.gpu->capability_minor);
}

API(495, nvmlDeviceGetBusType, nvmlDevice_t device, unsigned *type)
{
    ENTER(nvmlDeviceGetBusType, ANY_HANDLE, device);
    return put_u32(&call, type, known(2)); /* PCI Express */
}

API(535, nvmlDeviceGetAddressingMode, nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
    ENTER(nvmlDeviceGetAddressingMode, ANY_HANDLE, device);
    if (mode->version != NVML_VERSION(*mode, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return put_u32(&call, &mode->value, call.gpu->addressing);
}

/* --- memory --- */

struct memory {
    struct number total, used, reserved;
};

static struct memory memory_of(const struct call *call)
{
    if (call->instance != NULL)
        return (struct memory){call->instance->memory_total, call->instance->memory_used, known(0)};
    return (struct memory){call->gpu->memory_total, call->gpu->memory_used,
                           call->gpu->memory_reserved};
}

static nvmlReturn_t put_memory(const struct call *call, unsigned long long *total,
                               unsigned long long *free, unsigned long long *used,
                               struct number size, struct number taken)
{
    bool both = size.known && taken.known;
    uint64_t rest = size.value > taken.value ? size.value - taken.value : 0;
    nvmlReturn_t status = put_u64(call, total, (struct number){both, size.value});
    if (status == NVML_SUCCESS)
        status = put_u64(call, used, taken);
    return status != NVML_SUCCESS ? status : put_u64(call, free, known(rest));
}

/* This version has no field for reserved memory, and counts it as used. */
API(319, nvmlDeviceGetMemoryInfo, nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER(nvmlDeviceGetMemoryInfo, ANY_HANDLE, device);
    struct memory is = memory_of(&call);
    struct number taken = {is.used.known, is.used.value + is.reserved.value};
    return put_memory(&call, &memory->total, &memory->free, &memory->used, is.total, taken);
}

API(510, nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER(nvmlDeviceGetMemoryInfo_v2, ANY_HANDLE, device);
    if (memory->version != NVML_VERSION(*memory, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct memory is = memory_of(&call);
    struct number taken = {is.used.known, is.used.value + is.reserved.value};
    nvmlReturn_t status =
        put_memory(&call, &memory->total, &memory->free, &memory->used, is.total, taken);
    if (status == NVML_SUCCESS)
        status = put_u64(&call, &memory->used, is.used);
    return status != NVML_SUCCESS ? status
                                  : put_u64(&call, &memory->reserved, known(is.reserved.value));
}

API(319, nvmlDeviceGetBAR1MemoryInfo, nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER(nvmlDeviceGetBAR1MemoryInfo, ANY_HANDLE, device);
    return put_memory(&call, &memory->total, &memory->free, &memory->used, call.gpu->bar1_total,
                      call.gpu->bar1_used);
}

/* --- load, temperature, power, clocks --- */

API(319, nvmlDeviceGetUtilizationRates, nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER(nvmlDeviceGetUtilizationRates, GPU_ONLY, device);
    if (is_split(call.gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t status = put_u32(&call, &rates->gpu, call.gpu->util_gpu);
    return status != NVML_SUCCESS ? status
                                  : put_u32(&call, &rates->memory, call.gpu->util_memory);
}

API(319, nvmlDeviceGetTemperature, nvmlDevice_t device, unsigned sensor, unsigned *celsius)
{
    ENTER(nvmlDeviceGetTemperature, GPU_ONLY, device);
    if (sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, celsius, call.gpu->temperature);
}

API(570, nvmlDeviceGetTemperatureV, nvmlDevice_t device, nvmlTemperature_t *answer)
{
    ENTER(nvmlDeviceGetTemperatureV, GPU_ONLY, device);
    if (answer->version != NVML_VERSION(*answer, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer->sensorType != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, (unsigned *)&answer->temperature, call.gpu->temperature);
}

API(319, nvmlDeviceGetTemperatureThreshold, nvmlDevice_t device, unsigned which,
    unsigned *celsius)
{
    ENTER(nvmlDeviceGetTemperatureThreshold, GPU_ONLY, device);
    const struct number thresholds[] = {
        call.gpu->temperature_shutdown, call.gpu->temperature_slowdown, {false, 0},
        call.gpu->temperature_max};
    if (which >= sizeof thresholds / sizeof thresholds[0])
        return NVML_ERROR_NOT_SUPPORTED;
    return put_u32(&call, celsius, thresholds[which]);
}

API(410, nvmlDeviceGetFanSpeed_v2, nvmlDevice_t device, unsigned fan, unsigned *percent)
{
    ENTER(nvmlDeviceGetFanSpeed_v2, GPU_ONLY, device);
    if (call.gpu->fans.known && fan >= call.gpu->fans.value && !call.distorted)
        return call.gpu->fans.value == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, percent, call.gpu->fan);
}

API(319, nvmlDeviceGetPowerManagementMode, nvmlDevice_t device, unsigned *mode)
{
    ENTER(nvmlDeviceGetPowerManagementMode, GPU_ONLY, device);
    return put_u32(&call, mode, (struct number){call.gpu->power_limit.known, 1});
}

API(319, nvmlDeviceGetPowerManagementLimitConstraints, nvmlDevice_t device, unsigned *least,
    unsigned *most)
{
    ENTER(nvmlDeviceGetPowerManagementLimitConstraints, GPU_ONLY, device);
    nvmlReturn_t status = put_u32(&call, least, call.gpu->power_limit_min);
    return status != NVML_SUCCESS ? status : put_u32(&call, most, call.gpu->power_limit_max);
}

static nvmlReturn_t put_clock(const struct call *call, unsigned clock, bool most, unsigned *mhz)
{
    const struct gpu *gpu = call->gpu;
    const struct number now[] = {gpu->clock_graphics, gpu->clock_sm, gpu->clock_memory,
                                 gpu->clock_video};
    const struct number max[] = {gpu->clock_max_graphics, gpu->clock_max_sm,
                                 gpu->clock_max_memory, gpu->clock_max_video};
    if (clock >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(call, mhz, most ? max[clock] : now[clock]);
}

API(319, nvmlDeviceGetClockInfo, nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    ENTER(nvmlDeviceGetClockInfo, GPU_ONLY, device);
    return put_clock(&call, clock, false, mhz);
}

API(319, nvmlDeviceGetMaxClockInfo, nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    ENTER(nvmlDeviceGetMaxClockInfo, GPU_ONLY, device);
    return put_clock(&call, clock, true, mhz);
}

API(375, nvmlDeviceGetClock, nvmlDevice_t device, unsigned clock, unsigned id, unsigned *mhz)
{
    ENTER(nvmlDeviceGetClock, GPU_ONLY, device);
    return put_clock(&call, clock, id != 0, mhz);
}

API(319, nvmlDeviceGetApplicationsClock, nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    ENTER(nvmlDeviceGetApplicationsClock, GPU_ONLY, device);
    return put_clock(&call, clock, true, mhz);
}

API(319, nvmlDeviceGetDefaultApplicationsClock, nvmlDevice_t device, unsigned clock,
    unsigned *mhz)
{
    ENTER(nvmlDeviceGetDefaultApplicationsClock, GPU_ONLY, device);
    return put_clock(&call, clock, true, mhz);
}

API(340, nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDevice_t device,
    unsigned long long *mask)
{
    ENTER(nvmlDeviceGetSupportedClocksThrottleReasons, GPU_ONLY, device);
    return put_u64(&call, mask, (struct number){call.gpu->throttle.known, 0x1FF});
}

API(535, nvmlDeviceGetSupportedClocksEventReasons, nvmlDevice_t device, unsigned long long *mask)
{
    ENTER(nvmlDeviceGetSupportedClocksEventReasons, GPU_ONLY, device);
    return put_u64(&call, mask, (struct number){call.gpu->throttle.known, 0x1FF});
}

/* counter 0 is sent, 1 is received, as seen from the device */
API(346, nvmlDeviceGetPcieThroughput, nvmlDevice_t device, unsigned counter, unsigned *kilobytes)
{
    ENTER(nvmlDeviceGetPcieThroughput, GPU_ONLY, device);
    if (counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, kilobytes, counter == 0 ? call.gpu->pcie_tx : call.gpu->pcie_rx);
}

/* The first `nvlink_active` of the links are up. */
API(375, nvmlDeviceGetNvLinkState, nvmlDevice_t device, unsigned link, unsigned *active)
{
    ENTER(nvmlDeviceGetNvLinkState, GPU_ONLY, device);
    const struct gpu *gpu = call.gpu;
    if (gpu->nvlink_links.known && link >= gpu->nvlink_links.value)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool up = gpu->nvlink_active.known && link < gpu->nvlink_active.value;
    return put_u32(&call, active, (struct number){gpu->nvlink_links.known, up});
}

/* --- errors --- */

/* type 0 is corrected, 1 uncorrected; counter 0 is volatile, 1 aggregate */
static nvmlReturn_t put_ecc(const struct call *call, unsigned type, unsigned counter,
                            unsigned long long *count)
{
    const struct gpu *gpu = call->gpu;
    const struct number counts[2][2] = {
        {gpu->ecc_corrected_volatile, gpu->ecc_corrected_aggregate},
        {gpu->ecc_uncorrected_volatile, gpu->ecc_uncorrected_aggregate}};
    if (type > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct number answer = counts[type][counter];
    answer.known = answer.known && gpu->ecc.known && gpu->ecc.value == 1;
    return put_u64(call, count, answer);
}

API(319, nvmlDeviceGetTotalEccErrors, nvmlDevice_t device, unsigned type, unsigned counter,
    unsigned long long *count)
{
    ENTER(nvmlDeviceGetTotalEccErrors, ANY_HANDLE, device);
    return put_ecc(&call, type, counter, count);
}

/* All errors are in device memory. */
API(319, nvmlDeviceGetMemoryErrorCounter, nvmlDevice_t device, unsigned type, unsigned counter,
    unsigned location, unsigned long long *count)
{
    ENTER(nvmlDeviceGetMemoryErrorCounter, ANY_HANDLE, device);
    nvmlReturn_t status = put_ecc(&call, type, counter, count);
    if (status == NVML_SUCCESS && location != 2 && !call.distorted)
        *count = 0;
    return status;
}

API(331, nvmlDeviceGetRetiredPages, nvmlDevice_t device, unsigned cause, unsigned *count,
    unsigned long long *addresses)
{
    ENTER(nvmlDeviceGetRetiredPages, GPU_ONLY, device);
    struct number pages = cause == 0 ? call.gpu->retired_sbe : call.gpu->retired_dbe;
    unsigned room = *count;
    nvmlReturn_t status = put_u32(&call, count, pages);
    if (status != NVML_SUCCESS || call.distorted)
        return status;
    if (room < *count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; addresses != NULL && i < *count; i++)
        addresses[i] = 0x1000ull * (i + 1);
    return NVML_SUCCESS;
}

API(450, nvmlDeviceGetRemappedRows, nvmlDevice_t device, unsigned *corrected,
    unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    ENTER(nvmlDeviceGetRemappedRows, GPU_ONLY, device);
    nvmlReturn_t status = put_u32(&call, corrected, call.gpu->remapped_corrected);
    if (status == NVML_SUCCESS)
        status = put_u32(&call, uncorrected, call.gpu->remapped_uncorrected);
    if (status == NVML_SUCCESS)
        status = put_u32(&call, pending, call.gpu->remapped_pending);
    return status != NVML_SUCCESS ? status : put_u32(&call, failed, call.gpu->remapped_failed);
}

API(450, nvmlDeviceGetRowRemapperHistogram, nvmlDevice_t device,
    nvmlRowRemapperHistogramValues_t *histogram)
{
    ENTER(nvmlDeviceGetRowRemapperHistogram, GPU_ONLY, device);
    if (!call.gpu->remapped_corrected.known)
        return NVML_ERROR_NOT_SUPPORTED;
    *histogram = (nvmlRowRemapperHistogramValues_t){.max = 2560};
    return NVML_SUCCESS;
}

/* --- field values --- */

static struct number field_of(const struct gpu *gpu, unsigned field)
{
    const struct { unsigned field; struct number value; } fields[] = {
        {31, gpu->retired_pending},     {82, gpu->temperature_memory},
        {83, gpu->energy},              {94, gpu->pcie_replay},
        {142, gpu->remapped_corrected}, {143, gpu->remapped_uncorrected},
        {144, gpu->remapped_pending},   {145, gpu->remapped_failed},
        {185, gpu->power_usage},        {186, gpu->power_usage},
        {187, gpu->power_limit_min},    {188, gpu->power_limit_max},
        {189, gpu->power_limit_default}, {190, gpu->power_limit},
        {192, gpu->power_limit},        {230, gpu->recovery},
        {138, gpu->nvlink_tx},          {139, gpu->nvlink_rx}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].field == field)
            return fields[i].value;
    }
    return (struct number){false, 0};
}

static long long now_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

API(384, nvmlDeviceGetFieldValues, nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    ENTER(nvmlDeviceGetFieldValues, GPU_ONLY, device);
    for (int i = 0; i < count; i++) {
        struct number answer = field_of(call.gpu, values[i].fieldId);
        bool newer = values[i].fieldId == 230 && scenario_branch(call.scenario) < 550;
        bool traffic = values[i].fieldId == 138 || values[i].fieldId == 139;
        values[i].timestamp = now_microseconds();
        values[i].latencyUsec = 0;
        /* unsigned long long, unsigned */
        values[i].valueType = values[i].fieldId == 83 || traffic ? 3 : 1;
        values[i].value.ullVal = 0;
        answer.known = answer.known && !newer;
        if (traffic) /* of all links together, in KiB */
            answer.known = call.gpu->nvlink_links.known && values[i].scopeId == ~0u;
        values[i].nvmlReturn = put_u64(&call, &values[i].value.ullVal, answer);
    }
    return NVML_SUCCESS;
}

/* --- MIG --- */

API(450, nvmlDeviceIsMigDeviceHandle, nvmlDevice_t device, unsigned *yes)
{
    ENTER(nvmlDeviceIsMigDeviceHandle, ANY_HANDLE, device);
    return put_u32(&call, yes, known(call.instance != NULL));
}

API(450, nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t device, unsigned *count)
{
    ENTER(nvmlDeviceGetMaxMigDeviceCount, GPU_ONLY, device);
    return put_u32(&call, count, known(call.gpu->mig.known ? NVML_MAX_MIG_DEVICES : 0));
}

API(450, nvmlDeviceGetGpuInstanceId, nvmlDevice_t device, unsigned *id)
{
    ENTER(nvmlDeviceGetGpuInstanceId, ANY_HANDLE, device);
    if (call.instance == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, id, known(call.instance->gi));
}

API(450, nvmlDeviceGetComputeInstanceId, nvmlDevice_t device, unsigned *id)
{
    ENTER(nvmlDeviceGetComputeInstanceId, ANY_HANDLE, device);
    if (call.instance == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return put_u32(&call, id, known(call.instance->ci));
}

API(450, nvmlDeviceGetAttributes_v2, nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    ENTER(nvmlDeviceGetAttributes_v2, ANY_HANDLE, device);
    const struct instance *instance = call.instance;
    if (instance == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = instance->multiprocessors,
        .sharedCopyEngineCount = instance->slices,
        .sharedDecoderCount = instance->slices,
        .sharedJpegCount = instance->slices,
        .gpuInstanceSliceCount = instance->slices,
        .computeInstanceSliceCount = instance->compute_slices,
        .memorySizeMB = instance->memory_total.value >> 20};
    return NVML_SUCCESS;
}

API(450, nvmlDeviceGetAttributes, nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    return nvmlDeviceGetAttributes_v2(device, attributes);
}
