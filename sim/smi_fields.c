/* Every field that nvidia-smi can print, by its query name. */
#include "smi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long u64;
typedef nvmlReturn_t (*reader)(nvmlDevice_t device, u64 *value);
typedef nvmlReturn_t (*texter)(nvmlDevice_t device, char *text, unsigned size);

enum kind { COUNT, WATTS, MIB, HEX, PSTATE, WORD, TEXT, SPECIAL };
enum special { TIMESTAMP, DRIVER, GPU_COUNT, INDEX, COMPUTE_CAP, BUS_ID, DOMAIN, BUS, DEVICE };

static const char *const SWITCH[] = {"Disabled", "Enabled"};
static const char *const YES_NO[] = {"No", "Yes"};
static const char *const ACTIVE[] = {"Not Active", "Active"};
static const char *const SUPPORTED[] = {"N/A", "Supported"};
static const char *const MODES[] = {"Default", "Exclusive_Thread", "Prohibited",
                                    "Exclusive_Process"};
static const char *const ADDRESSINGS[] = {"None", "HMM", "ATS"};
static const char *const RECOVERIES[] = {"None", "Reset", "Reboot", "Drain P2P",
                                         "Drain and Reset"};
static const char *const ARCHITECTURES[] = {"Unknown", "Unknown", "Kepler", "Maxwell",
                                            "Pascal", "Volta", "Turing", "Ampere",
                                            "Ada Lovelace", "Hopper", "Blackwell"};
static const char *const BRANDS[] = {"Unknown", "Quadro", "Tesla", "NVS", "GRID", "GeForce",
                                     "Titan", "Unknown", "Unknown", "Unknown", "Unknown",
                                     "Unknown", "Quadro RTX", "NVIDIA RTX", "NVIDIA"};

struct field {
    const char *name;
    const char *csv_unit, *xml_unit;
    int since;
    enum kind kind;
    reader read;
    texter text;
    const char *const *names;
    unsigned argument; /* length of `names`, or which special field */
};

/* Read one number with an NVML call whose last argument returns it. */
#define VIA(name, call)                                     \
    static nvmlReturn_t name(nvmlDevice_t device, u64 *value) \
    {                                                       \
        unsigned number = 0;                                \
        nvmlReturn_t status = (call);                       \
        *value = number;                                    \
        return status;                                      \
    }
/* Read one member of a struct that an NVML call returns. */
#define PART(name, type, start, call, member)               \
    static nvmlReturn_t name(nvmlDevice_t device, u64 *value) \
    {                                                       \
        type answer = start;                                \
        nvmlReturn_t status = (call);                       \
        *value = answer.member;                             \
        return status;                                      \
    }
#define MEMORY_V2(name, member)                                                          \
    PART(name, nvmlMemory_v2_t, {.version = NVML_VERSION(nvmlMemory_v2_t, 2)},            \
         nvmlDeviceGetMemoryInfo_v2(device, &answer), member)
#define MEMORY_V1(name, member) \
    PART(name, nvmlMemory_t, {0}, nvmlDeviceGetMemoryInfo(device, &answer), member)
#define BAR1(name, member) \
    PART(name, nvmlMemory_t, {0}, nvmlDeviceGetBAR1MemoryInfo(device, &answer), member)
#define RATE(name, member) \
    PART(name, nvmlUtilization_t, {0}, nvmlDeviceGetUtilizationRates(device, &answer), member)
#define ECC(name, type, counter)                                              \
    static nvmlReturn_t name(nvmlDevice_t device, u64 *value)                 \
    {                                                                         \
        return nvmlDeviceGetTotalEccErrors(device, type, counter, value);     \
    }
/* All simulated errors are in device memory: SRAM has 0, if errors are counted at all. */
static nvmlReturn_t ecc_sram(nvmlDevice_t device, u64 *value)
{
    nvmlReturn_t status = nvmlDeviceGetTotalEccErrors(device, 0, 0, value);
    *value = 0;
    return status;
}

#define REASON(name, bit)                                                             \
    static nvmlReturn_t name(nvmlDevice_t device, u64 *value)                         \
    {                                                                                 \
        nvmlReturn_t status = nvmlDeviceGetCurrentClocksThrottleReasons(device, value); \
        *value = (*value & (bit)) != 0;                                               \
        return status;                                                                \
    }
