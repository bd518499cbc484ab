/* The table that plain nvidia-smi prints, in the layouts of three generations. */
#include "smi.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Widths of one generation's table. */
struct layout {
    int name, memory_cell; /* columns of the first and second cell */
    int title, version;    /* padding in the title line */
    int pid, process, mig_cell;
    bool has_mig; /* a third line for each GPU */
};

/* 535 and later; 450 to 530; before 450. */
static const struct layout WIDE = {.name = 41, .memory_cell = 24, .title = 23, .version = 15,
                                   .pid = 16, .process = 35, .mig_cell = 34, .has_mig = true};
static const struct layout NARROW = {.name = 31, .memory_cell = 22, .title = 13, .version = 13,
                                     .pid = 10, .process = 29, .mig_cell = 22, .has_mig = true};
static const struct layout OLDEST = {.name = 31, .memory_cell = 22, .title = 13, .version = 13,
                                     .pid = 10, .process = 40, .mig_cell = 22, .has_mig = false};
enum { LAST_CELL = 22 };

static void repeat(char c, int times)
{
    while (times-- > 0)
        putchar(c);
}

static int inner_width(const struct layout *as)
{
    return as->name + as->memory_cell + LAST_CELL + 2;
}

/* `edges` are the first and the last character. */
static void rule(const struct layout *as, const char *edges, char fill, bool cells)
{
    putchar(edges[0]);
    repeat(fill, as->name);
    putchar(cells ? '+' : fill);
    repeat(fill, as->memory_cell);
    putchar(cells ? '+' : fill);
    repeat(fill, LAST_CELL);
    printf("%c\n", edges[1]);
}

static void print_title(const struct layout *as)
{
    char driver[64] = "", now[64];
    int cuda = 0;
    time_t seconds = time(NULL);
    struct tm local;
    strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &local));
    printf("%s       \n", now);
    nvmlSystemGetDriverVersion(driver, sizeof driver);
    rule(as, "++", '-', false);
    printf("| NVIDIA-SMI %-*sDriver Version: %-*s", as->title, driver, as->version, driver);
    if (nvmlSystemGetCudaDriverVersion(&cuda) == NVML_SUCCESS)
        printf("CUDA Version: %2d.%-6d|\n", cuda / 1000, cuda % 1000 / 10);
    else
        printf("%-23s|\n", "");
    rule(as, as == &WIDE ? "++" : "|+", '-', true);
}

static void print_heading(const struct layout *as)
{
    bool wide = as == &WIDE;
    printf("| GPU  Name%*sPersistence-M%s| Bus-Id%*sDisp.A | Volatile Uncorr. ECC |\n",
           wide ? 17 : 8, "", wide ? " " : "", wide ? 10 : 8, "");
    printf("| Fan  Temp  %sPerf  %sPwr:Usage/Cap%s|%*sMemory-Usage | GPU-Util  Compute M. |\n",
           wide ? " " : "", wide ? "        " : "", wide ? " " : "", wide ? 11 : 9, "");
    if (as->has_mig)
        printf("|%*s|%*s|               MIG M. |\n", as->name, "", as->memory_cell, "");
    rule(as, "||", '=', true);
}

/* Truncate at the end, or at the front if the end is more specific. */
static void shorten(char *to, int width, const char *from, bool keep_end)
{
    int length = (int)strlen(from);
    if (length <= width)
        sprintf(to, "%s", from);
    else if (keep_end)
        sprintf(to, "...%s", from + length - width + 3);
    else
        sprintf(to, "%.*s...", width - 3, from);
}

/* A number with its unit, N/A, or the table's text for a failed reading. */
static const char *short_form(const struct cell *cell, const char *unit, char *text, size_t size)
{
    bool absent = cell->status == NVML_ERROR_NOT_SUPPORTED ||
                  cell->status == NVML_ERROR_FUNCTION_NOT_FOUND;
    if (cell->status == NVML_SUCCESS)
        snprintf(text, size, "%s%s", cell->text, unit);
    else
        snprintf(text, size, "%s", absent ? "N/A" : "ERR!");
    return text;
}

static const char *show(const char *name, const char *unit, const struct selection *all,
                        const struct shown_gpu *gpu, char *text, size_t size)
{
    struct cell cell = read_named(name, all, gpu);
    return short_form(&cell, unit, text, size);
}

static const char *show_watts(const char *name, const struct selection *all,
                              const struct shown_gpu *gpu, char *text, size_t size)
{
    struct cell cell = read_named(name, all, gpu);
    if (cell.status == NVML_SUCCESS)
        snprintf(cell.text, sizeof cell.text, "%llu", cell_number(&cell));
    return short_form(&cell, "W", text, size);
}

