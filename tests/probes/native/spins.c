/* Ways to spin for good; each is called from Python, and has no call that could sleep. */
#include <stdlib.h>

static volatile int flag;

__attribute__((noinline)) int poll_flag(void) {
    int turns = 0;
    while (!flag) turns++;
    return turns;
}

__attribute__((noinline)) int wait_for_flag(void) { return poll_flag() + 1; }

static int compare(const void *left, const void *right) {
    while (!flag) {
    }
    return *(const int *)left - *(const int *)right;
}

__attribute__((noinline)) int sort_for_good(void) {
    int numbers[4] = {4, 3, 2, 1};
    qsort(numbers, 4, sizeof *numbers, compare);
    return numbers[0];
}

/* More of the stack than is copied in one sample. */
__attribute__((noinline)) int deep(int depth) {
    volatile char room[4096];
    room[depth] = 1;
    return depth ? deep(depth - 1) + room[depth] : poll_flag();
}

__attribute__((noinline)) int from_the_deep(void) { return deep(9) + 1; }
