/* Two ranks that are threads of one process, a second thread that comes while a call runs, and a forked child. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing.h"

static const char *name;

static lanesum_communicator *join(uint32_t rank) {
    lanesum_error *error = NULL;
    lanesum_communicator *communicator = NULL;
    WELL(lanesum_join(LANESUM_ABI_VERSION, rank, 2, name, NULL, &communicator, &error));
    return communicator;
}

static void *join_second(void *unused) {
    (void)unused;
    return join(1);
}

static void *wait_at_barrier(void *communicator) {
    lanesum_error *error = NULL;
    WELL(lanesum_barrier((const lanesum_communicator *)communicator, NULL, &error));
    return NULL;
}

static void busy(const lanesum_communicator *first, const lanesum_communicator *second) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_at_barrier, (void *)(uintptr_t)first) == 0);
    lanesum_error *error = NULL;
    lanesum_status status = LANESUM_STATUS_OK;
    /* Until the thread is in its call: ten seconds at most. */
    for (int turn = 0; turn < 10000 && status == LANESUM_STATUS_OK; turn++) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        status = lanesum_check(first, NULL);
    }
    CHECK(status == LANESUM_STATUS_BUSY);
    float value = 5;
    lanesum_call call = call_in_place(&value, 1, LANESUM_DTYPE_F32);
    lanesum_issued *issued = NULL;
    REFUSED(LANESUM_STATUS_BUSY, "busy", lanesum_all_reduce(first, &call, &issued, &error));
    REFUSED(LANESUM_STATUS_BUSY, "busy", lanesum_close(first, &error));
    CHECK(value == 5 && issued == NULL);
    uint32_t rank = 9;
    WELL(lanesum_rank(first, &rank, &error));
    CHECK(rank == 0);

    /* A child that is forked meanwhile: nobody there would ever end the call. */
    pid_t child = fork();
    if (child == 0) {
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_all_reduce(first, &call, &issued, &error));
        _exit(0);
    }
    int end = 1;
    CHECK(waitpid(child, &end, 0) == child && end == 0);

    WELL(lanesum_barrier(second, NULL, &error));
    CHECK(pthread_join(thread, NULL) == 0);
}

static void forked(lanesum_communicator *first) {
    pid_t child = fork();
    if (child == 0) {
        lanesum_error *error = NULL;
        float value = 5;
        size_t lost = 0;
        uint32_t rank = 9;
        lanesum_communicator *other = NULL;
        lanesum_call call = call_in_place(&value, 1, LANESUM_DTYPE_F32);
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_all_reduce(first, &call, NULL, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_barrier(first, NULL, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_check(first, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_channel(first, &other, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_lost_ranks(first, NULL, 0, &lost, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_set_deadline_ms(first, 5, &error));
        WELL(lanesum_rank(first, &rank, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_close(first, &error));
        CHECK(value == 5 && rank == 0);
        lanesum_free(first);
        _exit(0);
    }
    int end = 1;
    CHECK(waitpid(child, &end, 0) == child && end == 0);
}

int main(int count, char **words) {
    CHECK(count == 4);
    name = words[3];
    pthread_t thread;
    void *joined_by_thread = NULL;
    CHECK(pthread_create(&thread, NULL, join_second, NULL) == 0);
    lanesum_communicator *first = join(0);
    CHECK(pthread_join(thread, &joined_by_thread) == 0);
    lanesum_communicator *second = (lanesum_communicator *)joined_by_thread;

    busy(first, second);
    forked(first);

    /* The parent's is as it was. */
    lanesum_error *error = NULL;
    CHECK(pthread_create(&thread, NULL, wait_at_barrier, second) == 0);
    WELL(lanesum_barrier(first, NULL, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    WELL(lanesum_close(first, &error));
    WELL(lanesum_close(second, &error));
    lanesum_free(first);
    lanesum_free(second);
    puts("well");
    return 0;
}
