/* Parser of the scenario file: one key per line, described by one table. */
#include "scenario.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *text;
    uint64_t value;
};

static const struct word SWITCHES[] = {{"off", 0}, {"on", 1}, {"no", 0}, {"yes", 1}, {NULL, 0}};
static const struct word COMPUTE_MODES[] = {
    {"default", 0}, {"exclusive-thread", 1}, {"prohibited", 2}, {"exclusive-process", 3}, {NULL, 0}};
static const struct word ADDRESSING[] = {{"none", 0}, {"HMM", 1}, {"ATS", 2}, {NULL, 0}};
static const struct word RECOVERY[] = {{"none", 0},      {"gpu-reset", 1},       {"node-reboot", 2},
                                       {"drain-p2p", 3}, {"drain-and-reset", 4}, {NULL, 0}};
static const struct word ARCHITECTURES[] = {
    {"kepler", 2}, {"maxwell", 3}, {"pascal", 4}, {"volta", 5},      {"turing", 6},
    {"ampere", 7}, {"ada", 8},     {"hopper", 9}, {"blackwell", 10}, {NULL, 0}};
static const struct word BRANDS[] = {{"quadro", 1}, {"tesla", 2},       {"geforce", 5},
                                     {"titan", 6},  {"nvidia-rtx", 13}, {"nvidia", 14},
                                     {NULL, 0}};
static const struct word THROTTLES[] = {
    {"none", 0x0},         {"idle", 0x1},        {"application-clocks", 0x2},
    {"sw-power-cap", 0x4}, {"hw-slowdown", 0x8}, {"sync-boost", 0x10},
    {"sw-thermal", 0x20},  {"hw-thermal", 0x40}, {"hw-power-brake", 0x80},
    {"display", 0x100},    {NULL, 0}};
static const struct word INITS[] = {
    {"ok", 0},        {"no-permission", 4}, {"no-driver", 9}, {"timeout", 10},
    {"lost", 15},     {"blocked", 17},      {"mismatch", 18}, {"out-of-memory", 20},
    {"unknown", 999}, {NULL, 0}};
static const struct word ERRORS[] = {
    {"uninitialized", 1},     {"invalid-argument", 2}, {"not-supported", 3}, {"no-permission", 4},
    {"not-found", 6},         {"no-driver", 9},        {"timeout", 10},      {"function-not-found", 13},
    {"corrupted-inforom", 14}, {"lost", 15},           {"reset-required", 16}, {"mismatch", 18},
    {"no-data", 21},          {"deprecated", 26},      {"unknown", 999},     {NULL, 0}};
static const struct word PROCESS_KINDS[] = {{"compute", PROCESS_COMPUTE},
                                            {"graphics", PROCESS_GRAPHICS},
                                            {"mps", PROCESS_MPS},
                                            {NULL, 0}};