/* nvidia-smi prints a missing limit one column to the left of a number. */
static const char *pad_absent(const char *text)
{
    return strcmp(text, "N/A") == 0 ? "N/A " : text;
}

static const char *show_mode(const struct selection *all, const struct shown_gpu *gpu, char *text,
                             size_t size)
{
    show("compute_mode", "", all, gpu, text, size);
    if (strcmp(text, "Exclusive_Process") == 0)
        snprintf(text, size, "E. Process");
    return text;
}

static const char *show_errors(const struct selection *all, const struct shown_gpu *gpu,
                               char *text, size_t size)
{
    struct cell mig = read_named("mig.mode.current", all, gpu);
    if (mig.status == NVML_SUCCESS && strcmp(mig.text, "Enabled") == 0)
        snprintf(text, size, "On"); /* counted for each instance */
    else
        show("ecc.errors.uncorrected.volatile.total", "", all, gpu, text, size);
    return text;
}

static const char *on_off(const char *name, const struct selection *all,
                          const struct shown_gpu *gpu)
{
    struct cell cell = read_named(name, all, gpu);
    if (cell.status != NVML_SUCCESS)
        return cell.status == NVML_ERROR_NOT_SUPPORTED ? "N/A" : "ERR!";
    return strcmp(cell.text, "Enabled") == 0 ? "On" : "Off";
}

static void print_memory(const struct layout *as, const struct selection *all,
                         const struct shown_gpu *gpu)
{
    struct cell used = read_named("memory.used", all, gpu);
    struct cell total = read_named("memory.total", all, gpu);
    bool wide = as == &WIDE;
    if (used.status == NVML_SUCCESS)
        printf("| %*lluMiB / %*lluMiB ", wide ? 7 : 6, cell_number(&used), wide ? 6 : 5,
               cell_number(&total));
    else
        printf("| %-*s", as->memory_cell - 1,
               used.status == NVML_ERROR_NOT_SUPPORTED ? "Not Supported"
                                                       : nvmlErrorString(used.status));
}

static void print_gpu(const struct layout *as, const struct selection *all,
                      const struct shown_gpu *gpu)
{
    char a[300], b[300], c[300], d[300], e[300], name[64];
    bool wide = as == &WIDE;
    shorten(name, wide ? 27 : 18, show("name", "", all, gpu, a, sizeof a), false);
    printf("|%4u  %-*s%-*s|", gpu->index, wide ? 31 : 20, name, wide ? 4 : 5,
           on_off("persistence_mode", all, gpu));
    printf("%s%16s %3s |%21s |\n", wide ? "   " : " ",
           show("pci.bus_id", "", all, gpu, b, sizeof b), on_off("display_active", all, gpu),
           show_errors(all, gpu, c, sizeof c));
    printf("|%4s%6s%6s%*s / %*s ", show("fan.speed", "%", all, gpu, a, sizeof a),
           show("temperature.gpu", "C", all, gpu, b, sizeof b),
           show("pstate", "", all, gpu, c, sizeof c), wide ? 16 : 7,
           show_watts("power.draw", all, gpu, d, sizeof d), wide ? 5 : 4,
           pad_absent(show_watts("power.limit", all, gpu, e, sizeof e)));
    print_memory(as, all, gpu);
    printf("|%8s%13s |\n", show("utilization.gpu", "%", all, gpu, a, sizeof a),
           show_mode(all, gpu, b, sizeof b));
    if (as->has_mig)
        printf("|%*s|%*s|%21s |\n", as->name, "", as->memory_cell, "",
               show("mig.mode.current", "", all, gpu, a, sizeof a));
    rule(as, "++", '-', true);
}

/* --- MIG devices --- */

static void mig_rule(const struct layout *as, char edge, char fill)
{
    const int cells[] = {18, as->mig_cell, 11, 23};
    for (int i = 0; i < 4; i++) {
        putchar(i == 0 ? edge : '+');
        repeat(fill, cells[i]);
    }
    printf("%c\n", edge);
}

static void print_mig_heading(const struct layout *as)
{
    const char *shared = as == &WIDE ? "Shared " : "";
    printf("\n");
    rule(as, "++", '-', false);
    printf("| %-*s|\n", inner_width(as) - 1, "MIG devices:");
    mig_rule(as, '+', '-');
    printf("| GPU  GI  CI  MIG |%*sMemory-Usage |        Vol|        Shared         |\n",
           as->mig_cell - 13, shared);
    printf("|      ID  ID  Dev |%*sBAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n",
           as->mig_cell - 11, shared);
    printf("|                  |%*s|        ECC|                       |\n", as->mig_cell, "");
    mig_rule(as, '|', '=');
}

