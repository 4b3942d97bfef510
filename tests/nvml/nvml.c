/*
 * A stand-in for NVIDIA's management library, for machines without a GPU: it says what the scenario says.
 *
 * Only what monitors ask is here; what is missing is looked up in vain by nvidia-ml-py, which then reports "function not
 * found" as with an old driver.  The layouts are those of nvidia-ml-py's public ctypes structures.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "contexts.h"
#include "scenario.h"

#define NO_INSTANCE 0xFFFFFFFFu
#define SAMPLES 100 /* what the driver says it needs room for, however many there are */
#define FIELD_RECOVERY 230
#define EVENT_XID 8

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10,
};

/* A device or one of its instances; the pointers stay the same when the scenario changes. */
typedef struct { unsigned index; int instance; } Slot;
typedef Slot *Device;

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { Number total, free, used; } Memory;
typedef struct { unsigned version; Number total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; Number used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { Process plain; Number protected; } WideProcess;
typedef struct { unsigned pid; Number time; unsigned sm, memory, encoder, decoder; } Sample;
typedef struct { unsigned version; int sensor, celsius; } Temperature;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { Device device; Number type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct {
    unsigned field, scope;
    long long time, latency;
    unsigned kind, result;
    Number value;
} FieldValue;

static Slot slots[MOST_DEVICES][MOST_INSTANCES + 1];

static Device slot(unsigned index, int instance) {
    Device found = &slots[index][instance + 1];
    found->index = index;
    found->instance = instance;
    return found;
}

static const DeviceFacts *facts(Device device) { return &scenario()->devices[device->index]; }

static const Instance *instance(Device device) {
    return device->instance < 0 ? NULL : &facts(device)->instances[device->instance];
}

/* Trouble */

static const Rule *rule_for(const char *function, int device) {
    const Scenario *now = scenario();
    for (unsigned i = 0; now && i < now->rule_count; i++) {
        const Rule *rule = &now->rules[i];
        if ((rule->device < 0 || rule->device == device) && !strcmp(rule->function, function))
            return rule;
    }
    return NULL;
}

static void crash(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    raise(SIGSEGV);
}

/* What every call does first: hang as long as the scenario says so, crash, or return an error. */
static int enter(const char *function, int device) {
    const Rule *rule;
    while ((rule = rule_for(function, device)) && rule->trouble == HANG)
        usleep(5000);
    if (rule && rule->trouble == CRASH)
        crash();
    if (rule)
        return rule->code;
    return scenario() ? SUCCESS : DRIVER_NOT_LOADED;
}

#define ENTER(device) \
    do { \
        int told = enter(__func__, (device) ? (int)((Device)(device))->index : -1); \
        if (told != SUCCESS) \
            return told; \
    } while (0)

/* Values */

static Number now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

/* Different on each device, and another one every second, where the scenario moves. */
static Number drift(Device device, unsigned range) {
    return scenario()->moving ? ((Number)time(NULL) * 7 + device->index * 13) % range : 0;
}

static int text(char *out, unsigned size, const char *value) {
    snprintf(out, size, "%s", value);
    return SUCCESS;
}

static void bus_id(unsigned index, char *out, size_t size) { snprintf(out, size, "00000000:%02X:00.0", 0x10 + index); }

#define NUMBER(function, value, range) \
    int function(Device device, unsigned *out) { \
        ENTER(device); \
        *out = (unsigned)(facts(device)->values[value] + (range ? drift(device, range) : 0)); \
        return SUCCESS; \
    }

#define CONSTANT(function, number) \
    int function(Device device, unsigned *out) { \
        ENTER(device); \
        *out = number; \
        return SUCCESS; \
    }

#define WORD(function, value) \
    int function(Device device, Number *out) { \
        ENTER(device); \
        *out = facts(device)->values[value]; \
        return SUCCESS; \
    }

NUMBER(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT, 0)
NUMBER(nvmlDeviceGetComputeMode, COMPUTE_MODE, 0)
NUMBER(nvmlDeviceGetPersistenceMode, PERSISTENCE, 0)
CONSTANT(nvmlDeviceGetIndex, device->index)
CONSTANT(nvmlDeviceGetMinorNumber, device->index)
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetPerformanceState, 0)
CONSTANT(nvmlDeviceIsMigDeviceHandle, device->instance >= 0)
WORD(nvmlDeviceGetCurrentClocksEventReasons, CLOCK_REASONS)

/* The library and its devices */

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return SUCCESS; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Stand-in"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(NULL); return text(out, size, scenario()->driver); }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(out, size, "13.580.00.00"); }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *out) { ENTER(NULL); *out = scenario()->device_count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    const Scenario *now = scenario();
    if (!now || index >= now->device_count)
        return INVALID_ARGUMENT;
    ENTER(slot(index, -1));
    *out = slot(index, -1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device device, char *out, unsigned size) {
    ENTER(device);
    return text(out, size, instance(device) ? instance(device)->uuid : facts(device)->uuid);
}

int nvmlDeviceGetName(Device device, char *out, unsigned size) {
    ENTER(device);
    return text(out, size, instance(device) ? instance(device)->name : facts(device)->name);
}

int nvmlDeviceGetSerial(Device device, char *out, unsigned size) { (void)device; return text(out, size, "0"); }

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    for (unsigned i = 0; i < scenario()->device_count; i++)
        if (!strcmp(scenario()->devices[i].uuid, uuid))
            return nvmlDeviceGetHandleByIndex_v2(i, out);
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, Device *out) {
    char own[32];
    for (unsigned i = 0; i < scenario()->device_count; i++) {
        bus_id(i, own, sizeof own);
        if (!strcmp(own, wanted))
            return nvmlDeviceGetHandleByIndex_v2(i, out);
    }
    return NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci *out) {
    ENTER(device);
    memset(out, 0, sizeof *out);
    out->bus = 0x10 + device->index;
    bus_id(device->index, out->bus_id, sizeof out->bus_id);
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    (void)device;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

/* Load, memory, clocks */

/* A kernel of a process that uses the stand-in of libcuda runs: it only waits. */
static int spins(Device device) {
    Context found[MOST_CONTEXTS];
    unsigned count = device->index ? 0 : contexts(found);
    while (count)
        if (found[--count].busy)
            return 1;
    return 0;
}

int nvmlDeviceGetPowerUsage(Device device, unsigned *out) {
    ENTER(device);
    const Number *values = facts(device)->values;
    *out = (unsigned)(spins(device) ? values[POWER_LIMIT] / 5 : values[POWER] + drift(device, 90000));
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *out) {
    ENTER(device);
    if (spins(device)) {
        *out = (Utilization){100, 0};
        return SUCCESS;
    }
    out->gpu = (unsigned)(facts(device)->values[UTILIZATION] + drift(device, 40));
    out->memory = (unsigned)(facts(device)->values[MEMORY_UTILIZATION] + drift(device, 30));
    return SUCCESS;
}

static int idle(unsigned *out, unsigned *period) {
    *out = 0;
    *period = 100000;
    return SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(Device d, unsigned *out, unsigned *period) { (void)d; return idle(out, period); }
int nvmlDeviceGetDecoderUtilization(Device d, unsigned *out, unsigned *period) { (void)d; return idle(out, period); }
int nvmlDeviceGetFanSpeed(Device device, unsigned *out) { (void)device; (void)out; return NOT_SUPPORTED; }

/* Of processes that use the stand-in of libcuda. */
static Number used_by_contexts(Device device) {
    Context found[MOST_CONTEXTS];
    unsigned count = device->index ? 0 : contexts(found);
    Number sum = 0;
    while (count)
        sum += found[--count].memory;
    return sum;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *out) {
    ENTER(device);
    const Number *values = facts(device)->values;
    const Instance *part = instance(device);
    out->total = part ? part->total : values[MEMORY_TOTAL];
    out->used = part ? part->used : values[MEMORY_USED] + used_by_contexts(device);
    out->reserved = part ? 0 : values[MEMORY_RESERVED];
    out->free = out->total - out->used - out->reserved;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *out) {
    ENTER(device);
    const Number *values = facts(device)->values;
    const Instance *part = instance(device);
    out->total = part ? part->total : values[MEMORY_TOTAL];
    out->used = part ? part->used : values[MEMORY_USED] + values[MEMORY_RESERVED] + used_by_contexts(device);
    out->free = out->total - out->used;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(Device device, Memory *out) {
    ENTER(device);
    *out = (Memory){1ULL << 37, (1ULL << 37) - (1ULL << 24), 1ULL << 24};
    return SUCCESS;
}

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned *out) {
    (void)sensor;
    ENTER(device);
    *out = (unsigned)(facts(device)->values[TEMPERATURE] + drift(device, 20));
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(Device device, Temperature *out) {
    ENTER(device);
    out->celsius = (int)(facts(device)->values[TEMPERATURE] + drift(device, 20));
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device device, int kind, unsigned *out) {
    ENTER(device);
    *out = (unsigned)(facts(device)->values[kind == 2 ? MEMORY_CLOCK : SM_CLOCK] + drift(device, 100));
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(Device device, int kind, unsigned *out) {
    (void)kind;
    ENTER(device);
    *out = (unsigned)facts(device)->values[SM_CLOCK_MAX];
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, Number *out) {
    (void)kind, (void)counter;
    ENTER(device);
    *out = facts(device)->values[ECC];
    return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(Device device, int kind, unsigned *out) {
    ENTER(device);
    *out = (unsigned)facts(device)->values[kind ? PCIE_RX : PCIE_TX];
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values) {
    ENTER(device);
    for (int i = 0; i < count; i++) {
        int known = values[i].field == FIELD_RECOVERY;
        values[i].result = known ? SUCCESS : NOT_SUPPORTED;
        values[i].value = known ? facts(device)->values[RECOVERY] : 0;
    }
    if (scenario()->overrun)
        memset(&values[count], 0xff, sizeof *values);
    return SUCCESS;
}

/* MIG */

int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *next) {
    ENTER(device);
    *now = *next = (unsigned)facts(device)->values[MIG];
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *out) {
    ENTER(device);
    *out = facts(device)->values[MIG] ? MOST_INSTANCES : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *out) {
    ENTER(device);
    if (index >= facts(device)->instance_count)
        return NOT_FOUND;
    *out = slot(device->index, (int)index);
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *out) {
    ENTER(device);
    *out = slot(device->index, -1);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(Device device, unsigned *out) {
    ENTER(device);
    if (!instance(device))
        return NOT_SUPPORTED;
    *out = instance(device)->gpu_instance;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(Device device, unsigned *out) {
    ENTER(device);
    if (!instance(device))
        return NOT_SUPPORTED;
    *out = instance(device)->compute_instance;
    return SUCCESS;
}

/* Processes */

static int is_on(const ProcessFacts *row, enum list list, Device device) {
    const Instance *part = instance(device);
    return row->device == device->index && row->list == list &&
           (!part || (row->gpu_instance == part->gpu_instance && row->compute_instance == part->compute_instance));
}

/* Entries are 24 or 32 bytes long. */
static void put(void *out, unsigned at, const WideProcess *entry, int wide) {
    size_t size = wide ? sizeof(WideProcess) : sizeof(Process);
    memcpy((char *)out + size * at, entry, size);
}

static int list_processes(Device device, enum list list, unsigned *count, void *out, int wide) {
    const Scenario *now = scenario();
    Context found[MOST_CONTEXTS];
    unsigned room = out ? *count : 0, at = 0;
    unsigned found_count = list == COMPUTE && !device->index && !instance(device) ? contexts(found) : 0;
    unsigned own = found_count;
    for (unsigned i = 0; i < now->process_count; i++)
        own += is_on(&now->processes[i], list, device);
    *count = own;
    if (own > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < now->process_count; i++) {
        const ProcessFacts *row = &now->processes[i];
        WideProcess entry = {{row->pid, row->memory, row->gpu_instance, row->compute_instance}, 0};
        if (instance(device)) /* of an instance's own list it goes without saying */
            entry.plain.gpu_instance = entry.plain.compute_instance = NO_INSTANCE;
        if (is_on(row, list, device))
            put(out, at++, &entry, wide);
    }
    for (unsigned i = 0; i < found_count; i++) {
        WideProcess entry = {{found[i].pid, found[i].memory, NO_INSTANCE, NO_INSTANCE}, 0};
        put(out, at++, &entry, wide);
    }
    return SUCCESS;
}

#define PROCESS_LIST(function, list) \
    int function##_v3(Device device, unsigned *count, void *out) { \
        ENTER(device); \
        return list_processes(device, list, count, out, scenario()->wide); \
    } \
    int function##_v2(Device device, unsigned *count, void *out) { \
        ENTER(device); \
        return list_processes(device, list, count, out, 0); \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, MPS)

int nvmlDeviceGetProcessUtilization(Device device, Sample *out, unsigned *count, Number since) {
    ENTER(device);
    const Scenario *now = scenario();
    if (facts(device)->values[MIG])
        return NOT_SUPPORTED;
    if (!out || *count < SAMPLES) {
        *count = SAMPLES;
        return INSUFFICIENT_SIZE;
    }
    unsigned room = *count, drifted = (unsigned)drift(device, 40);
    Number present = now_us();
    *count = 0;
    for (unsigned i = 0; i < now->sample_count && *count < room; i++) {
        const SampleFacts *row = &now->samples[i];
        Number taken = row->at_us ? row->at_us : present - row->age_us;
        if (row->device == device->index && taken > since)
            out[(*count)++] = (Sample){row->pid, taken, row->sm + drifted, row->sm / 2, 0, 0};
    }
    Context found[MOST_CONTEXTS];
    for (unsigned i = device->index ? 0 : contexts(found); i && *count < room; i--)
        if (found[i - 1].busy)
            out[(*count)++] = (Sample){found[i - 1].pid, present, 100, 0, 0, 0};
    return *count ? SUCCESS : NOT_FOUND;
}

/* Events */

static unsigned told[MOST_DEVICES]; /* Xids of each device that came before it was listened to, or were told */
static int listens[MOST_DEVICES];

static int watch_folder(void) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", getenv("NVML_SCENARIO"));
    char *last = strrchr(folder, '/');
    if (last)
        *last = 0;
    int watch = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(watch, last ? folder : ".", IN_MOVED_TO | IN_CLOSE_WRITE);
    return watch;
}

int nvmlEventSetCreate(int **out) {
    static int watch;
    ENTER(NULL);
    watch = watch_folder();
    *out = &watch;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device device, Number types, int *set) {
    (void)types, (void)set;
    ENTER(device);
    told[device->index] = facts(device)->xid_count;
    listens[device->index] = 1;
    return SUCCESS;
}

static int next_xid(Event *out) {
    const Scenario *now = scenario();
    for (unsigned i = 0; now && i < now->device_count; i++) {
        if (!listens[i] || told[i] >= now->devices[i].xid_count)
            continue;
        *out = (Event){slot(i, -1), EVENT_XID, now->devices[i].xids[told[i]++], NO_INSTANCE, NO_INSTANCE};
        return 1;
    }
    return 0;
}

int nvmlEventSetWait_v2(int *set, Event *out, unsigned timeout_ms) {
    char changes[4096];
    Number until = now_us() + timeout_ms * 1000ULL;
    ENTER(NULL);
    while (!next_xid(out)) {
        Number now = now_us();
        if (now >= until || poll(&(struct pollfd){*set, POLLIN, 0}, 1, (int)((until - now) / 1000)) <= 0)
            return TIMEOUT;
        if (read(*set, changes, sizeof changes) < 0)
            return TIMEOUT;
    }
    return SUCCESS;
}

int nvmlEventSetFree(int *set) { close(*set); return SUCCESS; }
