/* nvidia-smi -q -x: one table of tags, each with the driver branches that write it. */
#include "smi.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum row_kind { OPEN, CLOSE, LEAF };

struct row {
    enum row_kind kind;
    const char *tag;
    const char *field; /* a field's name, or "=text" for literal text */
    int since, until;  /* driver branches; until 0: no end */
};

#define ALWAYS 0, 0
#define SINCE(branch) branch, 0
#define UNTIL(branch) 0, branch
#define ABSENT "=N/A"

static const struct row HEAD[] = {
    {LEAF, "product_name", "name", ALWAYS},
    {LEAF, "product_brand", "xml brand", ALWAYS},
    {LEAF, "product_architecture", "xml architecture", SINCE(495)},
    {LEAF, "display_mode", "display_mode", UNTIL(580)},
    {LEAF, "display_mode", "=Requested functionality has been deprecated", SINCE(580)},
    {LEAF, "display_attached", "=No", SINCE(575)},
    {LEAF, "display_active", "display_active", ALWAYS},
    {LEAF, "persistence_mode", "persistence_mode", ALWAYS},
    {LEAF, "addressing_mode", "addressing_mode", SINCE(535)},
    {OPEN, "mig_mode", NULL, SINCE(450)},
    {LEAF, "current_mig", "mig.mode.current", SINCE(450)},
    {LEAF, "pending_mig", "mig.mode.pending", SINCE(450)},
    {CLOSE, "mig_mode", NULL, SINCE(450)},
};

static const struct row BODY[] = {
    {LEAF, "accounting_mode", "=Disabled", ALWAYS},
    {LEAF, "accounting_mode_buffer_size", "=4000", ALWAYS},
    {OPEN, "driver_model", NULL, ALWAYS},
    {LEAF, "current_dm", ABSENT, ALWAYS},
    {LEAF, "pending_dm", ABSENT, ALWAYS},
    {CLOSE, "driver_model", NULL, ALWAYS},
    {LEAF, "serial", "serial", ALWAYS},
    {LEAF, "uuid", "uuid", ALWAYS},
    {LEAF, "minor_number", "xml minor", ALWAYS},
    {LEAF, "vbios_version", "vbios_version", ALWAYS},
    {LEAF, "gpu_recovery_action", "gpu_recovery_action", SINCE(570)},
    {OPEN, "pci", NULL, ALWAYS},
    {LEAF, "pci_bus_id", "pci.bus_id", ALWAYS},
    {OPEN, "pci_gpu_link_info", NULL, ALWAYS},
    {OPEN, "pcie_gen", NULL, ALWAYS},
    {LEAF, "max_link_gen", "pcie.link.gen.max", ALWAYS},
    {LEAF, "current_link_gen", "pcie.link.gen.current", ALWAYS},
    {LEAF, "device_current_link_gen", "pcie.link.gen.current", SINCE(510)},
    {LEAF, "max_device_link_gen", "pcie.link.gen.max", SINCE(510)},
    {CLOSE, "pcie_gen", NULL, ALWAYS},
    {OPEN, "link_widths", NULL, ALWAYS},
    {LEAF, "max_link_width", "pcie.link.width.max", ALWAYS},
    {LEAF, "current_link_width", "pcie.link.width.current", ALWAYS},
    {CLOSE, "link_widths", NULL, ALWAYS},
    {CLOSE, "pci_gpu_link_info", NULL, ALWAYS},
    {LEAF, "replay_counter", "xml replays", ALWAYS},
    {LEAF, "tx_util", "xml tx", ALWAYS},
    {LEAF, "rx_util", "xml rx", ALWAYS},
    {CLOSE, "pci", NULL, ALWAYS},
    {LEAF, "fan_speed", "fan.speed", ALWAYS},
    {LEAF, "performance_state", "pstate", ALWAYS},
};

/* The prefix of the tags: _gpu_idle and so on are appended. */
static const char *const REASONS[][2] = {
    {"gpu_idle", "clocks_throttle_reasons.gpu_idle"},
    {"applications_clocks_setting", "clocks_throttle_reasons.applications_clocks_setting"},
    {"sw_power_cap", "clocks_throttle_reasons.sw_power_cap"},
    {"hw_slowdown", "clocks_throttle_reasons.hw_slowdown"},
    {"hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"},
    {"hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown"},
    {"sync_boost", "clocks_throttle_reasons.sync_boost"},
    {"sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown"},
    {"display_clocks_setting", "xml display clock"},
};

