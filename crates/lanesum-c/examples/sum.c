/*
 * Sums a tensor over the ranks that a launcher started, and prints what ran:
 *
 *   cc sum.c $(pkg-config --cflags --libs lanesum) -o sum
 *   lanesum launch -n 2 -- ./sum
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <lanesum.h>

/* One step of the work: what it returns says how far it came, `*error` why not further. */
static lanesum_status step(const lanesum_communicator *communicator, float *tensor, uint64_t elements,
                           lanesum_error **error) {
    lanesum_call call = LANESUM_CALL_INIT;
    call.input = tensor;
    call.output = tensor;
    call.elements = elements;
    call.dtype = LANESUM_DTYPE_F32;

    lanesum_issued *issued;
    lanesum_status status = lanesum_all_reduce(communicator, &call, &issued, error);
    if (status != LANESUM_STATUS_OK) {
        return status;
    }
    lanesum_receipt receipt = LANESUM_RECEIPT_INIT;
    status = lanesum_issued_read(issued, &receipt, error);
    if (status == LANESUM_STATUS_OK) {
        printf("call %" PRIu64 ": %" PRIu64 " bytes by %s, engine %s, path %s; every element is %g\n", receipt.ordinal,
               receipt.bytes, receipt.algorithm, receipt.engine, receipt.path, (double)tensor[elements - 1]);
    }
    lanesum_issued_free(issued);
    return status;
}

/* Joins, works, leaves. */
static lanesum_status work(lanesum_error **error) {
    lanesum_communicator *communicator;
    lanesum_status status = lanesum_join_from_env(LANESUM_ABI_VERSION, NULL, &communicator, error);
    if (status != LANESUM_STATUS_OK) {
        return status;
    }
    uint32_t rank = 0;
    status = lanesum_rank(communicator, &rank, error);

    enum { ELEMENTS = 7168 };
    static float tensor[ELEMENTS];
    for (size_t i = 0; i < ELEMENTS; i++) {
        tensor[i] = (float)rank + 1.0F;
    }
    if (status == LANESUM_STATUS_OK) {
        status = step(communicator, tensor, ELEMENTS, error);
    }
    if (status == LANESUM_STATUS_OK) {
        status = lanesum_close(communicator, error);
    }
    lanesum_free(communicator);
    return status;
}

int main(void) {
    lanesum_error *error = NULL;
    lanesum_status status = work(&error);
    if (status == LANESUM_STATUS_OK) {
        return EXIT_SUCCESS;
    }
    /* What went wrong, what to do, and whom it names. */
    fprintf(stderr, "%s: %s\n", lanesum_status_name(status), lanesum_error_message(error));
    uint32_t ranks[16];
    size_t named = lanesum_error_ranks(error, ranks, 16);
    for (size_t i = 0; i < named && i < 16; i++) {
        fprintf(stderr, "  rank %" PRIu32 "\n", ranks[i]);
    }
    lanesum_error_free(error);
    return EXIT_FAILURE;
}