#define REMAPPED(name, which)                                                           \
    static nvmlReturn_t name(nvmlDevice_t device, u64 *value)                           \
    {                                                                                   \
        unsigned rows[4] = {0};                                                         \
        nvmlReturn_t status =                                                           \
            nvmlDeviceGetRemappedRows(device, &rows[0], &rows[1], &rows[2], &rows[3]);  \
        *value = rows[which];                                                           \
        return status;                                                                  \
    }

VIA(persistence, nvmlDeviceGetPersistenceMode(device, &number))
VIA(display_mode, nvmlDeviceGetDisplayMode(device, &number))
VIA(display_active, nvmlDeviceGetDisplayActive(device, &number))
VIA(compute_mode, nvmlDeviceGetComputeMode(device, &number))
VIA(minor_number, nvmlDeviceGetMinorNumber(device, &number))
VIA(brand, nvmlDeviceGetBrand(device, &number))
VIA(architecture, nvmlDeviceGetArchitecture(device, &number))
VIA(fan, nvmlDeviceGetFanSpeed(device, &number))
VIA(pstate, nvmlDeviceGetPerformanceState(device, &number))
VIA(encoder, (nvmlDeviceGetEncoderUtilization(device, &number, &(unsigned){0})))
VIA(decoder, (nvmlDeviceGetDecoderUtilization(device, &number, &(unsigned){0})))
VIA(jpeg, (nvmlDeviceGetJpgUtilization(device, &number, &(unsigned){0})))
VIA(ofa, (nvmlDeviceGetOfaUtilization(device, &number, &(unsigned){0})))
VIA(temperature, nvmlDeviceGetTemperature(device, 0, &number))
VIA(shutdown_at, nvmlDeviceGetTemperatureThreshold(device, 0, &number))
VIA(slowdown_at, nvmlDeviceGetTemperatureThreshold(device, 1, &number))
VIA(hottest, nvmlDeviceGetTemperatureThreshold(device, 3, &number))
VIA(power_mode, nvmlDeviceGetPowerManagementMode(device, &number))
VIA(power_draw, nvmlDeviceGetPowerUsage(device, &number))
VIA(power_limit, nvmlDeviceGetPowerManagementLimit(device, &number))
VIA(power_enforced, nvmlDeviceGetEnforcedPowerLimit(device, &number))
VIA(power_default, nvmlDeviceGetPowerManagementDefaultLimit(device, &number))
VIA(power_least, (nvmlDeviceGetPowerManagementLimitConstraints(device, &number, &(unsigned){0})))
VIA(power_most, (nvmlDeviceGetPowerManagementLimitConstraints(device, &(unsigned){0}, &number)))
VIA(clock_graphics, nvmlDeviceGetClockInfo(device, NVML_CLOCK_GRAPHICS, &number))
VIA(clock_sm, nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &number))
VIA(clock_memory, nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, &number))
VIA(clock_video, nvmlDeviceGetClockInfo(device, NVML_CLOCK_VIDEO, &number))
VIA(clock_max_graphics, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_GRAPHICS, &number))
VIA(clock_max_sm, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &number))
VIA(clock_max_memory, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_MEM, &number))
VIA(clock_max_video, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_VIDEO, &number))
VIA(link_gen, nvmlDeviceGetCurrPcieLinkGeneration(device, &number))
VIA(link_gen_max, nvmlDeviceGetMaxPcieLinkGeneration(device, &number))
VIA(link_width, nvmlDeviceGetCurrPcieLinkWidth(device, &number))
VIA(link_width_max, nvmlDeviceGetMaxPcieLinkWidth(device, &number))
VIA(link_tx, nvmlDeviceGetPcieThroughput(device, 0, &number))
VIA(link_rx, nvmlDeviceGetPcieThroughput(device, 1, &number))
VIA(replays, nvmlDeviceGetPcieReplayCounter(device, &number))
VIA(ecc_mode, (nvmlDeviceGetEccMode(device, &number, &(unsigned){0})))
VIA(mig_mode, (nvmlDeviceGetMigMode(device, &number, &(unsigned){0})))
VIA(retired_pending, nvmlDeviceGetRetiredPagesPendingStatus(device, &number))
MEMORY_V2(memory_total, total)
MEMORY_V2(memory_reserved, reserved)
MEMORY_V2(memory_used, used)
MEMORY_V2(memory_free, free)
MEMORY_V1(old_memory_total, total)
MEMORY_V1(old_memory_used, used)
MEMORY_V1(old_memory_free, free)
BAR1(bar1_total, total)
BAR1(bar1_used, used)
BAR1(bar1_free, free)
RATE(util_gpu, gpu)
RATE(util_memory, memory)
PART(addressing, nvmlDeviceAddressingMode_t,
     {.version = NVML_VERSION(nvmlDeviceAddressingMode_t, 1)},
     nvmlDeviceGetAddressingMode(device, &answer), value)