static const struct row READINGS[] = {
    {OPEN, "fb_memory_usage", NULL, ALWAYS},
    {LEAF, "total", "memory.total", ALWAYS},
    {LEAF, "reserved", "memory.reserved", SINCE(510)},
    {LEAF, "used", "memory.used", ALWAYS},
    {LEAF, "free", "memory.free", ALWAYS},
    {CLOSE, "fb_memory_usage", NULL, ALWAYS},
    {OPEN, "bar1_memory_usage", NULL, ALWAYS},
    {LEAF, "total", "xml bar1 total", ALWAYS},
    {LEAF, "used", "xml bar1 used", ALWAYS},
    {LEAF, "free", "xml bar1 free", ALWAYS},
    {CLOSE, "bar1_memory_usage", NULL, ALWAYS},
    {LEAF, "compute_mode", "compute_mode", ALWAYS},
    {OPEN, "utilization", NULL, ALWAYS},
    {LEAF, "gpu_util", "utilization.gpu", ALWAYS},
    {LEAF, "memory_util", "utilization.memory", ALWAYS},
    {LEAF, "encoder_util", "xml encoder", ALWAYS},
    {LEAF, "decoder_util", "xml decoder", ALWAYS},
    {LEAF, "jpeg_util", "utilization.jpeg", SINCE(535)},
    {LEAF, "ofa_util", "utilization.ofa", SINCE(535)},
    {CLOSE, "utilization", NULL, ALWAYS},
    {OPEN, "ecc_mode", NULL, ALWAYS},
    {LEAF, "current_ecc", "ecc.mode.current", ALWAYS},
    {LEAF, "pending_ecc", "ecc.mode.pending", ALWAYS},
    {CLOSE, "ecc_mode", NULL, ALWAYS},
    {OPEN, "ecc_errors", NULL, ALWAYS},
    {OPEN, "volatile", NULL, ALWAYS},
    {LEAF, "sram_correctable", "xml sram", SINCE(450)},
    {LEAF, "sram_uncorrectable", "xml sram", 450, 550},
    {LEAF, "sram_uncorrectable_parity", "xml sram", SINCE(550)},
    {LEAF, "sram_uncorrectable_secded", "xml sram", SINCE(550)},
    {LEAF, "dram_correctable", "ecc.errors.corrected.volatile.total", ALWAYS},
    {LEAF, "dram_uncorrectable", "ecc.errors.uncorrected.volatile.total", ALWAYS},
    {CLOSE, "volatile", NULL, ALWAYS},
    {OPEN, "aggregate", NULL, ALWAYS},
    {LEAF, "sram_correctable", "xml sram", SINCE(450)},
    {LEAF, "sram_uncorrectable", "xml sram", 450, 550},
    {LEAF, "sram_uncorrectable_parity", "xml sram", SINCE(550)},
    {LEAF, "sram_uncorrectable_secded", "xml sram", SINCE(550)},
    {LEAF, "dram_correctable", "ecc.errors.corrected.aggregate.total", ALWAYS},
    {LEAF, "dram_uncorrectable", "ecc.errors.uncorrected.aggregate.total", ALWAYS},
    {CLOSE, "aggregate", NULL, ALWAYS},
    {CLOSE, "ecc_errors", NULL, ALWAYS},
    {OPEN, "retired_pages", NULL, ALWAYS},
    {OPEN, "multiple_single_bit_retirement", NULL, ALWAYS},
    {LEAF, "retired_count", "retired_pages.single_bit_ecc.count", ALWAYS},
    {CLOSE, "multiple_single_bit_retirement", NULL, ALWAYS},
    {OPEN, "double_bit_retirement", NULL, ALWAYS},
    {LEAF, "retired_count", "retired_pages.double_bit.count", ALWAYS},
    {CLOSE, "double_bit_retirement", NULL, ALWAYS},
    {LEAF, "pending_retirement", "retired_pages.pending", ALWAYS},
    {CLOSE, "retired_pages", NULL, ALWAYS},
};

static const struct row REMAPPED[] = {
    {OPEN, "remapped_rows", NULL, SINCE(450)},
    {LEAF, "remapped_row_corr", "remapped_rows.correctable", SINCE(450)},
    {LEAF, "remapped_row_unc", "remapped_rows.uncorrectable", SINCE(450)},
    {LEAF, "remapped_row_pending", "remapped_rows.pending", SINCE(450)},
    {LEAF, "remapped_row_failure", "remapped_rows.failure", SINCE(450)},
    {CLOSE, "remapped_rows", NULL, SINCE(450)},
};