static const struct word UNITS[] = {{"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
                                    {"TiB", 1ull << 40}, {"W", 1000},         {"mW", 1},
                                    {"%", 1},            {"C", 1},            {"MHz", 1},
                                    {"", 1},             {NULL, 0}};

/* A key of a gpu block. TEXT has a size, CHOICE is one of `choices`, SET a sum of them. */
enum key_kind { NUMBER, TEXT, CHOICE, SET };

struct key {
    const char *name;
    enum key_kind kind;
    size_t offset, size;
    const struct word *choices;
    const char *fallback; /* where the block does not set the key */
};

#define FIELD(name) offsetof(struct gpu, name), sizeof(((struct gpu *)0)->name)
#define NUM(name, fallback) {#name, NUMBER, FIELD(name), NULL, fallback}
#define TXT(name, fallback) {#name, TEXT, FIELD(name), NULL, fallback}
#define WORD(name, choices, fallback) {#name, CHOICE, FIELD(name), choices, fallback}

static const struct key KEYS[] = {
    TXT(name, "NVIDIA H100 80GB HBM3"),
    TXT(uuid, NULL),
    TXT(pci, NULL),
    TXT(serial, "1650000000001"),
    TXT(vbios, "96.00.99.00.01"),
    NUM(minor, NULL),
    WORD(brand, BRANDS, "nvidia"),
    WORD(architecture, ARCHITECTURES, "hopper"),
    NUM(cores, "16896"),
    NUM(memory_total, "81559MiB"),
    NUM(memory_used, "0"),
    NUM(memory_reserved, "480MiB"),
    NUM(bar1_total, "131072MiB"),
    NUM(bar1_used, "1MiB"),
    NUM(util_gpu, "0"),
    NUM(util_memory, "0"),
    NUM(util_encoder, "0"),
    NUM(util_decoder, "0"),
    NUM(util_jpeg, "0"),
    NUM(util_ofa, "0"),
    NUM(temperature, "30"),
    NUM(temperature_memory, "37"),
    NUM(temperature_shutdown, "92"),
    NUM(temperature_slowdown, "89"),
    NUM(temperature_max, "87"),
    NUM(fan, "n/a"),
    NUM(fans, "0"),
    NUM(power_usage, "70W"),
    NUM(power_limit, "700W"),
    NUM(power_limit_default, "700W"),
    NUM(power_limit_min, "200W"),
    NUM(power_limit_max, "700W"),
    NUM(clock_graphics, "345"),
    NUM(clock_sm, "345"),
    NUM(clock_memory, "2619"),
    NUM(clock_video, "765"),
    NUM(clock_max_graphics, "1980"),
    NUM(clock_max_sm, "1980"),
    NUM(clock_max_memory, "2619"),
    NUM(clock_max_video, "1545"),
    NUM(pstate, "0"),
    {"throttle", SET, FIELD(throttle), THROTTLES, "idle"},
    WORD(ecc, SWITCHES, "on"),
    NUM(ecc_corrected_volatile, "0"),
    NUM(ecc_uncorrected_volatile, "0"),
    NUM(ecc_corrected_aggregate, "0"),
    NUM(ecc_uncorrected_aggregate, "0"),
    NUM(retired_sbe, "n/a"),
    NUM(retired_dbe, "n/a"),
    WORD(retired_pending, SWITCHES, "n/a"),
    NUM(remapped_corrected, "0"),
    NUM(remapped_uncorrected, "0"),
    WORD(remapped_pending, SWITCHES, "no"),
    WORD(remapped_failed, SWITCHES, "no"),
    WORD(recovery, RECOVERY, "none"),
    NUM(pcie_gen, "5"),
    NUM(pcie_gen_max, "5"),
    NUM(pcie_width, "16"),
    NUM(pcie_width_max, "16"),
    NUM(pcie_rx, "0"),
    NUM(pcie_tx, "0"),
    NUM(pcie_replay, "0"),
    NUM(nvlink_links, "n/a"),
    NUM(nvlink_active, "0"),
    NUM(nvlink_rx, "0"),
    NUM(nvlink_tx, "0"),
    WORD(persistence, SWITCHES, "on"),
    WORD(compute_mode, COMPUTE_MODES, "default"),
    WORD(display_mode, SWITCHES, "off"),
    WORD(display_active, SWITCHES, "off"),
    WORD(mig, SWITCHES, "off"),
    WORD(addressing, ADDRESSING, "none"),
    NUM(energy, "1000000"),
};
enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] };

static bool find_choice(const struct word *choices, const char *text, uint64_t *value)
{
    for (; choices->text != NULL; choices++) {
        if (strcmp(choices->text, text) == 0) {
            *value = choices->value;
            return true;
        }
    }
    return false;
}

/* "12", "-3", "0x1f", "80GiB", "1.5GiB", "70W" */
static bool parse_amount(const char *text, uint64_t *value)
{
    char *end;
    uint64_t unit;
    errno = 0;
    uint64_t whole = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end == text || errno != 0)
        return false;
    double fraction = 0;
    if (*end == '.')
        fraction = strtod(end, &end);
    if (!find_choice(UNITS, end, &unit))
        return false;
    *value = whole * unit + (uint64_t)(fraction * (double)unit + 0.5);
    return true;
}

static bool parse_number(const char *text, struct number *number)
{
    if (strcmp(text, "n/a") == 0) {
        *number = (struct number){false, 0};
        return true;
    }
    number->known = true;
    return parse_amount(text[0] == 'P' ? text + 1 : text, &number->value); /* P8 is pstate 8 */
}

static bool parse_choice(const struct word *choices, const char *text, struct number *number)
{
    if (strcmp(text, "n/a") == 0 || !find_choice(choices, text, &number->value))
        return parse_number(text, number);
    number->known = true;
    return true;
}

static bool parse_set(const struct word *choices, char *text, struct number *number)
{
    struct number one = {false, 0};
    uint64_t sum = 0;
    for (char *at = NULL, *part = strtok_r(text, " ,", &at); part; part = strtok_r(NULL, " ,", &at)) {
        if (!parse_choice(choices, part, &one))
            return false;
        sum |= one.value;
    }
    *number = (struct number){one.known, sum};
    return true;
}

static bool copy_text(char *to, size_t size, const char *from)
{
    return (size_t)snprintf(to, size, "%s", from) < size;
}

static bool set_key(struct gpu *gpu, const struct key *key, const char *text)
{
    char copy[256];
    void *field = (char *)gpu + key->offset;
    switch (key->kind) {
    case TEXT:
        return copy_text(field, key->size, text);
    case CHOICE:
        return parse_choice(key->choices, text, field);
    case SET:
        return copy_text(copy, sizeof copy, text) && parse_set(key->choices, copy, field);
    default:
        return parse_number(text, field);
    }
}