ECC(ecc_corrected_volatile, 0, 0)
ECC(ecc_uncorrected_volatile, 1, 0)
ECC(ecc_corrected_aggregate, 0, 1)
ECC(ecc_uncorrected_aggregate, 1, 1)
REMAPPED(remapped_corrected, 0)
REMAPPED(remapped_uncorrected, 1)
REMAPPED(remapped_pending, 2)
REMAPPED(remapped_failed, 3)
REASON(reason_idle, 0x1)
REASON(reason_application, 0x2)
REASON(reason_power_cap, 0x4)
REASON(reason_slowdown, 0x8)
REASON(reason_sync, 0x10)
REASON(reason_thermal, 0x20)
REASON(reason_hw_thermal, 0x40)
REASON(reason_brake, 0x80)
REASON(reason_display, 0x100)

static nvmlReturn_t reasons(nvmlDevice_t device, u64 *value)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, value);
}

static nvmlReturn_t by_field_id(nvmlDevice_t device, unsigned id, u64 *value)
{
    nvmlFieldValue_t answer = {.fieldId = id};
    nvmlReturn_t status = nvmlDeviceGetFieldValues(device, 1, &answer);
    *value = answer.value.ullVal;
    return status != NVML_SUCCESS ? status : (nvmlReturn_t)answer.nvmlReturn;
}

static nvmlReturn_t memory_temperature(nvmlDevice_t device, u64 *value)
{
    return by_field_id(device, 82, value);
}

static nvmlReturn_t recovery(nvmlDevice_t device, u64 *value)
{
    return by_field_id(device, 230, value);
}

static nvmlReturn_t retired(nvmlDevice_t device, unsigned cause, u64 *value)
{
    unsigned count = 0;
    nvmlReturn_t status = nvmlDeviceGetRetiredPages(device, cause, &count, NULL);
    *value = count;
    return status == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : status;
}

static nvmlReturn_t retired_single(nvmlDevice_t device, u64 *value)
{
    return retired(device, 0, value);
}

static nvmlReturn_t retired_double(nvmlDevice_t device, u64 *value)
{
    return retired(device, 1, value);
}

#define N(name, unit, xml, since, kind, read) {name, unit, xml, since, kind, read, NULL, NULL, 0}
#define W(name, since, names, read) \
    {name, "", "", since, WORD, read, NULL, names, sizeof names / sizeof names[0]}
#define T(name, text) {name, "", "", 0, TEXT, NULL, text, NULL, 0}
#define S(name, since, which) {name, "", "", since, SPECIAL, NULL, NULL, NULL, which}