static const struct row REST[] = {
    {OPEN, "temperature", NULL, ALWAYS},
    {LEAF, "gpu_temp", "temperature.gpu", ALWAYS},
    {LEAF, "gpu_temp_max_threshold", "xml shutdown", ALWAYS},
    {LEAF, "gpu_temp_slow_threshold", "xml slowdown", ALWAYS},
    {LEAF, "gpu_temp_max_gpu_threshold", "xml hottest", SINCE(375)},
    {LEAF, "memory_temp", "temperature.memory", SINCE(384)},
    {CLOSE, "temperature", NULL, ALWAYS},
    {OPEN, "power_readings", NULL, UNTIL(535)},
    {LEAF, "power_state", "pstate", UNTIL(535)},
    {LEAF, "power_management", "xml power management", UNTIL(535)},
    {LEAF, "power_draw", "power.draw", UNTIL(535)},
    {LEAF, "power_limit", "power.limit", UNTIL(535)},
    {LEAF, "default_power_limit", "power.default_limit", UNTIL(535)},
    {LEAF, "enforced_power_limit", "enforced.power.limit", UNTIL(535)},
    {LEAF, "min_power_limit", "power.min_limit", UNTIL(535)},
    {LEAF, "max_power_limit", "power.max_limit", UNTIL(535)},
    {CLOSE, "power_readings", NULL, UNTIL(535)},
    {OPEN, "gpu_power_readings", NULL, SINCE(535)},
    {LEAF, "power_state", "pstate", SINCE(535)},
    {LEAF, "power_draw", "power.draw", 535, 570},
    {LEAF, "average_power_draw", "power.draw.average", SINCE(570)},
    {LEAF, "instant_power_draw", "power.draw.instant", SINCE(570)},
    {LEAF, "current_power_limit", "enforced.power.limit", SINCE(535)},
    {LEAF, "requested_power_limit", "power.limit", SINCE(535)},
    {LEAF, "default_power_limit", "power.default_limit", SINCE(535)},
    {LEAF, "min_power_limit", "power.min_limit", SINCE(535)},
    {LEAF, "max_power_limit", "power.max_limit", SINCE(535)},
    {CLOSE, "gpu_power_readings", NULL, SINCE(535)},
    {OPEN, "module_power_readings", NULL, SINCE(535)},
    {LEAF, "power_state", "pstate", SINCE(535)},
    {LEAF, "power_draw", ABSENT, 535, 570},
    {LEAF, "average_power_draw", ABSENT, SINCE(570)},
    {LEAF, "instant_power_draw", ABSENT, SINCE(570)},
    {LEAF, "current_power_limit", ABSENT, SINCE(535)},
    {CLOSE, "module_power_readings", NULL, SINCE(535)},
    {OPEN, "clocks", NULL, ALWAYS},
    {LEAF, "graphics_clock", "clocks.current.graphics", ALWAYS},
    {LEAF, "sm_clock", "clocks.current.sm", ALWAYS},
    {LEAF, "mem_clock", "clocks.current.memory", ALWAYS},
    {LEAF, "video_clock", "clocks.current.video", SINCE(375)},
    {CLOSE, "clocks", NULL, ALWAYS},
    {OPEN, "max_clocks", NULL, ALWAYS},
    {LEAF, "graphics_clock", "clocks.max.graphics", ALWAYS},
    {LEAF, "sm_clock", "clocks.max.sm", ALWAYS},
    {LEAF, "mem_clock", "clocks.max.memory", ALWAYS},
    {LEAF, "video_clock", "xml max video", SINCE(375)},
    {CLOSE, "max_clocks", NULL, ALWAYS},
    {LEAF, "supported_clocks", ABSENT, ALWAYS},
};

static void print_escaped(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            printf("&lt;");
        else if (*text == '>')
            printf("&gt;");
        else if (*text == '&')
            printf("&amp;");
        else
            putchar(*text);
    }
}

static void indent(int depth)
{
    while (depth-- > 0)
        putchar('\t');
}

static void leaf(int depth, const char *tag, const char *text)
{
    indent(depth);
    printf("<%s>", tag);
    print_escaped(text);
    printf("</%s>\n", tag);
}