static bool parse_capability(struct gpu *gpu, const char *text)
{
    unsigned major, minor;
    if (sscanf(text, "%u.%u", &major, &minor) != 2)
        return false;
    gpu->capability_major = (struct number){true, major};
    gpu->capability_minor = (struct number){true, minor};
    return true;
}

/* CALL WHAT, where WHAT is an error's name, slow=MS, never or value=N */
static bool parse_fault(struct faults *faults, const char *text)
{
    char what[64];
    if (faults->count == MAX_FAULTS)
        return false;
    struct fault *fault = &faults->list[faults->count];
    if (sscanf(text, "%63s %63s", fault->call, what) != 2)
        return false;
    faults->count++;
    fault->kind = FAULT_ERROR;
    if (strcmp(what, "never") == 0)
        fault->kind = FAULT_NEVER;
    else if (strncmp(what, "slow=", 5) == 0)
        fault->kind = FAULT_SLOW;
    else if (strncmp(what, "value=", 6) == 0)
        fault->kind = FAULT_VALUE;
    else
        return find_choice(ERRORS, what, &fault->argument) || parse_amount(what, &fault->argument);
    return fault->kind == FAULT_NEVER || parse_amount(strchr(what, '=') + 1, &fault->argument);
}

/* PID KIND BYTES [sm=N mem=N enc=N dec=N gi=N ci=N] [name=REST OF THE LINE] */
static bool parse_process(struct gpu *gpu, char *text)
{
    if (gpu->process_count == MAX_PROCESSES)
        return false;
    struct process *process = &gpu->processes[gpu->process_count];
    char kind[16], memory[32];
    int read = 0;
    uint64_t code;
    if (sscanf(text, "%u %15s %31s %n", &process->pid, kind, memory, &read) != 3 ||
        !find_choice(PROCESS_KINDS, kind, &code) || !parse_number(memory, &process->memory))
        return false;
    process->kind = (enum process_kind)code;
    gpu->process_count++;
    char *rest = text + read, *name = strstr(rest, "name=");
    if (name != NULL) {
        snprintf(process->name, sizeof process->name, "%s", name + 5);
        *name = '\0';
    }
    const struct { const char *name; struct number *to; } options[] = {
        {"sm=", &process->sm},   {"mem=", &process->mem}, {"enc=", &process->enc},
        {"dec=", &process->dec}, {"gi=", &process->gi},   {"ci=", &process->ci}};
    for (char *at = NULL, *part = strtok_r(rest, " ", &at); part; part = strtok_r(NULL, " ", &at)) {
        bool found = false;
        for (size_t i = 0; i < sizeof options / sizeof options[0] && !found; i++) {
            size_t length = strlen(options[i].name);
            found = strncmp(part, options[i].name, length) == 0 &&
                    parse_number(part + length, options[i].to);
        }
        if (!found)
            return false;
    }
    return true;
}

static bool parse_instance_option(struct instance *instance, const char *name, const char *value)
{
    const struct { const char *name; uint32_t *to; } counts[] = {
        {"gi", &instance->gi},
        {"ci", &instance->ci},
        {"slices", &instance->slices},
        {"compute_slices", &instance->compute_slices},
        {"multiprocessors", &instance->multiprocessors}};
    if (strcmp(name, "uuid") == 0)
        return copy_text(instance->uuid, sizeof instance->uuid, value);
    if (strcmp(name, "memory_total") == 0)
        return parse_number(value, &instance->memory_total);
    if (strcmp(name, "memory_used") == 0)
        return parse_number(value, &instance->memory_used);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t amount;
        if (strcmp(name, counts[i].name) == 0 && parse_amount(value, &amount)) {
            *counts[i].to = (uint32_t)amount;
            return true;
        }
    }
    return false;
}

/* PROFILE gi=N ci=N uuid=MIG-... memory_total=B memory_used=B slices=N ... */
static bool parse_instance(struct gpu *gpu, char *text)
{
    if (gpu->instance_count == MAX_INSTANCES)
        return false;
    int number = gpu->instance_count++;
    struct instance *instance = &gpu->instances[number];
    char *at = NULL, *profile = strtok_r(text, " ", &at);
    unsigned slices = 1;
    if (profile == NULL || !copy_text(instance->profile, sizeof instance->profile, profile))
        return false;
    sscanf(profile, "%ug.", &slices);
    *instance = (struct instance){.gi = (uint32_t)number + 1, .slices = slices,
                                  .compute_slices = slices, .multiprocessors = 16 * slices,
                                  .memory_total = {true, (uint64_t)slices * 9984 << 20},
                                  .memory_used = {true, 0}};
    copy_text(instance->profile, sizeof instance->profile, profile);
    for (char *part = strtok_r(NULL, " ", &at); part; part = strtok_r(NULL, " ", &at)) {
        char *equals = strchr(part, '=');
        if (equals == NULL)
            return false;
        *equals = '\0';
        if (!parse_instance_option(instance, part, equals + 1))
            return false;
    }
    return true;
}

