/* nvidia-smi --query-gpu and --query-compute-apps: readings as CSV. */
#include "smi.h"

#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 128 };

struct format {
    bool header, units;
};

static struct format parse_format(const char *text)
{
    return (struct format){.header = strstr(text, "noheader") == NULL,
                           .units = strstr(text, "nounits") == NULL};
}

/* "[N/A]" where a reading is not supported; before branch 440 it was "[Not Supported]". */
static const char *absent(nvmlReturn_t status, int branch, char *text, size_t size)
{
    bool short_form = status == NVML_ERROR_NOT_SUPPORTED && branch >= 440;
    snprintf(text, size, "[%s]", short_form ? "N/A" : nvmlErrorString(status));
    return text;
}

static void print_cell(const struct cell *cell, const char *unit, int branch, bool first)
{
    char text[300];
    bool good = cell->status == NVML_SUCCESS;
    const char *shown = good ? cell->text : absent(cell->status, branch, text, sizeof text);
    bool with_unit = good && *unit != '\0';
    printf("%s%s%s%s", first ? "" : ", ", shown, with_unit ? " " : "", with_unit ? unit : "");
}

static void print_heading(const char *name, const char *unit, bool first)
{
    printf("%s%s", first ? "" : ", ", name);
    if (*unit != '\0')
        printf(" [%s]", unit);
}

static int unknown_field(const char *name)
{
    printf("Field \"%s\" is not a valid field to query.\n\n", name);
    return 2;
}

static void print_gpu_heading(const struct field *const *columns, int count)
{
    for (int i = 0; i < count; i++)
        print_heading(field_name(columns[i]), field_unit(columns[i], false), i == 0);
    printf("\n");
}

int print_csv_gpus(const struct selection *all, const char *fields, const char *format)
{
    const struct field *columns[MAX_COLUMNS];
    struct format how = parse_format(format);
    char names[8192], *at = NULL;
    int count = 0;
    snprintf(names, sizeof names, "%s", fields);
    for (char *name = strtok_r(names, ", ", &at); name; name = strtok_r(NULL, ", ", &at)) {
        columns[count] = find_field(name, all->branch);
        if (columns[count++] == NULL || count == MAX_COLUMNS)
            return unknown_field(name);
    }
    if (how.header)
        print_gpu_heading(columns, count);
    for (int g = 0; g < all->count; g++) {
        for (int i = 0; i < count; i++) {
            struct cell cell = read_field(columns[i], all, &all->gpus[g]);
            print_cell(&cell, how.units ? field_unit(columns[i], false) : "", all->branch, i == 0);
        }
        printf("\n");
    }
    return 0;
}

/* The columns of --query-compute-apps: name in the query, heading, and the GPU's field if it is one. */
static const char *const PROCESS_COLUMNS[][3] = {
    {"timestamp", "timestamp", "timestamp"},   {"gpu_name", "gpu_name", "name"},
    {"gpu_bus_id", "gpu_bus_id", "pci.bus_id"}, {"gpu_serial", "gpu_serial", "serial"},
    {"gpu_uuid", "gpu_uuid", "uuid"},          {"pid", "pid", NULL},
    {"process_name", "process_name", NULL},    {"name", "process_name", NULL},
    {"used_gpu_memory", "used_gpu_memory", NULL}, {"used_memory", "used_gpu_memory", NULL},
};

static int find_process_column(const char *name)
{
    for (int i = 0; i < (int)(sizeof PROCESS_COLUMNS / sizeof PROCESS_COLUMNS[0]); i++) {
        if (strcmp(name, PROCESS_COLUMNS[i][0]) == 0)
            return i;
    }
    return -1;
}

static struct cell read_process(int column, const struct shown_process *process,
                                const struct selection *all, const struct shown_gpu *gpu)
{
    struct cell cell = {.status = NVML_SUCCESS};
    const char *heading = PROCESS_COLUMNS[column][1];
    if (PROCESS_COLUMNS[column][2] != NULL)
        return read_named(PROCESS_COLUMNS[column][2], all, gpu);
    if (strcmp(heading, "pid") == 0)
        snprintf(cell.text, sizeof cell.text, "%u", process->pid);
    else if (strcmp(heading, "process_name") == 0)
        cell.status = nvmlSystemGetProcessName(process->pid, cell.text, sizeof cell.text);
    else if (process->memory == NVML_NOT_AVAILABLE)
        cell.status = NVML_ERROR_NOT_SUPPORTED;
    else
        snprintf(cell.text, sizeof cell.text, "%llu", process->memory >> 20);
    return cell;
}

static const char *process_unit(int column)
{
    return strcmp(PROCESS_COLUMNS[column][1], "used_gpu_memory") == 0 ? "MiB" : "";
}

int print_csv_processes(const struct selection *all, const char *fields, const char *format)
{
    static struct process_list processes;
    int columns[MAX_COLUMNS], count = 0;
    struct format how = parse_format(format);
    char names[2048], *at = NULL;
    snprintf(names, sizeof names, "%s", fields);
    for (char *name = strtok_r(names, ", ", &at); name; name = strtok_r(NULL, ", ", &at)) {
        columns[count] = find_process_column(name);
        if (columns[count++] < 0 || count == MAX_COLUMNS)
            return unknown_field(name);
    }
    for (int i = 0; how.header && i < count; i++)
        print_heading(PROCESS_COLUMNS[columns[i]][1], process_unit(columns[i]), i == 0);
    printf("%s", how.header ? "\n" : "");
    for (int g = 0; g < all->count; g++) {
        read_processes(all->gpus[g].device, all->branch, &processes);
        for (int p = 0; p < processes.count; p++) {
            const struct shown_process *process = &processes.list[p];
            if (!process->compute && !process->mps)
                continue;
            for (int i = 0; i < count; i++) {
                struct cell cell = read_process(columns[i], process, all, &all->gpus[g]);
                const char *unit = how.units ? process_unit(columns[i]) : "";
                print_cell(&cell, unit, all->branch, i == 0);
            }
            printf("\n");
        }
    }
    return 0;
}
