/*
 * Who has a CUDA context by the stand-in of libcuda, as the driver sees it: a file a process beside the scenario, which is
 * locked as long as somebody has its description open, be it a forked child.  So memory is held, and the process listed, for
 * as long as the driver does both.
 */
#ifndef CONTEXTS_H
#define CONTEXTS_H

#include "scenario.h"

#define MOST_CONTEXTS 64

typedef struct {
    unsigned pid;
    Number memory;
    int busy; /* a kernel that it launched runs */
} Context;

/* Those that hold memory now, all on device 0; how many. */
unsigned contexts(Context out[MOST_CONTEXTS]);

/* Folder of these files, and the file of a process in it. */
void contexts_folder(char *out, unsigned size);

#endif
