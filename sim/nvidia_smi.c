/* The simulated nvidia-smi: arguments, failures, -L. It reads everything through NVML calls. */
#include "driver.h"
#include "smi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { EXIT_BAD_ARGUMENT = 2, EXIT_NO_DEVICES = 6 };

struct arguments {
    bool list, query, xml;
    const char *fields, *process_fields, *format, *id;
};

static int fail_to_start(nvmlReturn_t status)
{
    char version[32];
    driver_version(version, sizeof version);
    if (status == NVML_ERROR_DRIVER_NOT_LOADED) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
               "Make sure that the latest NVIDIA driver is installed and running.\n\n");
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    printf("Failed to initialize NVML: %s\n", nvmlErrorString(status));
    if (status == NVML_ERROR_LIB_RM_VERSION_MISMATCH && driver_branch() >= 535) {
        char *second = strchr(version, '.');
        char *third = second != NULL ? strchr(second + 1, '.') : NULL;
        if (third != NULL)
            *third = '\0';
        printf("NVML library version: %s\n", version);
    }
    return status < 255 ? (int)status : 255;
}

static int fail_to_find(unsigned index, nvmlReturn_t status)
{
    char address[32];
    driver_address(index, address, sizeof address);
    const char *shown = strlen(address) > 12 ? address + 4 : address; /* with a PCI domain of 4 digits */
    const char *advice =
        status == NVML_ERROR_GPU_IS_LOST ? ".  Reboot the system to recover this GPU" : "";
    printf("Unable to determine the device handle for GPU %s: %s%s\n", shown,
           nvmlErrorString(status), advice);
    return status < 255 ? (int)status : 255;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Match an argument of -i: an index, a UUID or a PCI address. */
static bool is_named(const char *id, const struct shown_gpu *gpu)
{
    char uuid[96] = "";
    nvmlPciInfo_t pci = {.domain = 0};
    if (is_number(id))
        return (unsigned)atoi(id) == gpu->index;
    if (gpu->device == NULL)
        return false;
    nvmlDeviceGetUUID(gpu->device, uuid, sizeof uuid);
    nvmlDeviceGetPciInfo_v3(gpu->device, &pci);
    return strcmp(uuid, id) == 0 || strcasecmp(pci.busId, id) == 0 ||
           strcasecmp(pci.busIdLegacy, id) == 0;
}

/* A GPU that failed to open has no handle, hence no UUID or address: only its index selects it. */
static bool wanted(const char *ids, const struct shown_gpu *gpu)
{
    char copy[1024], *at = NULL;
    if (ids == NULL)
        return true;
    snprintf(copy, sizeof copy, "%s", ids);
    for (char *id = strtok_r(copy, ",", &at); id != NULL; id = strtok_r(NULL, ",", &at)) {
        if (is_named(id, gpu))
            return true;
    }
    return false;
}

static int select_gpus(const char *ids, struct selection *all)
{
    *all = (struct selection){.branch = driver_branch()};
    bool only_numbers = ids != NULL && strspn(ids, "0123456789,") == strlen(ids);
    nvmlReturn_t status = nvmlDeviceGetCount_v2(&all->total);
    if (status != NVML_SUCCESS)
        return fail_to_start(status);
    for (unsigned index = 0; index < all->total && index < MAX_SHOWN; index++) {
        struct shown_gpu gpu = {.index = index};
        if (only_numbers && !wanted(ids, &gpu))
            continue;
        status = nvmlDeviceGetHandleByIndex_v2(index, &gpu.device);
        if (status != NVML_SUCCESS)
            return fail_to_find(index, status);
        if (wanted(ids, &gpu))
            all->gpus[all->count++] = gpu;
    }
    if (all->count == 0) {
        printf("No devices were found\n");
        return EXIT_NO_DEVICES;
    }
    return 0;
}

static int print_list(const struct selection *all)
{
    struct mig_device instances[NVML_MAX_MIG_DEVICES];
    for (int g = 0; g < all->count; g++) {
        struct cell name = read_named("name", all, &all->gpus[g]);
        struct cell uuid = read_named("uuid", all, &all->gpus[g]);
        if (name.status != NVML_SUCCESS || uuid.status != NVML_SUCCESS)
            return fail_to_find(all->gpus[g].index,
                                name.status != NVML_SUCCESS ? name.status : uuid.status);
        printf("GPU %u: %s (UUID: %s)\n", all->gpus[g].index, name.text, uuid.text);
        int count = read_mig_devices(all->gpus[g].device, instances, NVML_MAX_MIG_DEVICES);
        for (int i = 0; i < count; i++)
            printf("  MIG %-11s Device %2d: (UUID: %s)\n", instances[i].profile, i,
                   instances[i].uuid);
    }
    return 0;
}

int read_mig_devices(nvmlDevice_t device, struct mig_device *list, int room)
{
    unsigned now = 0, pending = 0;
    int count = 0;
    if (nvmlDeviceGetMigMode(device, &now, &pending) != NVML_SUCCESS || now == 0)
        return 0;
    for (unsigned i = 0; i < NVML_MAX_MIG_DEVICES && count < room; i++) {
        struct mig_device *mig = &list[count];
        char name[192] = "";
        memset(mig, 0, sizeof *mig);
        if (nvmlDeviceGetMigDeviceHandleByIndex(device, i, &mig->device) != NVML_SUCCESS)
            continue;
        nvmlDeviceGetUUID(mig->device, mig->uuid, sizeof mig->uuid);
        nvmlDeviceGetName(mig->device, name, sizeof name);
        const char *profile = strstr(name, "MIG ");
        snprintf(mig->profile, sizeof mig->profile, "%.60s", profile != NULL ? profile + 4 : name);
        nvmlDeviceGetGpuInstanceId(mig->device, &mig->gi);
        nvmlDeviceGetComputeInstanceId(mig->device, &mig->ci);
        nvmlDeviceGetMemoryInfo(mig->device, &mig->memory);
        nvmlDeviceGetAttributes_v2(mig->device, &mig->attributes);
        count++;
    }
    return count;
}

/* --- processes --- */

static struct shown_process *find_process(struct process_list *all, const nvmlProcessInfo_v2_t *of)
{
    for (int i = 0; i < all->count; i++) {
        if (all->list[i].pid == of->pid && all->list[i].gi == of->gpuInstanceId)
            return &all->list[i];
    }
    if (all->count == MAX_SHOWN_PROCESSES)
        return NULL;
    struct shown_process *process = &all->list[all->count++];
    *process = (struct shown_process){.pid = of->pid, .memory = of->usedGpuMemory,
                                      .gi = of->gpuInstanceId, .ci = of->computeInstanceId};
    return process;
}

typedef nvmlReturn_t (*lister)(nvmlDevice_t device, unsigned *count, void *list);

/* List the processes of one kind, by the oldest version of the call if the driver has no other. */
static nvmlReturn_t list_kind(nvmlDevice_t device, lister old, lister fresh,
                              nvmlProcessInfo_v2_t *list, unsigned *count)
{
    static nvmlProcessInfo_v1_t oldest[MAX_SHOWN_PROCESSES];
    *count = MAX_SHOWN_PROCESSES;
    nvmlReturn_t status = fresh(device, count, list);
    if (status != NVML_ERROR_FUNCTION_NOT_FOUND)
        return status;
    *count = MAX_SHOWN_PROCESSES;
    status = old(device, count, oldest);
    for (unsigned i = 0; status == NVML_SUCCESS && i < *count; i++)
        list[i] = (nvmlProcessInfo_v2_t){oldest[i].pid, oldest[i].usedGpuMemory,
                                         (unsigned)NVML_NO_INSTANCE, (unsigned)NVML_NO_INSTANCE};
    return status;
}

void read_processes(nvmlDevice_t device, int branch, struct process_list *processes)
{
    static nvmlProcessInfo_v2_t list[MAX_SHOWN_PROCESSES];
    static const lister calls[3][2] = {
        {nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetComputeRunningProcesses_v2},
        {nvmlDeviceGetGraphicsRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v2},
        {nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetMPSComputeRunningProcesses_v2}};
    processes->count = 0;
    processes->status = NVML_SUCCESS;
    for (int kind = 0; kind < (branch >= 450 ? 3 : 2); kind++) {
        unsigned count = 0;
        nvmlReturn_t status = list_kind(device, calls[kind][0], calls[kind][1], list, &count);
        if (status != NVML_SUCCESS)
            processes->status = status;
        for (unsigned i = 0; status == NVML_SUCCESS && i < count; i++) {
            struct shown_process *process = find_process(processes, &list[i]);
            if (process != NULL)
                *(kind == 0 ? &process->compute : kind == 1 ? &process->graphics : &process->mps) =
                    true;
        }
    }
}

const char *process_type(const struct shown_process *process)
{
    if (process->mps)
        return process->graphics ? "M+C+G" : "M+C";
    if (process->compute)
        return process->graphics ? "C+G" : "C";
    return "G";
}

void process_name(unsigned pid, char *name, unsigned size)
{
    nvmlReturn_t status = nvmlSystemGetProcessName(pid, name, size);
    if (status != NVML_SUCCESS)
        snprintf(name, size, "[%s]", nvmlErrorString(status));
}

/* --- arguments --- */

static bool value_of(const char *argument, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=')
        return false;
    *value = argument + length + 1;
    return true;
}

static bool parse_argument(struct arguments *given, const char *argument)
{
    if (strcmp(argument, "-L") == 0 || strcmp(argument, "--list-gpus") == 0)
        return given->list = true;
    if (strcmp(argument, "-q") == 0 || strcmp(argument, "--query") == 0)
        return given->query = true;
    if (strcmp(argument, "-x") == 0 || strcmp(argument, "--xml-format") == 0)
        return given->xml = true;
    return value_of(argument, "--query-gpu", &given->fields) ||
           value_of(argument, "--query-compute-apps", &given->process_fields) ||
           value_of(argument, "--format", &given->format) || value_of(argument, "--id", &given->id);
}

static int bad_argument(const char *argument)
{
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n");
    fprintf(stderr, "simulated nvidia-smi: not understood: %s\n", argument);
    return EXIT_BAD_ARGUMENT;
}

static int show(const struct arguments *given, const struct selection *all)
{
    if (given->list)
        return print_list(all);
    if (given->fields != NULL)
        return print_csv_gpus(all, given->fields, given->format);
    if (given->process_fields != NULL)
        return print_csv_processes(all, given->process_fields, given->format);
    return given->xml ? print_xml(all) : print_table(all);
}

int main(int count, char **arguments)
{
    struct arguments given = {.format = NULL};
    struct selection all;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "-i") == 0 && i + 1 < count)
            given.id = arguments[++i];
        else if (!parse_argument(&given, arguments[i]))
            return bad_argument(arguments[i]);
    }
    bool csv = given.fields != NULL || given.process_fields != NULL;
    if (csv && (given.format == NULL || strncmp(given.format, "csv", 3) != 0))
        return bad_argument("--format must be given, and start with csv");
    if (given.query != given.xml)
        return bad_argument("-q and -x go together here");
    nvmlReturn_t status = nvmlInit_v2();
    if (status != NVML_SUCCESS)
        return fail_to_start(status);
    int code = select_gpus(given.id, &all);
    return code != 0 ? code : show(&given, &all);
}
