/* Ways to sleep at the bottom of awkward frames: one thread for each, called after it. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

volatile int zero;
static sem_t never;

KEEP int bottom(int n) { sem_wait(&never); return n + zero; }

/* The system call itself: nobody has saved a register on the way. */
KEEP int bare(int n) {
    struct { long s, ns; } long_time = {100000, 0};
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(35), "D"(&long_time), "S"(0) : "rcx", "r11", "memory");
    return (int)result + n;
}

KEEP int grown(int n, int (*next)(int)) {
    char *room = alloca(n * 16 + 64);
    memset(room, n, n * 16 + 64);
    return next(n) + room[n];
}

KEEP int grown_bare(int n) { return grown(n, bare) + 1; }

KEEP int aligned(int n, int (*next)(int)) {
    volatile float room[64] __attribute__((aligned(64)));
    for (int at = 0; at < 64; at++) room[at] = at * n;
    return next(n) + (int)room[n & 63];
}

KEEP int aligned_bare(int n) { return aligned(n, bare) + 1; }
KEEP int aligned_grown(int n) { return aligned(n, grown_bare) + 1; }
KEEP int many(int a, int b, int c, int d, int e, int f, int g, int h) { return bottom(a) + b + c + d + e + f + g + h; }
KEEP int arguments(int n) { return many(n, 1, 2, 3, 4, 5, 6, 7) + 1; }

KEEP int variable(int n, ...) {
    va_list more;
    va_start(more, n);
    int found = va_arg(more, int);
    va_end(more);
    return bottom(n) + found;
}

KEEP int variadic(int n) { return variable(n, 5) + 1; }
KEEP int again(int n) { return n ? again(n - 1) + zero : bottom(n); }
KEEP int recursive(int n) { return again(20 + n) + 1; }

/* A stack full of return addresses that are left over, below a buffer that nobody has written to. */
KEEP int rubbish(int n) { return n ? rubbish(n - 1) + zero : zero; }
KEEP int over_rubbish(int n) { char *room = alloca(n * 1000 + 1000); room[0] = 1; return bare(n) + room[0]; }
KEEP int stale(int n) { return rubbish(60) + over_rubbish(n); }

KEEP int tail(int n) { return bottom(n); }
KEEP int calls_tail(int n) { return tail(n) + 1; }
static void handler(int number) { bottom(number); }
KEEP int signalled(int n) { signal(SIGUSR1, handler); pthread_kill(pthread_self(), SIGUSR1); return n + zero; }
static int compare(const void *a, const void *b) { return bottom(*(const int *)a) - *(const int *)b; }
KEEP int sorting(int n) { int some[4] = {4, 3, 2, n}; qsort(some, 4, sizeof(int), compare); return some[0]; }

static const struct { const char *name; int (*run)(int); } cases[] = {
    {"bottom", bottom}, {"bare", bare}, {"grown_bare", grown_bare}, {"aligned_bare", aligned_bare},
    {"aligned_grown", aligned_grown}, {"arguments", arguments}, {"variadic", variadic}, {"recursive", recursive},
    {"stale", stale}, {"calls_tail", calls_tail}, {"signalled", signalled}, {"sorting", sorting},
};
enum { COUNT = sizeof cases / sizeof *cases };

static void *begin(void *place) {
    long at = (long)place;
    pthread_setname_np(pthread_self(), cases[at].name);
    cases[at].run(1 + zero);
    return NULL;
}

void start(void) {
    pthread_t thread;
    sem_init(&never, 0, 0);
    for (long at = 0; at < COUNT; at++) pthread_create(&thread, NULL, begin, (void *)at);
}

#ifndef LIBRARY
int main(void) {
    start();
    puts("ready");
    fflush(stdout);
    pause();
}
#endif