/* The first row of a name whose `since` fits is taken: newer drivers come first. */
static const struct field FIELDS[] = {
    S("timestamp", 0, TIMESTAMP),
    S("driver_version", 0, DRIVER),
    S("count", 0, GPU_COUNT),
    T("name", nvmlDeviceGetName),
    T("serial", nvmlDeviceGetSerial),
    T("uuid", nvmlDeviceGetUUID),
    T("vbios_version", nvmlDeviceGetVbiosVersion),
    S("pci.bus_id", 0, BUS_ID),
    S("pci.domain", 0, DOMAIN),
    S("pci.bus", 0, BUS),
    S("pci.device", 0, DEVICE),
    S("index", 0, INDEX),
    S("compute_cap", 495, COMPUTE_CAP),
    N("pcie.link.gen.current", "", "", 0, COUNT, link_gen),
    N("pcie.link.gen.gpucurrent", "", "", 510, COUNT, link_gen),
    N("pcie.link.gen.max", "", "", 0, COUNT, link_gen_max),
    N("pcie.link.gen.gpumax", "", "", 510, COUNT, link_gen_max),
    N("pcie.link.width.current", "", "x", 0, COUNT, link_width),
    N("pcie.link.width.max", "", "x", 0, COUNT, link_width_max),
    W("display_mode", 0, SWITCH, display_mode),
    W("display_active", 0, SWITCH, display_active),
    W("persistence_mode", 0, SWITCH, persistence),
    W("addressing_mode", 535, ADDRESSINGS, addressing),
    W("gpu_recovery_action", 570, RECOVERIES, recovery),
    N("fan.speed", "%", "%", 0, COUNT, fan),
    N("pstate", "", "", 0, PSTATE, pstate),
    N("clocks_throttle_reasons.active", "", "", 0, HEX, reasons),
    W("clocks_throttle_reasons.gpu_idle", 0, ACTIVE, reason_idle),
    W("clocks_throttle_reasons.applications_clocks_setting", 0, ACTIVE, reason_application),
    W("clocks_throttle_reasons.sw_power_cap", 0, ACTIVE, reason_power_cap),
    W("clocks_throttle_reasons.hw_slowdown", 0, ACTIVE, reason_slowdown),
    W("clocks_throttle_reasons.hw_thermal_slowdown", 384, ACTIVE, reason_hw_thermal),
    W("clocks_throttle_reasons.hw_power_brake_slowdown", 384, ACTIVE, reason_brake),
    W("clocks_throttle_reasons.sw_thermal_slowdown", 384, ACTIVE, reason_thermal),
    W("clocks_throttle_reasons.sync_boost", 0, ACTIVE, reason_sync),
    N("clocks_event_reasons.active", "", "", 535, HEX, reasons),
    W("clocks_event_reasons.gpu_idle", 535, ACTIVE, reason_idle),
    W("clocks_event_reasons.applications_clocks_setting", 535, ACTIVE, reason_application),
    W("clocks_event_reasons.sw_power_cap", 535, ACTIVE, reason_power_cap),
    W("clocks_event_reasons.hw_slowdown", 535, ACTIVE, reason_slowdown),
    W("clocks_event_reasons.hw_thermal_slowdown", 535, ACTIVE, reason_hw_thermal),
    W("clocks_event_reasons.hw_power_brake_slowdown", 535, ACTIVE, reason_brake),
    W("clocks_event_reasons.sw_thermal_slowdown", 535, ACTIVE, reason_thermal),
    W("clocks_event_reasons.sync_boost", 535, ACTIVE, reason_sync),
    N("memory.total", "MiB", "MiB", 510, MIB, memory_total),
    N("memory.total", "MiB", "MiB", 0, MIB, old_memory_total),
    N("memory.reserved", "MiB", "MiB", 510, MIB, memory_reserved),
    N("memory.used", "MiB", "MiB", 510, MIB, memory_used),
    N("memory.used", "MiB", "MiB", 0, MIB, old_memory_used),
    N("memory.free", "MiB", "MiB", 510, MIB, memory_free),
    N("memory.free", "MiB", "MiB", 0, MIB, old_memory_free),
    W("compute_mode", 0, MODES, compute_mode),
    N("utilization.gpu", "%", "%", 0, COUNT, util_gpu),
    N("utilization.memory", "%", "%", 0, COUNT, util_memory),
    N("utilization.encoder", "%", "%", 535, COUNT, encoder),
    N("utilization.decoder", "%", "%", 535, COUNT, decoder),
    N("utilization.jpeg", "%", "%", 535, COUNT, jpeg),
    N("utilization.ofa", "%", "%", 535, COUNT, ofa),
    W("ecc.mode.current", 0, SWITCH, ecc_mode),
    W("ecc.mode.pending", 0, SWITCH, ecc_mode),
    N("ecc.errors.corrected.volatile.total", "", "", 0, COUNT, ecc_corrected_volatile),
    N("ecc.errors.corrected.aggregate.total", "", "", 0, COUNT, ecc_corrected_aggregate),
    N("ecc.errors.uncorrected.volatile.total", "", "", 0, COUNT, ecc_uncorrected_volatile),
    N("ecc.errors.uncorrected.aggregate.total", "", "", 0, COUNT, ecc_uncorrected_aggregate),
    N("retired_pages.single_bit_ecc.count", "", "", 0, COUNT, retired_single),
    N("retired_pages.double_bit.count", "", "", 0, COUNT, retired_double),
    W("retired_pages.pending", 0, YES_NO, retired_pending),
    N("remapped_rows.correctable", "", "", 450, COUNT, remapped_corrected),
    N("remapped_rows.uncorrectable", "", "", 450, COUNT, remapped_uncorrected),
    W("remapped_rows.pending", 450, YES_NO, remapped_pending),
    W("remapped_rows.failure", 450, YES_NO, remapped_failed),
    N("temperature.gpu", "", "C", 0, COUNT, temperature),
    N("temperature.memory", "", "C", 384, COUNT, memory_temperature),
    W("power.management", 0, SWITCH, power_mode),
    N("power.draw", "W", "W", 0, WATTS, power_draw),
    N("power.draw.average", "W", "W", 535, WATTS, power_draw),
    N("power.draw.instant", "W", "W", 535, WATTS, power_draw),
    N("power.limit", "W", "W", 0, WATTS, power_limit),
    N("enforced.power.limit", "W", "W", 0, WATTS, power_enforced),
    N("power.default_limit", "W", "W", 0, WATTS, power_default),
    N("power.min_limit", "W", "W", 0, WATTS, power_least),
    N("power.max_limit", "W", "W", 0, WATTS, power_most),
    N("clocks.current.graphics", "MHz", "MHz", 0, COUNT, clock_graphics),
    N("clocks.current.sm", "MHz", "MHz", 0, COUNT, clock_sm),
    N("clocks.current.memory", "MHz", "MHz", 0, COUNT, clock_memory),
    N("clocks.current.video", "MHz", "MHz", 0, COUNT, clock_video),
    N("clocks.max.graphics", "MHz", "MHz", 0, COUNT, clock_max_graphics),
    N("clocks.max.sm", "MHz", "MHz", 0, COUNT, clock_max_sm),
    N("clocks.max.memory", "MHz", "MHz", 0, COUNT, clock_max_memory),
    W("mig.mode.current", 450, SWITCH, mig_mode),
    W("mig.mode.pending", 450, SWITCH, mig_mode),
    /* Only for the XML and the table: a query cannot contain a name with a space. */
    W("xml brand", 0, BRANDS, brand),
    W("xml architecture", 0, ARCHITECTURES, architecture),
    N("xml sram", "", "", 0, COUNT, ecc_sram),
    N("xml minor", "", "", 0, COUNT, minor_number),
    N("xml replays", "", "", 0, COUNT, replays),
    N("xml tx", "", "KB/s", 0, COUNT, link_tx),
    N("xml rx", "", "KB/s", 0, COUNT, link_rx),
    N("xml bar1 total", "", "MiB", 0, MIB, bar1_total),
    N("xml bar1 used", "", "MiB", 0, MIB, bar1_used),
    N("xml bar1 free", "", "MiB", 0, MIB, bar1_free),
    N("xml encoder", "", "%", 0, COUNT, encoder),
    N("xml decoder", "", "%", 0, COUNT, decoder),
    N("xml shutdown", "", "C", 0, COUNT, shutdown_at),
    N("xml slowdown", "", "C", 0, COUNT, slowdown_at),
    N("xml hottest", "", "C", 0, COUNT, hottest),
    W("xml power management", 0, SUPPORTED, power_mode),
    W("xml display clock", 0, ACTIVE, reason_display),
    N("xml max video", "", "MHz", 0, COUNT, clock_max_video),
};

