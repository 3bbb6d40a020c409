/* What the programs share: each is a rank, started as `program RANK WORLD NAME`, and says `well` at its end. */
#ifndef TESTING_H
#define TESTING_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lanesum.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* Ends the program where a status is another, with the error's message. `error` is a variable of the caller. */
#define EXPECT(status, call)                                                             \
    do {                                                                                 \
        lanesum_status found_ = (call);                                                  \
        if (found_ != (status)) {                                                        \
            fprintf(stderr, "%s:%d: %s: %s instead of %s: %s\n", __FILE__, __LINE__,     \
                    #call, lanesum_status_name(found_), lanesum_status_name(status),     \
                    lanesum_error_message(error));                                       \
            exit(1);                                                                     \
        }                                                                                \
        CHECK((found_ == LANESUM_STATUS_OK) == (error == NULL));                         \
        CHECK(lanesum_error_status(error) == found_);                                    \
    } while (0)

#define WELL(call) EXPECT(LANESUM_STATUS_OK, call)

/* Expects a refusal of this kind, with a message and a hint. */
#define REFUSED(status, kind, call)                                                      \
    do {                                                                                 \
        EXPECT(status, call);                                                            \
        if (strcmp(lanesum_error_kind(error), kind) != 0) {                              \
            fprintf(stderr, "%s:%d: %s: kind %s instead of %s: %s\n", __FILE__,          \
                    __LINE__, #call, lanesum_error_kind(error), kind,                    \
                    lanesum_error_message(error));                                       \
            exit(1);                                                                     \
        }                                                                                \
        CHECK(lanesum_error_hint(error) != NULL);                                        \
        CHECK(strstr(lanesum_error_message(error), lanesum_error_cause(error)) != NULL); \
        lanesum_error_free(error);                                                       \
        error = NULL;                                                                    \
    } while (0)

static inline lanesum_call call_in_place(void *memory, uint64_t elements, uint32_t dtype) {
    lanesum_call call = LANESUM_CALL_INIT;
    call.input = memory;
    call.output = memory;
    call.elements = elements;
    call.dtype = dtype;
    return call;
}

/* The communicator that the words of the command line name. `options` may be NULL. */
static inline lanesum_communicator *joined(char **words, const lanesum_options *options) {
    lanesum_error *error = NULL;
    lanesum_communicator *communicator = NULL;
    uint32_t rank = (uint32_t)atoi(words[1]);
    uint32_t world = (uint32_t)atoi(words[2]);
    WELL(lanesum_join(LANESUM_ABI_VERSION, rank, world, words[3], options, &communicator, &error));
    return communicator;
}

#endif