static bool start_gpu(struct scenario *scenario)
{
    if (scenario->gpu_count == MAX_GPUS)
        return false;
    unsigned index = (unsigned)scenario->gpu_count++;
    struct gpu *gpu = &scenario->gpus[index];
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (KEYS[i].fallback != NULL && !set_key(gpu, &KEYS[i], KEYS[i].fallback))
            return false;
    }
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-4000-8000-%012x", index);
    snprintf(gpu->pci, sizeof gpu->pci, "00000000:%02X:00.0", 0x10 + index);
    gpu->minor = (struct number){true, index};
    return parse_capability(gpu, "9.0");
}

static bool parse_gpu_line(struct gpu *gpu, const char *name, char *value)
{
    if (strcmp(name, "process") == 0)
        return parse_process(gpu, value);
    if (strcmp(name, "instance") == 0)
        return parse_instance(gpu, value);
    if (strcmp(name, "fault") == 0)
        return parse_fault(&gpu->faults, value);
    if (strcmp(name, "compute_capability") == 0)
        return parse_capability(gpu, value);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(name, KEYS[i].name) == 0)
            return set_key(gpu, &KEYS[i], value);
    }
    return false;
}

static bool parse_init(struct scenario *scenario, const char *value)
{
    uint64_t code;
    if (!find_choice(INITS, value, &code) && !parse_amount(value, &code))
        return false;
    scenario->init = (uint32_t)code;
    return true;
}

static bool parse_top_line(struct scenario *scenario, const char *name, char *value)
{
    if (strcmp(name, "driver") == 0)
        return copy_text(scenario->driver, sizeof scenario->driver, value);
    if (strcmp(name, "cuda") == 0)
        return copy_text(scenario->cuda, sizeof scenario->cuda, value);
    if (strcmp(name, "init") == 0)
        return parse_init(scenario, value);
    if (strcmp(name, "fault") == 0)
        return parse_fault(&scenario->faults, value);
    if (strcmp(name, "quirk") == 0 && strcmp(value, "wide-v3") == 0)
        return scenario->wide_v3 = true;
    return false;
}

/* Trim whitespace; a line that is only a comment becomes empty. */
static char *trim(char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    char *end = line + strlen(line);
    while (end > line && isspace((unsigned char)end[-1]))
        *--end = '\0';
    if (*line == '#')
        *line = '\0';
    return line;
}

static bool parse_line(struct scenario *scenario, char *line)
{
    char *name = trim(line), *value = name;
    if (*name == '\0')
        return true;
    while (*value != '\0' && !isspace((unsigned char)*value))
        value++;
    if (*value != '\0') {
        *value++ = '\0';
        value = trim(value);
    }
    if (strcmp(name, "gpu") == 0)
        return start_gpu(scenario);
    if (scenario->gpu_count == 0)
        return parse_top_line(scenario, name, value);
    return parse_gpu_line(&scenario->gpus[scenario->gpu_count - 1], name, value);
}

static void name_instances(struct scenario *scenario)
{
    for (int g = 0; g < scenario->gpu_count; g++) {
        for (int i = 0; i < scenario->gpus[g].instance_count; i++) {
            struct instance *instance = &scenario->gpus[g].instances[i];
            if (instance->uuid[0] == '\0')
                snprintf(instance->uuid, sizeof instance->uuid,
                         "MIG-00000000-0000-5000-8000-%08x%04x", (unsigned)g, (unsigned)i);
        }
    }
}

struct scenario *scenario_load(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "simulated driver: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    struct scenario *scenario = calloc(1, sizeof *scenario);
    scenario->gpus = calloc(MAX_GPUS, sizeof *scenario->gpus);
    snprintf(scenario->driver, sizeof scenario->driver, "590.48.01");
    snprintf(scenario->cuda, sizeof scenario->cuda, "13.1");
    char line[4096], shown[4096];
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        snprintf(shown, sizeof shown, "%s", line);
        if (!parse_line(scenario, line)) {
            fprintf(stderr, "simulated driver: %s:%d: cannot understand: %s\n", path, number,
                    trim(shown));
            scenario_free(scenario);
            fclose(file);
            return NULL;
        }
    }
    fclose(file);
    name_instances(scenario);
    return scenario;
}

void scenario_free(struct scenario *scenario)
{
    if (scenario != NULL)
        free(scenario->gpus);
    free(scenario);
}

int scenario_branch(const struct scenario *scenario)
{
    return atoi(scenario->driver);
}
