/*
 * What the stand-in's driver says: a text file that a test may rewrite at any moment, read again when it has changed.
 * Its lines are described in tests/nvml/__init__.py, which writes them.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#define MOST_DEVICES 16
#define MOST_INSTANCES 8
#define MOST_PROCESSES 4096
#define MOST_RULES 64
#define MOST_XIDS 64
#define TEXT 96

typedef unsigned long long Number;

/* The numbers of a device, in the order of VALUE_NAMES. */
enum value {
    POWER, POWER_LIMIT, UTILIZATION, MEMORY_UTILIZATION, MEMORY_TOTAL, MEMORY_USED, MEMORY_RESERVED, TEMPERATURE,
    SM_CLOCK, SM_CLOCK_MAX, MEMORY_CLOCK, CLOCK_REASONS, ECC, RECOVERY, MIG, COMPUTE_MODE, PERSISTENCE, PCIE_RX,
    PCIE_TX, CONTEXT, VALUES
};

enum list { COMPUTE, GRAPHICS, MPS };
enum trouble { NONE, FAIL, HANG, CRASH };

typedef struct {
    unsigned gpu_instance, compute_instance;
    Number total, used;
    char uuid[TEXT], name[TEXT];
} Instance;

typedef struct {
    char uuid[TEXT], name[TEXT];
    Number values[VALUES];
    Instance instances[MOST_INSTANCES];
    unsigned instance_count;
    unsigned xids[MOST_XIDS], xid_count;
} DeviceFacts;

typedef struct {
    unsigned device;
    enum list list;
    unsigned pid, gpu_instance, compute_instance;
    Number memory;
} ProcessFacts;

typedef struct {
    unsigned device, pid, sm;
    Number age_us; /* of a sample that is always new */
    Number at_us;  /* or else when it was taken, since the epoch */
} SampleFacts;

typedef struct {
    int device; /* -1: any, and calls that are about none */
    char function[TEXT];
    enum trouble trouble;
    int code;
} Rule;

typedef struct {
    char driver[TEXT];
    int moving;  /* power, load, temperature and clocks change every second */
    int wide;    /* entries of the process lists v3 have 32 bytes, as in the first drivers 535 */
    int overrun; /* field values are written one past the count */
    DeviceFacts devices[MOST_DEVICES];
    unsigned device_count;
    ProcessFacts processes[MOST_PROCESSES];
    unsigned process_count;
    SampleFacts samples[MOST_PROCESSES];
    unsigned sample_count;
    Rule rules[MOST_RULES];
    unsigned rule_count;
} Scenario;

/* The newest one; NULL where NVML_SCENARIO names no file. Never freed: another thread may still look at it. */
const Scenario *scenario(void);

#endif
