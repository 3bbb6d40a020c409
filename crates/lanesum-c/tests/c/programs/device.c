/* Sums in memory of a GPU, on streams and in a graph. The driver's functions are declared here: no toolkit is needed. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

typedef uint64_t address;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(address *memory, size_t bytes);
int cuMemFree_v2(address memory);
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags);
int cuGraphLaunch(void *executable, void *stream);

enum { ELEMENTS = 4099, BYTES = ELEMENTS * 4 };

static lanesum_error *error;
static float host[ELEMENTS];

static void *own_stream(int ordinal) {
    int device = 0;
    void *context = NULL, *stream = NULL;
    CHECK(cuInit(0) == 0 && cuDeviceGet(&device, ordinal) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0 && cuCtxSetCurrent(context) == 0);
    CHECK(cuStreamCreate(&stream, 1) == 0);
    return stream;
}

static void *pointer(address memory) { return (void *)(uintptr_t)memory; }

static void fill(address memory, float value) {
    for (size_t i = 0; i < ELEMENTS; i++) {
        host[i] = value;
    }
    CHECK(cuMemcpyHtoD_v2(memory, host, BYTES) == 0);
}

static void holds(address memory, float value) {
    CHECK(cuMemcpyDtoH_v2(host, memory, BYTES) == 0);
    for (size_t i = 0; i < ELEMENTS; i++) {
        CHECK(host[i] == value);
    }
}

static void enqueued(const lanesum_communicator *communicator, lanesum_call call, address output, float total) {
    lanesum_issued *issued = NULL;
    WELL(lanesum_all_reduce(communicator, &call, &issued, &error));
    WELL(lanesum_issued_wait(issued, &error));
    bool completed = false;
    WELL(lanesum_issued_poll(issued, &completed, &error));
    CHECK(completed);
    lanesum_receipt receipt = LANESUM_RECEIPT_INIT;
    WELL(lanesum_issued_read(issued, &receipt, &error));
    CHECK(receipt.state == LANESUM_STATE_ENQUEUED && receipt.bytes == BYTES && receipt.epoch == 0);
    CHECK(strcmp(receipt.engine, "cuda") == 0 && strcmp(receipt.path, "unknown") != 0);
    /* A child has no part in what is on the GPU. */
    pid_t child = fork();
    if (child == 0) {
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_issued_wait(issued, &error));
        REFUSED(LANESUM_STATUS_FORKED, "forked", lanesum_issued_poll(issued, &completed, &error));
        WELL(lanesum_issued_read(issued, &receipt, &error));
        lanesum_issued_free(issued);
        _exit(0);
    }
    int end = 1;
    CHECK(waitpid(child, &end, 0) == child && end == 0);
    lanesum_issued_free(issued);
    holds(output, total);
}

static void captured(const lanesum_communicator *communicator, lanesum_call call, address memory) {
    void *stream = call.stream, *graph = NULL, *executable = NULL;
    CHECK(cuStreamBeginCapture_v2(stream, 1) == 0);
    call.operation = LANESUM_OPERATION_MAX;
    for (uint32_t position = 0; position < 2; position++) {
        lanesum_issued *issued = NULL;
        WELL(lanesum_all_reduce(communicator, &call, &issued, &error));
        lanesum_receipt receipt = LANESUM_RECEIPT_INIT;
        WELL(lanesum_issued_read(issued, &receipt, &error));
        CHECK(receipt.state == LANESUM_STATE_CAPTURED && receipt.capture == 0 && receipt.position == position);
        bool completed = false;
        REFUSED(LANESUM_STATUS_REFUSED, "captured", lanesum_issued_wait(issued, &error));
        REFUSED(LANESUM_STATUS_REFUSED, "captured", lanesum_issued_poll(issued, &completed, &error));
        lanesum_issued_free(issued);
    }
    CHECK(cuStreamEndCapture(stream, &graph) == 0);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    for (int launch = 0; launch < 3; launch++) {
        CHECK(cuGraphLaunch(executable, stream) == 0);
    }
    CHECK(cuStreamSynchronize(stream) == 0);
    WELL(lanesum_check(communicator, &error));
    holds(memory, 2);
}

int main(int count, char **words) {
    CHECK(count == 4);
    lanesum_options *options = NULL;
    uint32_t rank = 0, device = 99;
    bool has_device = false;
    WELL(lanesum_options_new(&options, &error));
    WELL(lanesum_options_set_device(options, (uint32_t)atoi(words[1]), &error));
    lanesum_communicator *communicator = joined(words, options);
    lanesum_options_free(options);
    WELL(lanesum_rank(communicator, &rank, &error));
    WELL(lanesum_device(communicator, &has_device, &device, &error));
    CHECK(has_device && device == rank);

    void *stream = own_stream((int)device);
    address in = 0, out = 0;
    CHECK(cuMemAlloc_v2(&in, BYTES) == 0 && cuMemAlloc_v2(&out, BYTES) == 0);
    lanesum_call call = call_in_place(pointer(in), ELEMENTS, LANESUM_DTYPE_F32);
    call.memory = LANESUM_MEMORY_DEVICE;
    /* The default stream, then one of its own. */
    fill(in, (float)rank + 1);
    enqueued(communicator, call, in, 3);
    call.stream = stream;
    call.output = pointer(out);
    fill(in, (float)rank + 1);
    enqueued(communicator, call, out, 3);
    holds(in, (float)rank + 1);
    REFUSED(LANESUM_STATUS_BUFFER, "overlap",
            (call.output = pointer(in + 4), lanesum_all_reduce(communicator, &call, NULL, &error)));

    call.output = pointer(in);
    captured(communicator, call, in);
    char *text = NULL;
    WELL(lanesum_counters_json(communicator, &text, &error));
    CHECK(strstr(text, "\"device\":{\"calls\":8,") != NULL);
    lanesum_string_free(text);
    /* Memory of the host is reduced as well. */
    float value = 1;
    lanesum_call small = call_in_place(&value, 1, LANESUM_DTYPE_F32);
    WELL(lanesum_all_reduce(communicator, &small, NULL, &error));
    CHECK(value == 2);
    /* A receipt outlives the communicator. */
    lanesum_issued *last = NULL;
    WELL(lanesum_all_reduce(communicator, &call, &last, &error));
    WELL(lanesum_close(communicator, &error));
    lanesum_free(communicator);
    WELL(lanesum_issued_wait(last, &error));
    lanesum_issued_free(last);
    CHECK(cuMemFree_v2(in) == 0 && cuMemFree_v2(out) == 0);
    puts("well");
    return 0;
}
