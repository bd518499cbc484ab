/* Shared by the parts of the simulated nvidia-smi: formatted readings, process lists. */
#ifndef SIM_SMI_H
#define SIM_SMI_H

#include "nvml.h"

#include <stdbool.h>

enum { MAX_SHOWN = 64, MAX_SHOWN_PROCESSES = 1024 };

struct shown_gpu {
    unsigned index;
    nvmlDevice_t device;
};

struct selection {
    int count;      /* GPUs to show */
    unsigned total; /* GPUs there are */
    int branch;     /* of the driver: 590 */
    struct shown_gpu gpus[MAX_SHOWN];
};

/* Format a reading as nvidia-smi does, without its unit. */
struct cell {
    nvmlReturn_t status;
    char text[256];
};

struct field;
const struct field *find_field(const char *name, int branch);
struct cell read_field(const struct field *field, const struct selection *all,
                       const struct shown_gpu *gpu);
struct cell read_named(const char *name, const struct selection *all, const struct shown_gpu *gpu);
const char *field_name(const struct field *field);
const char *field_unit(const struct field *field, bool xml);
unsigned long long cell_number(const struct cell *cell);

/* A process on one GPU, its types merged: "C", "G", "C+G", "M+C". */
struct shown_process {
    unsigned pid;
    bool compute, graphics, mps;
    unsigned long long memory;
    unsigned gi, ci;
};

struct process_list {
    nvmlReturn_t status;
    int count;
    struct shown_process list[MAX_SHOWN_PROCESSES];
};

void read_processes(nvmlDevice_t device, int branch, struct process_list *processes);
const char *process_type(const struct shown_process *process);
void process_name(unsigned pid, char *name, unsigned size);

struct mig_device {
    nvmlDevice_t device;
    char uuid[96], profile[64];
    unsigned gi, ci;
    nvmlMemory_t memory;
    nvmlDeviceAttributes_t attributes;
};

/* The number of MIG devices; 0 without MIG. */
int read_mig_devices(nvmlDevice_t device, struct mig_device *list, int room);

int print_csv_gpus(const struct selection *all, const char *fields, const char *format);
int print_csv_processes(const struct selection *all, const char *fields, const char *format);
int print_table(const struct selection *all);
int print_xml(const struct selection *all);

#endif
