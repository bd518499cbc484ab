/* The scenario: the machine that the driver simulates. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_GPUS = 64, MAX_PROCESSES = 512, MAX_INSTANCES = 16, MAX_FAULTS = 32 };

/* A reading, or not known: the card does not support it. */
struct number {
    bool known;
    uint64_t value;
};

enum fault_kind { FAULT_NONE, FAULT_ERROR, FAULT_SLOW, FAULT_NEVER, FAULT_VALUE };

struct fault {
    char call[64];
    enum fault_kind kind;
    uint64_t argument; /* error code, milliseconds, or the raw value */
};

struct faults {
    int count;
    struct fault list[MAX_FAULTS];
};

enum process_kind { PROCESS_COMPUTE, PROCESS_GRAPHICS, PROCESS_MPS };

struct process {
    uint32_t pid;
    enum process_kind kind;
    struct number memory;
    struct number sm, mem, enc, dec; /* percent */
    struct number gi, ci;
    char name[256]; /* empty: read from /proc */
};

struct instance {
    char profile[32];
    char uuid[80];
    uint32_t gi, ci, slices, compute_slices, multiprocessors;
    struct number memory_total, memory_used;
};

struct gpu {
    char name[96], uuid[80], pci[32], serial[32], vbios[32];
    struct number minor, brand, architecture, capability_major, capability_minor, cores;
    struct number memory_total, memory_used, memory_reserved, bar1_total, bar1_used;
    struct number util_gpu, util_memory, util_encoder, util_decoder, util_jpeg, util_ofa;
    struct number temperature, temperature_memory;
    struct number temperature_shutdown, temperature_slowdown, temperature_max;
    struct number fan, fans;
    struct number power_usage, power_limit, power_limit_default, power_limit_min, power_limit_max;
    struct number clock_graphics, clock_sm, clock_memory, clock_video;
    struct number clock_max_graphics, clock_max_sm, clock_max_memory, clock_max_video;
    struct number pstate, throttle;
    struct number ecc, ecc_corrected_volatile, ecc_uncorrected_volatile;
    struct number ecc_corrected_aggregate, ecc_uncorrected_aggregate;
    struct number retired_sbe, retired_dbe, retired_pending;
    struct number remapped_corrected, remapped_uncorrected, remapped_pending, remapped_failed;
    struct number recovery;
    struct number pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
    struct number pcie_rx, pcie_tx, pcie_replay;
    struct number nvlink_links, nvlink_active, nvlink_rx, nvlink_tx;
    struct number persistence, compute_mode, display_mode, display_active;
    struct number mig, addressing, energy;
    int process_count;
    struct process processes[MAX_PROCESSES];
    int instance_count;
    struct instance instances[MAX_INSTANCES];
    struct faults faults;
};

struct scenario {
    char driver[32];
    char cuda[16];
    uint32_t init; /* what nvmlInit returns */
    bool wide_v3;  /* the 32-byte process entries of drivers 535.43 to 535.86 */
    struct faults faults;
    int gpu_count;
    struct gpu *gpus;
};

/* Load the file; on failure print one line to stderr and return NULL. */
struct scenario *scenario_load(const char *path);
void scenario_free(struct scenario *scenario);

/* The branch of the driver: 590 for 590.48.01. */
int scenario_branch(const struct scenario *scenario);

#endif
