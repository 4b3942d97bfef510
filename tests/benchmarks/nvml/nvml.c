/*
 * A stand-in for NVIDIA's management library, for machines without a GPU.
 *
 * Eight devices with plausible, slowly moving values. The processes on them are the pids in the file named by
 * BENCHMARK_GPU_PIDS, read once, dealt to the devices in turn. Only what monitors ask is here; what is missing
 * is looked up in vain by nvidia-ml-py, which then reports "function not found" as with an old driver.
 * The layouts are those of nvidia-ml-py's public ctypes structures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES 8
#define MOST_PIDS 4096
#define MIB (1024ULL * 1024ULL)
#define TOTAL (81920ULL * MIB)
#define USED_BY_ONE (2048ULL * MIB)
#define NO_INSTANCE 0xFFFFFFFFu

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct { unsigned index; } *Device;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } Sample;
typedef struct { unsigned version; int sensor, celsius; } Temperature;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct {
    unsigned field, scope;
    long long time, latency;
    unsigned kind, result;
    unsigned long long value;
} FieldValue;

static struct { unsigned index; } devices[DEVICES] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static unsigned pids[MOST_PIDS];
static unsigned pid_count;

static void read_pids(void) {
    const char *path = getenv("BENCHMARK_GPU_PIDS");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file || pid_count)
        return;
    while (pid_count < MOST_PIDS && fscanf(file, "%u", &pids[pid_count]) == 1)
        pid_count++;
    fclose(file);
}

static unsigned long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

/* A value that moves every second, different on each device. */
static unsigned moving(Device device, unsigned low, unsigned range) {
    return low + ((unsigned)time(NULL) * 7 + device->index * 13) % range;
}

static unsigned processes_on(Device device) {
    return pid_count / DEVICES + (device->index < pid_count % DEVICES);
}

static unsigned long long used_on(Device device) {
    return 600 * MIB + processes_on(device) * USED_BY_ONE;
}

static int text(char *out, unsigned size, const char *value) {
    snprintf(out, size, "%s", value);
    return SUCCESS;
}

static void bus_id(Device device, char *out, size_t size) {
    snprintf(out, size, "00000000:%02X:00.0", 0x10 + device->index);
}

int nvmlInit_v2(void) { read_pids(); return SUCCESS; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; read_pids(); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Stand-in"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, "580.00.00"); }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(out, size, "13.580.00.00"); }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = DEVICES; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    if (index >= DEVICES)
        return INVALID_ARGUMENT;
    *out = (Device)&devices[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device device, char *out, unsigned size) {
    snprintf(out, size, "GPU-00000000-0000-0000-0000-%012u", device->index);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    const char *last = strrchr(uuid, '-');
    return last ? nvmlDeviceGetHandleByIndex_v2((unsigned)atoi(last + 1), out) : NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci *out) {
    memset(out, 0, sizeof *out);
    out->bus = 0x10 + device->index;
    bus_id(device, out->bus_id, sizeof out->bus_id);
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, Device *out) {
    char own[32];
    for (unsigned i = 0; i < DEVICES; i++) {
        bus_id((Device)&devices[i], own, sizeof own);
        if (!strcmp(own, wanted))
            return nvmlDeviceGetHandleByIndex_v2(i, out);
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(Device device, char *out, unsigned size) { (void)device; return text(out, size, "Stand-in 80GB"); }
int nvmlDeviceGetIndex(Device device, unsigned *out) { *out = device->index; return SUCCESS; }
int nvmlDeviceGetMinorNumber(Device device, unsigned *out) { *out = device->index; return SUCCESS; }
int nvmlDeviceGetSerial(Device device, char *out, unsigned size) { (void)device; return text(out, size, "0"); }
int nvmlDeviceGetPersistenceMode(Device device, unsigned *out) { (void)device; *out = 1; return SUCCESS; }
int nvmlDeviceGetDisplayMode(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetDisplayActive(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetComputeMode(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetPerformanceState(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetFanSpeed(Device device, unsigned *out) { (void)device; (void)out; return NOT_SUPPORTED; }
int nvmlDeviceGetPowerUsage(Device device, unsigned *out) { *out = moving(device, 300, 90) * 1000; return SUCCESS; }
int nvmlDeviceGetPowerManagementLimit(Device device, unsigned *out) { (void)device; *out = 700000; return SUCCESS; }
int nvmlDeviceGetPcieThroughput(Device device, int kind, unsigned *out) { *out = moving(device, 1000, 500) * (kind + 1); return SUCCESS; }
int nvmlDeviceGetClockInfo(Device device, int kind, unsigned *out) { (void)kind; *out = moving(device, 1500, 400); return SUCCESS; }
int nvmlDeviceGetMaxClockInfo(Device device, int kind, unsigned *out) { (void)device; (void)kind; *out = 1980; return SUCCESS; }
int nvmlDeviceIsMigDeviceHandle(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *out) { (void)device; *out = 0; return SUCCESS; }
int nvmlDeviceGetGpuInstanceId(Device device, unsigned *out) { (void)device; (void)out; return NOT_SUPPORTED; }
int nvmlDeviceGetComputeInstanceId(Device device, unsigned *out) { (void)device; (void)out; return NOT_SUPPORTED; }
int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *next) { (void)device; *now = *next = 0; return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) { (void)device; *major = 9; *minor = 0; return SUCCESS; }
int nvmlDeviceGetEncoderUtilization(Device device, unsigned *out, unsigned *period) { (void)device; *out = 0; *period = 100000; return SUCCESS; }
int nvmlDeviceGetDecoderUtilization(Device device, unsigned *out, unsigned *period) { (void)device; *out = 0; *period = 100000; return SUCCESS; }

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned *out) {
    (void)sensor;
    *out = moving(device, 50, 20);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(Device device, Temperature *out) {
    out->celsius = (int)moving(device, 50, 20);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, unsigned long long *out) {
    (void)device, (void)kind, (void)counter;
    *out = 0;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *out) {
    out->gpu = moving(device, 60, 40);
    out->memory = moving(device, 20, 30);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *out) {
    *out = (Memory){TOTAL, TOTAL - used_on(device), used_on(device)};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *out) {
    out->total = TOTAL;
    out->reserved = 600 * MIB;
    out->used = used_on(device);
    out->free = TOTAL - out->reserved - out->used;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(Device device, Memory *out) {
    (void)device;
    *out = (Memory){TOTAL, TOTAL - 16 * MIB, 16 * MIB};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *out) {
    unsigned room = out ? *count : 0, own = processes_on(device);
    *count = own;
    if (own > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < own; i++)
        out[i] = (Process){pids[i * DEVICES + device->index], USED_BY_ONE, NO_INSTANCE, NO_INSTANCE};
    return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *count, Process *out) {
    (void)device, (void)out;
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned *count, Process *out) {
    (void)device, (void)out;
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(Device device, Sample *out, unsigned *count, unsigned long long since) {
    unsigned room = out ? *count : 0, own = processes_on(device);
    (void)since;
    *count = own;
    if (!own)
        return NOT_FOUND;
    if (own > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < own; i++)
        out[i] = (Sample){pids[i * DEVICES + device->index], now_us(), moving(device, 60, 40), moving(device, 20, 30), 0, 0};
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values) {
    (void)device;
    for (int i = 0; i < count; i++)
        values[i].result = NOT_SUPPORTED;
    return SUCCESS;
}