static const char *const ALIASES[][2] = {
    {"gpu_name", "name"},
    {"gpu_serial", "serial"},
    {"gpu_uuid", "uuid"},
    {"gpu_bus_id", "pci.bus_id"},
    {"clocks.gr", "clocks.current.graphics"},
    {"clocks.sm", "clocks.current.sm"},
    {"clocks.mem", "clocks.current.memory"},
    {"clocks.video", "clocks.current.video"},
    {"clocks.max.gr", "clocks.max.graphics"},
    {"clocks.max.mem", "clocks.max.memory"},
    {"retired_pages.sbe", "retired_pages.single_bit_ecc.count"},
    {"retired_pages.dbe", "retired_pages.double_bit.count"},
};

const struct field *find_field(const char *name, int branch)
{
    for (size_t i = 0; i < sizeof ALIASES / sizeof ALIASES[0]; i++) {
        if (strcmp(name, ALIASES[i][0]) == 0)
            name = ALIASES[i][1];
    }
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        if (strcmp(name, FIELDS[i].name) == 0 && FIELDS[i].since <= branch)
            return &FIELDS[i];
    }
    return NULL;
}

const char *field_name(const struct field *field)
{
    return field->name;
}

const char *field_unit(const struct field *field, bool xml)
{
    return xml ? field->xml_unit : field->csv_unit;
}

