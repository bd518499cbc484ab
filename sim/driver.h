/* Entry and exit of every NVML function: find the device, inject faults, return values. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "nvml.h"
#include "scenario.h"

/* Which handles a function accepts. */
enum scope {
    WITHOUT_DRIVER, /* needs no driver, initialised or not */
    WITHOUT_DEVICE,
    HANDLE_GETTER, /* returns handles: only `**` and its own name make it fail */
    GPU_ONLY,      /* not supported on the handle of a MIG instance */
    ANY_HANDLE,
};

/* One API call in progress; it holds the driver's lock until driver_leave(). */
struct call {
    nvmlReturn_t status;
    bool locked;
    const struct scenario *scenario;
    const struct gpu *gpu;
    const struct instance *instance; /* NULL unless the handle is a MIG instance */
    bool distorted;                  /* a value=N fault: every number returned is `raw` */
    uint64_t raw;
};

struct call driver_enter(const char *function, int since, enum scope scope, nvmlDevice_t device);
void driver_leave(struct call *call);

/* For functions that return handles: inject the faults of the GPU that was found, then issue its
   handle. driver_enter() cannot do it, because it is not given a device. */
nvmlReturn_t driver_find(struct call *call, const char *function, const struct gpu *gpu,
                         const struct instance *instance, nvmlDevice_t *device);

nvmlReturn_t driver_init(const char *function);
nvmlReturn_t driver_shutdown(void);

/* What nvidia-smi prints even when the driver or a GPU fails. */
int driver_branch(void);
void driver_version(char *text, size_t size);
void driver_address(unsigned index, char *text, size_t size);

/* API(since, name, arguments) { ENTER(name, scope, device); ... }
   build.py reads `since` and `name` to know which driver branch exports what. */
#define API(since, name, ...)        \
    enum { name##_since = (since) }; \
    nvmlReturn_t name(__VA_ARGS__)

#define ENTER(name, scope, device)                               \
    __attribute__((cleanup(driver_leave))) struct call call =    \
        driver_enter(#name, name##_since, scope, device);        \
    if (call.status != NVML_SUCCESS)                             \
        return call.status

nvmlReturn_t put_u32(const struct call *call, unsigned *to, struct number from);
nvmlReturn_t put_u64(const struct call *call, unsigned long long *to, struct number from);
nvmlReturn_t put_text(const struct call *call, char *to, unsigned size, const char *from);

static inline struct number known(uint64_t value)
{
    return (struct number){true, value};
}

#endif