static void open_tag(int depth, const char *tag)
{
    indent(depth);
    printf("<%s>\n", tag);
}

static void close_tag(int depth, const char *tag)
{
    indent(depth);
    printf("</%s>\n", tag);
}

static void value_text(const char *name, const struct selection *all, const struct shown_gpu *gpu,
                       char *text, size_t size)
{
    const struct field *field = find_field(name, all->branch);
    struct cell cell = read_named(name, all, gpu);
    bool absent = cell.status == NVML_ERROR_NOT_SUPPORTED ||
                  cell.status == NVML_ERROR_FUNCTION_NOT_FOUND;
    const char *unit = field != NULL ? field_unit(field, true) : "";
    const char *separator = *unit == '\0' || strcmp(unit, "x") == 0 ? "" : " "; /* "16x", "35 C" */
    if (cell.status == NVML_SUCCESS)
        snprintf(text, size, "%s%s%s", cell.text, separator, unit);
    else
        snprintf(text, size, "%s", absent ? "N/A" : nvmlErrorString(cell.status));
}

static void print_rows(const struct row *rows, size_t count, const struct selection *all,
                       const struct shown_gpu *gpu)
{
    char text[512];
    int depth = 2;
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        if (row->since > all->branch || (row->until != 0 && row->until <= all->branch))
            continue;
        if (row->kind == OPEN) {
            open_tag(depth++, row->tag);
        } else if (row->kind == CLOSE) {
            close_tag(--depth, row->tag);
        } else if (row->field[0] == '=') {
            leaf(depth, row->tag, row->field + 1);
        } else {
            value_text(row->field, all, gpu, text, sizeof text);
            leaf(depth, row->tag, text);
        }
    }
}

#define ROWS(rows) rows, sizeof rows / sizeof rows[0]

static void print_reasons(const struct selection *all, const struct shown_gpu *gpu)
{
    char tag[128], text[512];
    const char *word = all->branch >= 535 ? "clocks_event_reason" : "clocks_throttle_reason";
    snprintf(tag, sizeof tag, "%ss", word);
    struct cell active = read_named("clocks_throttle_reasons.active", all, gpu);
    if (active.status == NVML_ERROR_NOT_SUPPORTED) {
        leaf(2, tag, "N/A");
        return;
    }
    open_tag(2, tag);
    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++) {
        char inner[128];
        snprintf(inner, sizeof inner, "%s_%s", word, REASONS[i][0]);
        value_text(REASONS[i][1], all, gpu, text, sizeof text);
        leaf(3, inner, text);
    }
    close_tag(2, tag);
}

/* A block of rows, or the text that replaces it. */
static void print_remapped(const struct selection *all, const struct shown_gpu *gpu)
{
    char text[512];
    if (all->branch < 450)
        return;
    struct cell corrected = read_named("remapped_rows.correctable", all, gpu);
    if (corrected.status == NVML_SUCCESS) {
        print_rows(ROWS(REMAPPED), all, gpu);
    } else {
        value_text("remapped_rows.correctable", all, gpu, text, sizeof text);
        leaf(2, "remapped_rows", text);
    }
}

static void number_leaf(int depth, const char *tag, unsigned long long value, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, "%llu%s", value, unit);
    leaf(depth, tag, text);
}

static void print_mig_device(int place, const struct mig_device *mig)
{
    const nvmlDeviceAttributes_t *has = &mig->attributes;
    open_tag(3, "mig_device");
    number_leaf(4, "index", (unsigned)place, "");
    number_leaf(4, "gpu_instance_id", mig->gi, "");
    number_leaf(4, "compute_instance_id", mig->ci, "");
    open_tag(4, "device_attributes");
    open_tag(5, "shared");
    number_leaf(6, "multiprocessor_count", has->multiprocessorCount, "");
    number_leaf(6, "copy_engine_count", has->sharedCopyEngineCount, "");
    number_leaf(6, "encoder_count", has->sharedEncoderCount, "");
    number_leaf(6, "decoder_count", has->sharedDecoderCount, "");
    number_leaf(6, "ofa_count", has->sharedOfaCount, "");
    number_leaf(6, "jpg_count", has->sharedJpegCount, "");
    close_tag(5, "shared");
    close_tag(4, "device_attributes");
    open_tag(4, "fb_memory_usage");
    number_leaf(5, "total", mig->memory.total >> 20, " MiB");
    number_leaf(5, "reserved", 0, " MiB");
    number_leaf(5, "used", mig->memory.used >> 20, " MiB");
    number_leaf(5, "free", mig->memory.free >> 20, " MiB");
    close_tag(4, "fb_memory_usage");
    close_tag(3, "mig_device");
}

