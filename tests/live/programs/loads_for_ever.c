/* A library whose constructor waits for somebody who needs the lock of the loader. */
#include <semaphore.h>

static sem_t never;

__attribute__((constructor)) static void connect_to_device(void)
{
    for (;;)
        sem_wait(&never);
}
