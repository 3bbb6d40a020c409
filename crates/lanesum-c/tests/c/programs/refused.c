/* All that is refused of one rank, and that nothing happens then. */
#include "testing.h"

static lanesum_error *error;

static void null_handles(const lanesum_communicator *communicator) {
    const lanesum_status ARGUMENT = LANESUM_STATUS_ARGUMENT;
    lanesum_communicator *other = NULL;
    lanesum_issued *issued = NULL;
    lanesum_receipt receipt = LANESUM_RECEIPT_INIT;
    float value = 1;
    lanesum_call call = call_in_place(&value, 1, LANESUM_DTYPE_F32);
    uint32_t number = 0;
    uint64_t ms = 0;
    size_t count = 0;
    bool truth = false;
    char *text = NULL;
    REFUSED(ARGUMENT, "null", lanesum_join(LANESUM_ABI_VERSION, 0, 1, "c", NULL, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_join(LANESUM_ABI_VERSION, 0, 1, NULL, NULL, &other, &error));
    REFUSED(ARGUMENT, "null", lanesum_join_from_env(LANESUM_ABI_VERSION, NULL, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_close(NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_rank(NULL, &number, &error));
    REFUSED(ARGUMENT, "null", lanesum_rank(communicator, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_world(NULL, &number, &error));
    REFUSED(ARGUMENT, "null", lanesum_world(communicator, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_device(NULL, &truth, &number, &error));
    REFUSED(ARGUMENT, "null", lanesum_device(communicator, NULL, &number, &error));
    REFUSED(ARGUMENT, "null", lanesum_device(communicator, &truth, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_lost_ranks(NULL, &number, 1, &count, &error));
    REFUSED(ARGUMENT, "null", lanesum_lost_ranks(communicator, &number, 1, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_deadline_ms(NULL, &ms, &error));
    REFUSED(ARGUMENT, "null", lanesum_deadline_ms(communicator, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_set_deadline_ms(NULL, 1, &error));
    REFUSED(ARGUMENT, "null", lanesum_all_reduce(NULL, &call, &issued, &error));
    REFUSED(ARGUMENT, "null", lanesum_all_reduce(communicator, NULL, &issued, &error));
    REFUSED(ARGUMENT, "null", lanesum_barrier(NULL, &issued, &error));
    REFUSED(ARGUMENT, "null", lanesum_check(NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_split(NULL, NULL, 0, &other, &error));
    REFUSED(ARGUMENT, "null", lanesum_split(communicator, NULL, 0, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_channel(NULL, &other, &error));
    REFUSED(ARGUMENT, "null", lanesum_channel(communicator, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_explain(NULL, &call, &text, &error));
    REFUSED(ARGUMENT, "null", lanesum_explain(communicator, NULL, &text, &error));
    REFUSED(ARGUMENT, "null", lanesum_explain(communicator, &call, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_explain_json(NULL, &call, &text, &error));
    REFUSED(ARGUMENT, "null", lanesum_counters_json(NULL, &text, &error));
    REFUSED(ARGUMENT, "null", lanesum_describe_json(NULL, &text, &error));
    REFUSED(ARGUMENT, "null", lanesum_issued_read(NULL, &receipt, &error));
    REFUSED(ARGUMENT, "null", lanesum_issued_poll(NULL, &truth, &error));
    REFUSED(ARGUMENT, "null", lanesum_issued_wait(NULL, &error));
    /* No error is wanted, and its absence is not followed either. */
    CHECK(lanesum_check(NULL, NULL) == ARGUMENT);
    CHECK(value == 1 && issued == NULL && other == NULL && text == NULL);

    WELL(lanesum_barrier(communicator, &issued, &error));
    REFUSED(ARGUMENT, "null", lanesum_issued_read(issued, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_issued_poll(issued, NULL, &error));
    receipt.size = 8;
    REFUSED(ARGUMENT, "size", lanesum_issued_read(issued, &receipt, &error));
    lanesum_issued_free(issued);
}

static void nothing_ends(void) {
    lanesum_free(NULL);
    lanesum_error_free(NULL);
    lanesum_issued_free(NULL);
    lanesum_options_free(NULL);
    lanesum_string_free(NULL);
    CHECK(lanesum_error_status(NULL) == LANESUM_STATUS_OK && lanesum_error_hint(NULL) == NULL);
    CHECK(*lanesum_error_message(NULL) == 0 && *lanesum_error_cause(NULL) == 0 && *lanesum_error_kind(NULL) == 0);
    CHECK(lanesum_error_ranks(NULL, NULL, 0) == 0);
    CHECK(strcmp(lanesum_status_name(4711), "unknown") == 0);
    CHECK(strcmp(lanesum_status_name(LANESUM_STATUS_RANK_LOST), "rank_lost") == 0);
    CHECK(lanesum_abi_version() == LANESUM_ABI_VERSION && strlen(lanesum_version()) >= 5);
}

static void wrong_calls(const lanesum_communicator *communicator) {
    const lanesum_status ARGUMENT = LANESUM_STATUS_ARGUMENT, BUFFER = LANESUM_STATUS_BUFFER;
    float memory[8] = {1, 2, 3, 4, 5, 6, 7, 8}, kept[8];
    memcpy(kept, memory, sizeof kept);
    lanesum_issued *issued = (lanesum_issued *)memory;
    const lanesum_call good = call_in_place(memory, 4, LANESUM_DTYPE_F32);
#define WRONG(status, kind, field, value)                                        \
    do {                                                                         \
        lanesum_call call = good;                                                \
        call.field = value;                                                      \
        REFUSED(status, kind, lanesum_all_reduce(communicator, &call, &issued, &error)); \
        CHECK(issued == NULL && memcmp(kept, memory, sizeof kept) == 0);         \
        issued = (lanesum_issued *)memory;                                       \
    } while (0)
    WRONG(LANESUM_STATUS_DTYPE, "dtype", dtype, 0);
    WRONG(LANESUM_STATUS_DTYPE, "dtype", dtype, 4);
    WRONG(LANESUM_STATUS_DTYPE, "dtype", dtype, UINT32_MAX);
    WRONG(ARGUMENT, "value", operation, 0);
    WRONG(ARGUMENT, "value", operation, 4);
    WRONG(ARGUMENT, "value", memory, 0);
    WRONG(ARGUMENT, "value", memory, 3);
    WRONG(ARGUMENT, "reserved", reserved, 1);
    WRONG(ARGUMENT, "size", size, 0);
    WRONG(ARGUMENT, "size", size, sizeof good - 1);
    WRONG(ARGUMENT, "size", size, SIZE_MAX);
    WRONG(ARGUMENT, "misaligned", label, (const uint64_t *)((const char *)memory + 1));
    WRONG(BUFFER, "host_stream", stream, memory);
    WRONG(BUFFER, "null", input, NULL);
    WRONG(BUFFER, "null", output, NULL);
    WRONG(BUFFER, "overlap", output, memory + 1);
    WRONG(BUFFER, "overlap", output, (char *)memory + 15);
    WRONG(BUFFER, "too_large", elements, UINT64_MAX);
    WRONG(BUFFER, "too_large", elements, UINT64_MAX / 8 + 1);
    /* No GPU was asked for. */
    WRONG(LANESUM_STATUS_REFUSED, "decision", memory, LANESUM_MEMORY_DEVICE);
    REFUSED(ARGUMENT, "misaligned",
            lanesum_all_reduce(communicator, (const lanesum_call *)((const char *)&good + 1), NULL, &error));

    /* A later header's call is obeyed as long as it asks for nothing new. */
    struct {
        lanesum_call call;
        uint64_t further;
    } later = {good, 0};
    later.call.size = sizeof later;
    WELL(lanesum_all_reduce(communicator, &later.call, NULL, &error));
    later.further = 1;
    REFUSED(ARGUMENT, "later", lanesum_all_reduce(communicator, &later.call, NULL, &error));
    /* Nothing needs no memory, and memory side by side does not overlap. */
    lanesum_call none = call_in_place(NULL, 0, LANESUM_DTYPE_BF16);
    WELL(lanesum_all_reduce(communicator, &none, NULL, &error));
    lanesum_call beside = good;
    beside.output = memory + 4;
    WELL(lanesum_all_reduce(communicator, &beside, NULL, &error));
    CHECK(memcmp(memory, memory + 4, 16) == 0);
}

static void later_receipt(const lanesum_communicator *communicator) {
    lanesum_issued *issued = NULL;
    WELL(lanesum_barrier(communicator, &issued, &error));
    struct {
        lanesum_receipt receipt;
        uint64_t further;
    } later = {LANESUM_RECEIPT_INIT, 5};
    later.receipt.size = sizeof later;
    WELL(lanesum_issued_read(issued, &later.receipt, &error));
    CHECK(later.receipt.size == sizeof later && later.further == 0 && later.receipt.state == LANESUM_STATE_DONE);
    lanesum_issued_free(issued);
}

static void options(const char *name) {
    const lanesum_status ARGUMENT = LANESUM_STATUS_ARGUMENT, PLAN = LANESUM_STATUS_PLAN;
    lanesum_options *options = NULL;
    lanesum_communicator *communicator = NULL;
    REFUSED(ARGUMENT, "null", lanesum_options_new(NULL, &error));
    WELL(lanesum_options_new(&options, &error));
    REFUSED(PLAN, "plan", lanesum_options_set_engine(options, "abacus", &error));
    REFUSED(PLAN, "plan", lanesum_options_set_algorithm(options, "", &error));
    REFUSED(PLAN, "plan", lanesum_options_set_path(options, "PEER", &error));
    REFUSED(PLAN, "plan", lanesum_options_set_tree(options, "(0", &error));
    REFUSED(ARGUMENT, "not_text", lanesum_options_set_isa(options, "\xFF", &error));
    REFUSED(ARGUMENT, "null", lanesum_options_set_engine(options, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_options_set_directory(options, NULL, &error));
    REFUSED(ARGUMENT, "null", lanesum_options_set_device(NULL, 0, &error));

    WELL(lanesum_options_set_engine(options, "host", &error));
    WELL(lanesum_options_set_algorithm(options, "auto", &error));
    WELL(lanesum_options_set_path(options, "auto", &error));
    WELL(lanesum_options_set_tree(options, "0", &error));
    WELL(lanesum_options_set_isa(options, "scalar", &error));
    WELL(lanesum_options_set_shared_capacity(options, 0, &error));
    WELL(lanesum_options_set_setup_deadline_ms(options, 20000, &error));
    WELL(lanesum_options_set_deadline_ms(options, 0, &error));
    REFUSED(LANESUM_STATUS_REFUSED, "deadline",
            lanesum_join(LANESUM_ABI_VERSION, 0, 1, name, options, &communicator, &error));
    WELL(lanesum_options_set_deadline_ms(options, 4000, &error));
    WELL(lanesum_options_set_staging(options, 4095, &error));
    REFUSED(PLAN, "plan", lanesum_join(LANESUM_ABI_VERSION, 0, 1, name, options, &communicator, &error));
    WELL(lanesum_options_set_staging(options, 8192, &error));
    WELL(lanesum_join(LANESUM_ABI_VERSION, 0, 1, name, options, &communicator, &error));
    lanesum_options_free(options);
    uint64_t ms = 0;
    WELL(lanesum_deadline_ms(communicator, &ms, &error));
    CHECK(ms == 4000);
    char *text = NULL;
    WELL(lanesum_describe_json(communicator, &text, &error));
    CHECK(strstr(text, "\"isa\":\"scalar\"") != NULL && strstr(text, "\"tree\":\"0\"") != NULL);
    lanesum_string_free(text);
    REFUSED(LANESUM_STATUS_REFUSED, "deadline", lanesum_set_deadline_ms(communicator, 0, &error));
    lanesum_free(communicator);
}

static void joins(const char *name) {
    lanesum_communicator *communicator = (lanesum_communicator *)&error;
    REFUSED(LANESUM_STATUS_ABI, "abi",
            lanesum_join(LANESUM_ABI_VERSION + 1, 0, 1, name, NULL, &communicator, &error));
    CHECK(communicator == NULL);
    REFUSED(LANESUM_STATUS_ABI, "abi", lanesum_join_from_env(0, NULL, &communicator, &error));
    REFUSED(LANESUM_STATUS_ENVIRONMENT, "environment",
            lanesum_join_from_env(LANESUM_ABI_VERSION, NULL, &communicator, &error));
    REFUSED(LANESUM_STATUS_PLAN, "plan",
            lanesum_join(LANESUM_ABI_VERSION, 0, 17, name, NULL, &communicator, &error));
    REFUSED(LANESUM_STATUS_PLAN, "plan", lanesum_join(LANESUM_ABI_VERSION, 2, 2, name, NULL, &communicator, &error));
    REFUSED(LANESUM_STATUS_ARGUMENT, "not_text",
            lanesum_join(LANESUM_ABI_VERSION, 0, 1, "\xC0\xAF", NULL, &communicator, &error));
    /* The other rank never comes. */
    lanesum_options *options = NULL;
    WELL(lanesum_options_new(&options, &error));
    WELL(lanesum_options_set_setup_deadline_ms(options, 50, &error));
    EXPECT(LANESUM_STATUS_RENDEZVOUS, lanesum_join(LANESUM_ABI_VERSION, 0, 2, name, options, &communicator, &error));
    uint32_t ranks[16] = {0};
    CHECK(lanesum_error_ranks(error, ranks, 16) == 1 && ranks[0] == 1);
    lanesum_error_free(error);
    error = NULL;
    lanesum_options_free(options);
}

static void closed(lanesum_communicator *communicator) {
    const lanesum_status CLOSED = LANESUM_STATUS_CLOSED;
    float value = 3;
    lanesum_call call = call_in_place(&value, 1, LANESUM_DTYPE_F32);
    lanesum_communicator *other = NULL;
    char *text = NULL;
    uint64_t ms = 0;
    size_t count = 0;
    uint32_t rank = 9;
    WELL(lanesum_close(communicator, &error));
    REFUSED(CLOSED, "closed", lanesum_all_reduce(communicator, &call, NULL, &error));
    REFUSED(CLOSED, "closed", lanesum_barrier(communicator, NULL, &error));
    REFUSED(CLOSED, "closed", lanesum_check(communicator, &error));
    REFUSED(CLOSED, "closed", lanesum_split(communicator, NULL, 0, &other, &error));
    REFUSED(CLOSED, "closed", lanesum_channel(communicator, &other, &error));
    REFUSED(CLOSED, "closed", lanesum_explain(communicator, &call, &text, &error));
    REFUSED(CLOSED, "closed", lanesum_counters_json(communicator, &text, &error));
    REFUSED(CLOSED, "closed", lanesum_describe_json(communicator, &text, &error));
    REFUSED(CLOSED, "closed", lanesum_deadline_ms(communicator, &ms, &error));
    REFUSED(CLOSED, "closed", lanesum_set_deadline_ms(communicator, 5, &error));
    REFUSED(CLOSED, "closed", lanesum_lost_ranks(communicator, NULL, 0, &count, &error));
    WELL(lanesum_rank(communicator, &rank, &error));
    CHECK(value == 3 && rank == 0);
}

static void reports(const lanesum_communicator *communicator) {
    char *text = NULL;
    lanesum_call call = LANESUM_CALL_INIT;
    call.elements = 7168;
    call.dtype = LANESUM_DTYPE_BF16;
    WELL(lanesum_explain(communicator, &call, &text, &error));
    CHECK(strstr(text, "alone") != NULL);
    lanesum_string_free(text);
    WELL(lanesum_explain_json(communicator, &call, &text, &error));
    CHECK(text[0] == '{' && strstr(text, "alone") != NULL);
    lanesum_string_free(text);
    call.dtype = 0;
    REFUSED(LANESUM_STATUS_DTYPE, "dtype", lanesum_explain(communicator, &call, &text, &error));
    WELL(lanesum_counters_json(communicator, &text, &error));
    CHECK(text[0] == '{' && strstr(text, "\"by_algorithm\":{") != NULL && strstr(text, "\"device\":null") != NULL);
    lanesum_string_free(text);
}

int main(int count, char **words) {
    CHECK(count == 4);
    /* As the library has them. */
    CHECK(sizeof(lanesum_call) == 64 && sizeof(lanesum_receipt) == 72 && sizeof(lanesum_status) == 4);
    lanesum_communicator *communicator = joined(words, NULL);
    nothing_ends();
    null_handles(communicator);
    wrong_calls(communicator);
    later_receipt(communicator);
    reports(communicator);
    closed(communicator);
    lanesum_free(communicator);
    options(words[3]);
    joins(words[3]);
    puts("well");
    return 0;
}
