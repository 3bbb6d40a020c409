/* What goes wrong between ranks: the last word says what. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "testing.h"

enum { ELEMENTS = 301 };

static float memory[ELEMENTS];
static lanesum_error *error;

static void spoilt(void) {
    for (size_t i = 0; i < ELEMENTS; i++) {
        CHECK(isnan(memory[i]));
    }
}

/* The error names these ranks; the communicator is spent. */
static void names(const lanesum_communicator *communicator, const uint32_t *expected, size_t count) {
    uint32_t ranks[16] = {0};
    CHECK(lanesum_error_ranks(error, ranks, 16) == count);
    CHECK(memcmp(ranks, expected, count * sizeof *ranks) == 0);
    /* Fewer where there is less room. */
    CHECK(lanesum_error_ranks(error, ranks, 0) == count && lanesum_error_ranks(error, NULL, 16) == count);
    CHECK(lanesum_error_hint(error) != NULL);
    printf("%s\n", lanesum_error_message(error));
    lanesum_error_free(error);
    error = NULL;

    memset(memory, 0, sizeof memory);
    lanesum_call call = call_in_place(memory, ELEMENTS, LANESUM_DTYPE_F32);
    REFUSED(LANESUM_STATUS_POISONED, "poisoned", lanesum_all_reduce(communicator, &call, NULL, &error));
    spoilt();
    REFUSED(LANESUM_STATUS_POISONED, "poisoned", lanesum_check(communicator, &error));
    REFUSED(LANESUM_STATUS_POISONED, "poisoned", lanesum_close(communicator, &error));
    REFUSED(LANESUM_STATUS_CLOSED, "closed", lanesum_check(communicator, &error));
}

static void pause_a_second(void) {
    struct timespec second = {1, 0};
    nanosleep(&second, NULL);
}

/* Whether a rank is known to have ended, ten seconds later at most: a peer's word may come sooner than the own watcher's. */
static bool is_lost(const lanesum_communicator *communicator, uint32_t rank) {
    for (int turn = 0; turn < 10000; turn++) {
        uint32_t lost[16] = {0};
        size_t count = 0;
        CHECK(lanesum_lost_ranks(communicator, lost, 16, &count, NULL) == LANESUM_STATUS_OK);
        for (size_t i = 0; i < count && i < 16; i++) {
            if (lost[i] == rank) {
                return true;
            }
        }
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    return false;
}

static void mismatch(const lanesum_communicator *communicator, uint32_t rank) {
    lanesum_call call = call_in_place(memory, ELEMENTS - rank, LANESUM_DTYPE_F32);
    EXPECT(LANESUM_STATUS_MISMATCH, lanesum_all_reduce(communicator, &call, NULL, &error));
    CHECK(strcmp(lanesum_error_kind(error), "mismatch") == 0);
    names(communicator, (const uint32_t[]){0, 1}, 2);
}

static void killed(const lanesum_communicator *communicator, uint32_t rank) {
    lanesum_call call = call_in_place(memory, ELEMENTS, LANESUM_DTYPE_F32);
    if (rank == 1) {
        WELL(lanesum_all_reduce(communicator, &call, NULL, &error));
        raise(SIGKILL);
    }
    /* The call that rank 1 makes may go well here, too. */
    lanesum_issued *issued = NULL;
    lanesum_status status = lanesum_all_reduce(communicator, &call, NULL, NULL);
    if (status == LANESUM_STATUS_OK) {
        EXPECT(LANESUM_STATUS_RANK_LOST, lanesum_all_reduce(communicator, &call, &issued, &error));
        CHECK(strcmp(lanesum_error_kind(error), "died") == 0);
    } else {
        CHECK(status == LANESUM_STATUS_RANK_LOST);
        /* What is poisoned names the first fault's rank. */
        EXPECT(LANESUM_STATUS_POISONED, lanesum_all_reduce(communicator, &call, &issued, &error));
    }
    CHECK(issued == NULL);
    spoilt();
    CHECK(is_lost(communicator, 1));
    names(communicator, (const uint32_t[]){1}, 1);
}

static void departed(const lanesum_communicator *communicator, uint32_t rank) {
    if (rank == 1) {
        WELL(lanesum_close(communicator, &error));
        /* The process must not end before the other rank has called: that would be the news. */
        pause_a_second();
        return;
    }
    lanesum_call call = call_in_place(memory, ELEMENTS, LANESUM_DTYPE_F32);
    EXPECT(LANESUM_STATUS_RANK_LOST, lanesum_all_reduce(communicator, &call, NULL, &error));
    CHECK(strcmp(lanesum_error_kind(error), "departed") == 0);
    names(communicator, (const uint32_t[]){1}, 1);
}

static void late(const lanesum_communicator *communicator, uint32_t rank) {
    lanesum_call call = call_in_place(memory, ELEMENTS, LANESUM_DTYPE_F32);
    if (rank == 1) {
        pause_a_second();
        lanesum_status status = lanesum_all_reduce(communicator, &call, NULL, &error);
        if (status == LANESUM_STATUS_OK) {
            /* The other's data had come, so this rank's sum is right; its next call tells. */
            status = lanesum_all_reduce(communicator, &call, NULL, &error);
        }
        CHECK(status != LANESUM_STATUS_OK);
        spoilt();
        lanesum_error_free(error);
        return;
    }
    WELL(lanesum_set_deadline_ms(communicator, 100, &error));
    EXPECT(LANESUM_STATUS_LATE, lanesum_all_reduce(communicator, &call, NULL, &error));
    names(communicator, (const uint32_t[]){1}, 1);
}

int main(int count, char **words) {
    CHECK(count == 5);
    lanesum_communicator *communicator = joined(words, NULL);
    uint32_t rank = 0;
    WELL(lanesum_rank(communicator, &rank, &error));
    if (strcmp(words[4], "mismatch") == 0) {
        mismatch(communicator, rank);
    } else if (strcmp(words[4], "killed") == 0) {
        killed(communicator, rank);
    } else if (strcmp(words[4], "departed") == 0) {
        departed(communicator, rank);
    } else {
        late(communicator, rank);
    }
    lanesum_free(communicator);
    puts("well");
    return 0;
}