static void print_mig_devices(const struct selection *all, const struct shown_gpu *gpu)
{
    struct mig_device list[NVML_MAX_MIG_DEVICES];
    if (all->branch < 460)
        return;
    int count = read_mig_devices(gpu->device, list, NVML_MAX_MIG_DEVICES);
    open_tag(2, "mig_devices");
    for (int i = 0; i < count; i++)
        print_mig_device(i, &list[i]);
    if (count == 0)
        printf("\t\t\tNone\n");
    close_tag(2, "mig_devices");
}

static void print_process(int branch, const struct shown_process *process)
{
    char name[1024], memory[64] = "N/A", id[32] = "N/A";
    unsigned none = (unsigned)NVML_NO_INSTANCE;
    open_tag(3, "process_info");
    if (branch >= 450) {
        if (process->gi != none)
            snprintf(id, sizeof id, "%u", process->gi);
        leaf(4, "gpu_instance_id", id);
        if (process->gi != none)
            snprintf(id, sizeof id, "%u", process->ci);
        leaf(4, "compute_instance_id", id);
    }
    number_leaf(4, "pid", process->pid, "");
    leaf(4, "type", process_type(process));
    process_name(process->pid, name, sizeof name);
    leaf(4, "process_name", name);
    if (process->memory != NVML_NOT_AVAILABLE)
        snprintf(memory, sizeof memory, "%llu MiB", process->memory >> 20);
    leaf(4, "used_memory", memory);
    close_tag(3, "process_info");
}

static void print_processes(const struct selection *all, const struct shown_gpu *gpu)
{
    static struct process_list processes;
    read_processes(gpu->device, all->branch, &processes);
    if (processes.status != NVML_SUCCESS && processes.count == 0) {
        bool absent = processes.status == NVML_ERROR_NOT_SUPPORTED;
        leaf(2, "processes", absent ? "N/A" : nvmlErrorString(processes.status));
        return;
    }
    open_tag(2, "processes");
    for (int i = 0; i < processes.count; i++)
        print_process(all->branch, &processes.list[i]);
    close_tag(2, "processes");
}

static void print_gpu(const struct selection *all, const struct shown_gpu *gpu)
{
    char address[512];
    value_text("pci.bus_id", all, gpu, address, sizeof address);
    printf("\t<gpu id=\"%s\">\n", address);
    print_rows(ROWS(HEAD), all, gpu);
    print_mig_devices(all, gpu);
    print_rows(ROWS(BODY), all, gpu);
    print_reasons(all, gpu);
    print_rows(ROWS(READINGS), all, gpu);
    print_remapped(all, gpu);
    print_rows(ROWS(REST), all, gpu);
    print_processes(all, gpu);
    open_tag(2, "accounted_processes");
    close_tag(2, "accounted_processes");
    printf("\t</gpu>\n\n");
}

static int dtd_version(int branch)
{
    static const int firsts[][2] = {{580, 13}, {525, 12}, {450, 11}, {410, 10}, {384, 9},
                                    {375, 8},  {352, 7},  {0, 6}};
    int i = 0;
    while (firsts[i][0] > branch)
        i++;
    return firsts[i][1];
}

int print_xml(const struct selection *all)
{
    char text[64], driver[64] = "";
    int cuda = 0;
    time_t seconds = time(NULL);
    struct tm local;
    printf("<?xml version=\"1.0\" ?>\n");
    printf("<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v%d.dtd\">\n", dtd_version(all->branch));
    printf("<nvidia_smi_log>\n");
    strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &local));
    leaf(1, "timestamp", text);
    nvmlSystemGetDriverVersion(driver, sizeof driver);
    leaf(1, "driver_version", driver);
    if (nvmlSystemGetCudaDriverVersion(&cuda) == NVML_SUCCESS) {
        snprintf(text, sizeof text, "%d.%d", cuda / 1000, cuda % 1000 / 10);
        leaf(1, "cuda_version", text);
    }
    number_leaf(1, "attached_gpus", all->total, "");
    for (int g = 0; g < all->count; g++)
        print_gpu(all, &all->gpus[g]);
    printf("</nvidia_smi_log>\n");
    return 0;
}
