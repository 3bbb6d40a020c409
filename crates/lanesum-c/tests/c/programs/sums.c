/* Sums that go well: types, operations, lengths, alignments, places, labels, split and channel. Ranks hold rank + 1. */
#include "testing.h"

/* 0 to 6 in each type: enough for the sums of three ranks. */
static const uint32_t F32[] = {0, 0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000, 0x40C00000};
static const uint16_t F16[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
static const uint16_t BF16[] = {0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0};

static size_t width(uint32_t dtype) { return dtype == LANESUM_DTYPE_F32 ? 4 : 2; }

static const void *number(uint32_t dtype, uint32_t value) {
    if (dtype == LANESUM_DTYPE_F32) {
        return &F32[value];
    }
    return dtype == LANESUM_DTYPE_F16 ? &F16[value] : &BF16[value];
}

static void fill(unsigned char *memory, uint64_t elements, uint32_t dtype, uint32_t value) {
    for (uint64_t i = 0; i < elements; i++) {
        memcpy(memory + i * width(dtype), number(dtype, value), width(dtype));
    }
}

static void holds(const unsigned char *memory, uint64_t elements, uint32_t dtype, uint32_t value) {
    for (uint64_t i = 0; i < elements; i++) {
        CHECK(memcmp(memory + i * width(dtype), number(dtype, value), width(dtype)) == 0);
    }
}

static void says(const lanesum_issued *issued, uint64_t bytes, uint64_t ordinal) {
    lanesum_error *error = NULL;
    lanesum_receipt receipt = LANESUM_RECEIPT_INIT;
    WELL(lanesum_issued_read(issued, &receipt, &error));
    CHECK(receipt.size == sizeof receipt && receipt.state == LANESUM_STATE_DONE);
    CHECK(receipt.bytes == bytes && receipt.ordinal == ordinal);
    CHECK(strcmp(receipt.engine, "host") == 0 && strlen(receipt.algorithm) > 0 && strcmp(receipt.path, "unknown") != 0);
    bool completed = false;
    WELL(lanesum_issued_poll(issued, &completed, &error));
    CHECK(completed);
    WELL(lanesum_issued_wait(issued, &error));
}

static uint64_t sums(const lanesum_communicator *communicator, uint32_t rank, uint32_t world) {
    static const uint64_t LENGTHS[] = {0, 1, 7, 301, 4099, 300001};
    static const uint32_t RESULTS[] = {0, 1, 3, 6};
    lanesum_error *error = NULL;
    uint64_t ordinal = 0;
    for (uint32_t dtype = LANESUM_DTYPE_F32; dtype <= LANESUM_DTYPE_BF16; dtype++) {
        for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
            uint64_t elements = LENGTHS[i];
            size_t bytes = (size_t)elements * width(dtype);
            /* One byte beside every alignment. */
            unsigned char *in = (unsigned char *)malloc(bytes + 1) + 1;
            unsigned char *out = (unsigned char *)malloc(bytes + 3) + 3;
            for (uint32_t operation = LANESUM_OPERATION_SUM; operation <= LANESUM_OPERATION_MIN; operation++) {
                uint32_t expected = operation == LANESUM_OPERATION_SUM   ? RESULTS[world]
                                    : operation == LANESUM_OPERATION_MAX ? world
                                                                         : 1;
                uint64_t label = elements;
                lanesum_call call = call_in_place(in, elements, dtype);
                call.operation = operation;
                call.label = &label;
                fill(in, elements, dtype, rank + 1);
                lanesum_issued *issued = NULL;
                WELL(lanesum_all_reduce(communicator, &call, &issued, &error));
                holds(in, elements, dtype, expected);
                says(issued, bytes, ordinal++);
                lanesum_issued_free(issued);

                fill(in, elements, dtype, rank + 1);
                fill(out, elements, dtype, 5);
                call.output = out;
                /* Who wants no receipt needs none. */
                WELL(lanesum_all_reduce(communicator, &call, NULL, NULL));
                holds(out, elements, dtype, expected);
                holds(in, elements, dtype, rank + 1);
                ordinal++;
            }
            free(in - 1);
            free(out - 3);
        }
    }
    return ordinal;
}

static void others(const lanesum_communicator *communicator, uint32_t rank, uint32_t world) {
    lanesum_error *error = NULL;
    lanesum_communicator *channel = NULL, *part = NULL;
    WELL(lanesum_channel(communicator, &channel, &error));
    float value = 1;
    lanesum_call call = call_in_place(&value, 1, LANESUM_DTYPE_F32);
    WELL(lanesum_all_reduce(channel, &call, NULL, &error));
    CHECK(value == (float)world);
    WELL(lanesum_close(channel, &error));
    lanesum_free(channel);

    /* The last rank takes no part. */
    uint32_t color = 7;
    bool takes_part = world == 1 || rank + 1 < world;
    WELL(lanesum_split(communicator, takes_part ? &color : NULL, 0, &part, &error));
    CHECK((part != NULL) == takes_part);
    if (part != NULL) {
        uint32_t ranks = 0;
        WELL(lanesum_world(part, &ranks, &error));
        CHECK(ranks == (world == 1 ? 1 : world - 1));
        /* Without a close before. */
        lanesum_free(part);
    }
}

int main(int count, char **words) {
    lanesum_error *error = NULL;
    lanesum_communicator *communicator = NULL;
    if (count > 1) {
        communicator = joined(words, NULL);
    } else {
        WELL(lanesum_join_from_env(LANESUM_ABI_VERSION, NULL, &communicator, &error));
    }
    uint32_t rank = 99, world = 0, device = 77;
    bool has_device = true;
    WELL(lanesum_rank(communicator, &rank, &error));
    WELL(lanesum_world(communicator, &world, &error));
    WELL(lanesum_device(communicator, &has_device, &device, &error));
    CHECK(rank < world && world <= 3 && !has_device && device == 77);
    uint64_t ms = 0;
    WELL(lanesum_set_deadline_ms(communicator, 12345, &error));
    WELL(lanesum_deadline_ms(communicator, &ms, &error));
    CHECK(ms == 12345);

    uint64_t ordinal = sums(communicator, rank, world);
    lanesum_issued *issued = NULL;
    WELL(lanesum_barrier(communicator, &issued, &error));
    says(issued, 0, ordinal);
    lanesum_issued_free(issued);
    others(communicator, rank, world);

    size_t lost = 9;
    WELL(lanesum_lost_ranks(communicator, NULL, 0, &lost, &error));
    CHECK(lost == 0);
    WELL(lanesum_check(communicator, &error));
    WELL(lanesum_barrier(communicator, NULL, &error));
    WELL(lanesum_close(communicator, &error));
    WELL(lanesum_close(communicator, &error));
    lanesum_free(communicator);
    puts("well");
    return 0;
}
