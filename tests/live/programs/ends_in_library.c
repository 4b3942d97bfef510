/* A library with a thread of its own, whose destructor joins it: a program that has loaded it cannot exit. */
#include <pthread.h>
#include <semaphore.h>

static sem_t never;
static pthread_t thread;

__attribute__((noinline)) static void *flush_loop(void *unused)
{
    for (;;)
        sem_wait(&never);
    return unused;
}

__attribute__((constructor)) static void logger_start(void)
{
    pthread_create(&thread, NULL, flush_loop, NULL);
}

__attribute__((destructor)) static void logger_shutdown(void)
{
    pthread_join(thread, NULL);
    sem_post(&never);
}
