/* A library whose functions wait for threads of their own, which stand still, or work. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

static sem_t never, taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile double sum;

__attribute__((noinline)) static void wait_or_work(int works)
{
    if (!works)
        for (;;)
            sem_wait(&never);
    for (;;)
        sum += 1.0;
}

__attribute__((noinline)) static void *decode_frames(void *works)
{
    wait_or_work(works != NULL);
    return NULL;
}

/* Joins a thread that it has started. */
__attribute__((noinline)) void decoder_close(int works)
{
    pthread_t thread;
    pthread_create(&thread, NULL, decode_frames, works ? (void *)&sum : NULL);
    pthread_join(thread, NULL);
    sum += 1.0;
}

__attribute__((noinline)) static void resize_row(int row, int works)
{
    if (row)
        wait_or_work(works);
}

/* Works with a team of OpenMP, of which one thread does not come to the barrier. */
__attribute__((noinline)) void resize(int works)
{
#pragma omp parallel num_threads(3)
    {
        int row;
#pragma omp for
        for (row = 0; row < 3; row++)
            resize_row(row == 2, works);
    }
    sum += 1.0;
}

/* A thread takes the lock, and then waits or works; whoever comes after it waits for the lock. */
__attribute__((noinline)) static void *index_files(void *works)
{
    pthread_mutex_lock(&lock);
    sem_post(&taken);
    wait_or_work(works != NULL);
    return NULL;
}

__attribute__((noinline)) void read_index(int works)
{
    pthread_t thread;
    pthread_create(&thread, NULL, index_files, works ? (void *)&sum : NULL);
    sem_wait(&taken);
    pthread_mutex_lock(&lock);
    sum += 1.0;
}