static void write_timestamp(char *text, size_t size)
{
    struct timespec now;
    struct tm local;
    char day[32];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
    snprintf(text, size, "%s.%03ld", day, now.tv_nsec / 1000000);
}

static nvmlReturn_t write_pci(nvmlDevice_t device, enum special which, char *text, size_t size)
{
    nvmlPciInfo_t info = {.domain = 0};
    nvmlReturn_t status = nvmlDeviceGetPciInfo_v3(device, &info);
    if (which == BUS_ID)
        snprintf(text, size, "%s", info.busId);
    else if (which == DOMAIN)
        snprintf(text, size, "0x%04X", info.domain);
    else
        snprintf(text, size, "0x%02X", which == BUS ? info.bus : info.device);
    return status;
}

static nvmlReturn_t write_special(enum special which, const struct selection *all,
                                  const struct shown_gpu *gpu, char *text, unsigned size)
{
    int major = 0, minor = 0;
    nvmlReturn_t status = NVML_SUCCESS;
    switch (which) {
    case TIMESTAMP:
        write_timestamp(text, size);
        return status;
    case DRIVER:
        return nvmlSystemGetDriverVersion(text, size);
    case GPU_COUNT:
        snprintf(text, size, "%u", all->total);
        return status;
    case INDEX:
        snprintf(text, size, "%u", gpu->index);
        return status;
    case COMPUTE_CAP:
        status = nvmlDeviceGetCudaComputeCapability(gpu->device, &major, &minor);
        snprintf(text, size, "%d.%d", major, minor);
        return status;
    default:
        return write_pci(gpu->device, which, text, size);
    }
}

static void write_number(const struct field *field, u64 value, char *text, size_t size)
{
    switch (field->kind) {
    case WATTS:
        snprintf(text, size, "%llu.%02llu", value / 1000, value % 1000 / 10);
        break;
    case MIB:
        snprintf(text, size, "%llu", value >> 20);
        break;
    case HEX:
        snprintf(text, size, "0x%016llX", value);
        break;
    case PSTATE:
        snprintf(text, size, "P%llu", value);
        break;
    case WORD:
        snprintf(text, size, "%s", value < field->argument ? field->names[value] : "Unknown");
        break;
    default:
        snprintf(text, size, "%llu", value);
    }
}

struct cell read_field(const struct field *field, const struct selection *all,
                       const struct shown_gpu *gpu)
{
    struct cell cell = {.status = NVML_SUCCESS};
    u64 value = 0;
    if (field->kind == SPECIAL) {
        cell.status = write_special((enum special)field->argument, all, gpu, cell.text,
                                    sizeof cell.text);
    } else if (field->kind == TEXT) {
        cell.status = field->text(gpu->device, cell.text, sizeof cell.text);
    } else {
        cell.status = field->read(gpu->device, &value);
        write_number(field, value, cell.text, sizeof cell.text);
    }
    return cell;
}

struct cell read_named(const char *name, const struct selection *all, const struct shown_gpu *gpu)
{
    const struct field *field = find_field(name, all->branch);
    return field != NULL ? read_field(field, all, gpu)
                         : (struct cell){.status = NVML_ERROR_NOT_SUPPORTED};
}

unsigned long long cell_number(const struct cell *cell)
{
    return strtoull(cell->text, NULL, 10);
}
