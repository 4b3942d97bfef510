/*
 * A stand-in for NVIDIA's CUDA driver library (libcuda.so.1): contexts and memory that the stand-in of NVML counts, on one
 * device, and CUDA IPC, whose importer is not counted.  Nothing can be computed with it: whatever is launched never ends.
 *
 * Layouts and numbers are those of cuda.h.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contexts.h"

#define BLOCKS 64
#define SCHED_BLOCKING_SYNC 4u

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };

typedef struct { char reserved[64]; } Handle;

static Number blocks[BLOCKS]; /* sizes; the address of one is its place */
static int file = -1;
static volatile int launched;
static unsigned schedule; /* how a thread waits for the device */

static Number address(unsigned place) { return (place + 1ULL) << 40; }

static void tell(void) {
    char text[32];
    Number sum = scenario()->devices[0].values[CONTEXT];
    for (unsigned i = 0; i < BLOCKS; i++)
        sum += blocks[i];
    int length = snprintf(text, sizeof text, "%020llu %d", sum, launched);
    if (pwrite(file, text, (size_t)length, 0) != length)
        abort();
}

int cuInit(unsigned flags) {
    const Scenario *now = scenario();
    (void)flags;
    return now && now->device_count ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *out) {
    *out = 1;
    return SUCCESS;
}

int cuDeviceGet(int *out, int ordinal) {
    *out = ordinal;
    return ordinal ? INVALID_DEVICE : SUCCESS;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    (void)device;
    schedule = flags;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **out, int device) {
    char path[4096];
    (void)device;
    *out = &file;
    if (file >= 0)
        return SUCCESS;
    contexts_folder(path, sizeof path);
    mkdir(path, 0700);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%d", getpid());
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX))
        return NO_DEVICE;
    tell();
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) { return context == &file ? SUCCESS : INVALID_CONTEXT; }
int cuCtxSynchronize(void) { return SUCCESS; }

int cuLaunchKernel(
    void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
    unsigned shared_bytes, void *stream, void **arguments, void **more
) {
    (void)kernel, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)arguments, (void)more;
    if (file < 0)
        return INVALID_CONTEXT;
    launched = 1;
    tell();
    return SUCCESS;
}

/* As CU_CTX_SCHED_YIELD, where it was not told to sleep: the thread never does while it waits. */
int cuStreamSynchronize(void *stream) {
    (void)stream;
    while (launched)
        schedule == SCHED_BLOCKING_SYNC ? poll(NULL, 0, -1) : sched_yield();
    return SUCCESS;
}

int cuMemAlloc_v2(Number *out, size_t size) {
    unsigned place = 0;
    while (place < BLOCKS && blocks[place])
        place++;
    if (place == BLOCKS)
        return OUT_OF_MEMORY;
    blocks[place] = size;
    *out = address(place);
    tell();
    return SUCCESS;
}

int cuMemFree_v2(Number at) {
    blocks[(at >> 40) - 1] = 0;
    tell();
    return SUCCESS;
}

int cuMemsetD8_v2(Number at, unsigned char value, size_t size) {
    (void)at, (void)value, (void)size;
    return SUCCESS;
}

int cuIpcGetMemHandle(Handle *out, Number at) {
    memset(out, 0, sizeof *out);
    snprintf(out->reserved, sizeof out->reserved, "%d %llu", getpid(), at);
    return SUCCESS;
}

/* The owner must live; what is opened lies beyond all blocks of one's own. */
int cuIpcOpenMemHandle_v2(Number *out, Handle handle, unsigned flags) {
    int owner = 0;
    char path[64];
    (void)flags;
    sscanf(handle.reserved, "%d", &owner);
    snprintf(path, sizeof path, "/proc/%d", owner);
    if (!owner || owner == getpid() || access(path, F_OK))
        return INVALID_HANDLE;
    *out = address(BLOCKS);
    return SUCCESS;
}

int cuIpcCloseMemHandle(Number at) { return at == address(BLOCKS) ? SUCCESS : INVALID_HANDLE; }