static void print_mig_device(const struct layout *as, unsigned gpu, int place,
                             const struct mig_device *mig)
{
    int pad = as == &WIDE ? 3 : 0;
    const nvmlDeviceAttributes_t *has = &mig->attributes;
    printf("|%3u%5u%4u%4d  |%*lluMiB / %5lluMiB %*s|%3u      0 |%3u%4u%5u%5u%5u |\n", gpu, mig->gi,
           mig->ci, place, as->mig_cell - 15 - pad, mig->memory.used >> 20,
           mig->memory.total >> 20, pad, "", has->multiprocessorCount, has->sharedCopyEngineCount,
           has->sharedEncoderCount, has->sharedDecoderCount, has->sharedOfaCount,
           has->sharedJpegCount);
    printf("|                  |%*dMiB / %5dMiB %*s|           |                       |\n",
           as->mig_cell - 15 - pad, 0, 0, pad, "");
    mig_rule(as, '+', '-');
}

static void print_mig_devices(const struct layout *as, const struct selection *all)
{
    struct mig_device list[NVML_MAX_MIG_DEVICES];
    bool headed = false;
    for (int g = 0; g < all->count; g++) {
        int count = read_mig_devices(all->gpus[g].device, list, NVML_MAX_MIG_DEVICES);
        for (int i = 0; i < count; i++) {
            if (!headed)
                print_mig_heading(as);
            headed = true;
            print_mig_device(as, all->gpus[g].index, i, &list[i]);
        }
    }
}

/* --- processes --- */

static void print_process_heading(const struct layout *as)
{
    bool wide = as == &WIDE;
    printf("%*s\n", wide ? 0 : inner_width(as) + 2, "");
    rule(as, "++", '-', false);
    if (as->has_mig) {
        printf("| %-*s|\n", inner_width(as) - 1, "Processes:");
        printf("|  GPU   GI   CI %*s   Type   Process name%*sGPU Memory |\n", as->pid, "PID",
               as->process - 11, "");
        printf("|        ID   ID %*sUsage      |\n", inner_width(as) - 27, "");
    } else {
        printf("| Processes:%*sGPU Memory |\n", inner_width(as) - 22, "");
        printf("|  GPU       PID   Type   Process name%*sUsage      |\n", inner_width(as) - 48, "");
    }
    rule(as, "||", '=', false);
}

static const char *instance_id(unsigned id, char *text, size_t size)
{
    if (id == (unsigned)NVML_NO_INSTANCE)
        return "N/A";
    snprintf(text, size, "%u ", id);
    return text;
}

static void print_process(const struct layout *as, unsigned gpu,
                          const struct shown_process *process)
{
    char name[1024], shown[128], memory[32] = "N/A", gi[16], ci[16];
    process_name(process->pid, name, sizeof name);
    shorten(shown, as->process - 1, name, true);
    if (process->memory != NVML_NOT_AVAILABLE)
        snprintf(memory, sizeof memory, "%lluMiB", process->memory >> 20);
    printf("|%5u", gpu);
    if (as->has_mig)
        printf("%6s%5s", instance_id(process->gi, gi, sizeof gi),
               instance_id(process->ci, ci, sizeof ci));
    printf("%*u%7s   %-*s%*s |\n", as->pid, process->pid, process_type(process), as->process,
           shown, 11, memory);
}

static void print_processes(const struct layout *as, const struct selection *all)
{
    static struct process_list processes;
    int shown = 0;
    print_process_heading(as);
    for (int g = 0; g < all->count; g++) {
        read_processes(all->gpus[g].device, all->branch, &processes);
        for (int i = 0; i < processes.count; i++, shown++)
            print_process(as, all->gpus[g].index, &processes.list[i]);
    }
    if (shown == 0)
        printf("|  %-*s|\n", inner_width(as) - 2, "No running processes found");
    rule(as, "++", '-', false);
}

int print_table(const struct selection *all)
{
    const struct layout *as = all->branch >= 535 ? &WIDE : all->branch >= 450 ? &NARROW : &OLDEST;
    print_title(as);
    print_heading(as);
    for (int g = 0; g < all->count; g++)
        print_gpu(as, all, &all->gpus[g]);
    print_mig_devices(as, all);
    print_processes(as, all);
    return 0;
}
