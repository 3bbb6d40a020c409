/*
 * lanesum sums a tensor over the ranks of one host: a receipt or an error, the same bits on every rank, and no wait without an end.
 *
 * Written by `cargo xtask docs` from crates/lanesum-c: change it there. docs/c.md is the guide, examples/sum.c a whole program.
 *
 * What holds for all functions:
 *
 * - One that can fail returns a lanesum_status, and it must be looked at. Its last argument may be NULL; else it gets the error, which is
 *   the caller's, to be ended with lanesum_error_free, or NULL where all went well. What it held before is not ended.
 * - Handles that a call hands over are the caller's, and each has a function that ends it. Where a call fails they are NULL.
 * - Every pointer is NULL or points to a live value of its type. A NULL that is not allowed is LANESUM_STATUS_ARGUMENT and no crash.
 *   Text is UTF-8 and ends with a NUL; what is given is copied.
 * - Threads may come and go. Different handles may be used by different threads at once; what one handle allows, its type says.
 * - No panic, exception or longjmp leaves the library, and none may pass through it. It installs no signal handler.
 * - A child that was forked can't use its parent's communicators: LANESUM_STATUS_FORKED.
 */


#ifndef LANESUM_H
#define LANESUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The compiler warns where a status is not looked at. */
#if defined(__GNUC__)
#define LANESUM_MUST_USE __attribute__((warn_unused_result))
#else
#define LANESUM_MUST_USE
#endif

/** How a lanesum_call begins: a sum in memory of the host, of no elements and no dtype yet. */
#define LANESUM_CALL_INIT \
  {sizeof(lanesum_call), NULL, NULL, 0, NULL, NULL, 0, LANESUM_OPERATION_SUM, LANESUM_MEMORY_HOST, 0}

/** How a lanesum_receipt begins. */
#define LANESUM_RECEIPT_INIT \
  {sizeof(lanesum_receipt), NULL, NULL, NULL, 0, 0, 0, LANESUM_STATE_DONE, 0, 0, 0}


/**
 * The ABI of this header. It counts up when something is changed that programs rely on, and stays when something is added.
 */
#define LANESUM_ABI_VERSION 1

/**
 * How a call ended. Numbers keep their meaning; new ones may be added.
 */
typedef enum lanesum_status {
  /**
   * It went well. Every other value comes with a message.
   */
  LANESUM_STATUS_OK = 0,
  /**
   * The environment does not say who this rank is.
   */
  LANESUM_STATUS_ENVIRONMENT = 1,
  /**
   * The ranks did not find each other, or did not agree.
   */
  LANESUM_STATUS_RENDEZVOUS = 2,
  /**
   * There is no such word, tree or plan.
   */
  LANESUM_STATUS_PLAN = 3,
  /**
   * The shared memory could not be set up.
   */
  LANESUM_STATUS_SEGMENT = 4,
  /**
   * The system refused a thread or another service.
   */
  LANESUM_STATUS_RESOURCE = 5,
  /**
   * This rank's GPU can't be used.
   */
  LANESUM_STATUS_CUDA = 6,
  /**
   * A peer's GPU can't be used.
   */
  LANESUM_STATUS_PEER_DEVICE = 7,
  /**
   * The call failed after it had started: the output holds NaN, and the communicator is spent.
   */
  LANESUM_STATUS_FAULT = 8,
  /**
   * As `LANESUM_STATUS_FAULT`, because a rank ended.
   */
  LANESUM_STATUS_RANK_LOST = 9,
  /**
   * As `LANESUM_STATUS_FAULT`, because ranks did not come before the deadline.
   */
  LANESUM_STATUS_LATE = 10,
  /**
   * As `LANESUM_STATUS_FAULT`, because two ranks called different things; both are named.
   */
  LANESUM_STATUS_MISMATCH = 11,
  /**
   * An earlier call failed: the output holds NaN (in a capture, nothing was recorded).
   */
  LANESUM_STATUS_POISONED = 12,
  /**
   * The call was refused: nothing happened, the output is untouched. So it is with all values from here on but the last two.
   */
  LANESUM_STATUS_REFUSED = 13,
  /**
   * This process is a forked child, and the communicator its parent's.
   */
  LANESUM_STATUS_FORKED = 14,
  /**
   * The communicator is closed.
   */
  LANESUM_STATUS_CLOSED = 15,
  /**
   * Another thread is in a call of the communicator.
   */
  LANESUM_STATUS_BUSY = 16,
  /**
   * The memory can't be reduced as it is.
   */
  LANESUM_STATUS_BUFFER = 17,
  /**
   * There is no such type of elements.
   */
  LANESUM_STATUS_DTYPE = 18,
  /**
   * The memory is on a GPU that the communicator does not reduce on.
   */
  LANESUM_STATUS_DEVICE = 19,
  /**
   * An argument is NULL, misaligned, no text, or none of the values that there are.
   */
  LANESUM_STATUS_ARGUMENT = 20,
  /**
   * The program was compiled with the header of another ABI than the library's.
   */
  LANESUM_STATUS_ABI = 21,
  /**
   * A fault of lanesum itself: please report it. What became of the output is not known.
   */
  LANESUM_STATUS_PANICKED = 22,
  /**
   * An error of the library that this ABI has no value for.
   */
  LANESUM_STATUS_UNKNOWN = 23,
} lanesum_status;

/**
 * How far a call had come when it returned.
 */
typedef enum lanesum_state {
  /**
   * It is complete: the output holds the result. Calls on memory of the host are.
   */
  LANESUM_STATE_DONE = 1,
  /**
   * It is on the caller's stream. Calls on memory of a GPU are.
   */
  LANESUM_STATE_ENQUEUED = 2,
  /**
   * It was recorded into the graph that the stream is captured into, and runs each time that the graph is launched.
   */
  LANESUM_STATE_CAPTURED = 3,
} lanesum_state;

/**
 * The type of an element.
 */
typedef enum lanesum_dtype {
  /**
   * IEEE 754 binary32: `float`.
   */
  LANESUM_DTYPE_F32 = 1,
  /**
   * IEEE 754 binary16: `_Float16`, `__half`.
   */
  LANESUM_DTYPE_F16 = 2,
  /**
   * The upper half of a binary32: `__nv_bfloat16`.
   */
  LANESUM_DTYPE_BF16 = 3,
} lanesum_dtype;

/**
 * How two values become one.
 */
typedef enum lanesum_operation {
  /**
   * Addition in f32, in the same order on all ranks and for all lengths, rounded once.
   */
  LANESUM_OPERATION_SUM = 1,
  /**
   * IEEE 754-2019 maximum: NaN wins, +0 is above -0.
   */
  LANESUM_OPERATION_MAX = 2,
  /**
   * IEEE 754-2019 minimum: NaN wins, -0 is below +0.
   */
  LANESUM_OPERATION_MIN = 3,
} lanesum_operation;

/**
 * Where the memory of a call is.
 */
typedef enum lanesum_memory {
  /**
   * On the host: the call is done when it returns.
   */
  LANESUM_MEMORY_HOST = 1,
  /**
   * On the communicator's GPU, in the order of a stream.
   */
  LANESUM_MEMORY_DEVICE = 2,
} lanesum_memory;

/**
 * One rank's end of a group of ranks that reduce together. It is the caller's, who leaves the group with `lanesum_close` and ends the
 * handle with `lanesum_free`.
 *
 * One thread at a time calls, in an order that is the same on all ranks; which thread it is does not matter. One that comes while another
 * is in a call gets `LANESUM_STATUS_BUSY`, and nothing happens. For a second order there is `lanesum_channel`.
 *
 * After a fault the communicator is spent: outputs hold NaN, and further calls return `LANESUM_STATUS_POISONED`. Peers learn of it by
 * themselves. Make a new one, by fewer ranks where some are lost.
 */
typedef struct lanesum_communicator lanesum_communicator;

/**
 * Why a call did not succeed: whom it names, and what to do. It is the caller's, who ends it with `lanesum_error_free`. Any thread may
 * read it, and its texts live as long as it does.
 */
typedef struct lanesum_error lanesum_error;

/**
 * Proof that a named reduction was issued on this rank. It is the caller's, who ends it with `lanesum_issued_free`, also after the
 * communicator's end. Any thread may use it.
 */
typedef struct lanesum_issued lanesum_issued;

/**
 * How a rank joins: what is not set is the library's to choose. Opaque, so that options can be added. It is the caller's, who ends it
 * with `lanesum_options_free`, and one thread at a time uses it. Joining only reads it, so it may serve many times.
 *
 * What is set is compared among the ranks when they join, but for the deadlines, the device, the instruction set and the directory.
 */
typedef struct lanesum_options lanesum_options;

/**
 * What to reduce, and where. Begin with `LANESUM_CALL_INIT`, which sets the size, a sum, and memory of the host; the rest is 0, and a
 * dtype of 0 is refused. The library only reads it, during the call.
 */
typedef struct lanesum_call {
  /**
   * `sizeof(lanesum_call)`: later ABIs may have more fields.
   */
  size_t size;
  /**
   * First element of the input, at any alignment.
   */
  const void *input;
  /**
   * First element of the output, at any alignment: the input itself, or disjoint from it.
   */
  void *output;
  /**
   * Number of elements, not of bytes; the same on all ranks, and 0 will do.
   */
  uint64_t elements;
  /**
   * NULL, or a mark of the call: ranks whose calls carry different labels fail with both named, so that equal calls in another order are
   * found out.
   */
  const uint64_t *label;
  /**
   * For memory of a GPU: a `cudaStream_t` or `CUstream` of its primary context, or NULL for the default stream. For memory of the host:
   * NULL.
   */
  void *stream;
  /**
   * One of `lanesum_dtype`.
   */
  uint32_t dtype;
  /**
   * One of `lanesum_operation`.
   */
  uint32_t operation;
  /**
   * One of `lanesum_memory`.
   */
  uint32_t memory;
  /**
   * 0.
   */
  uint32_t reserved;
} lanesum_call;

/**
 * What a receipt says. Begin with `LANESUM_RECEIPT_INIT`, which sets the size; `lanesum_issued_read` fills in the rest.
 */
typedef struct lanesum_receipt {
  /**
   * `sizeof(lanesum_receipt)`: later ABIs may have more fields.
   */
  size_t size;
  /**
   * The algorithm that ran, or will, as `two_shot_pull`. This text and the next two are the library's, and live as long as that.
   */
  const char *algorithm;
  /**
   * The engine that ran it: `host` or `cuda`.
   */
  const char *engine;
  /**
   * How bytes reached the peers, as `shared_memory`.
   */
  const char *path;
  /**
   * Bytes of the message on one rank.
   */
  uint64_t bytes;
  /**
   * Number of the call on its communicator, from 0; of a call that was captured, 0.
   */
  uint64_t ordinal;
  /**
   * Epoch of the call's last exchange, from 1; 0 of calls on GPUs, where epochs live on the device.
   */
  uint64_t epoch;
  /**
   * How far the call had come.
   */
  enum lanesum_state state;
  /**
   * Number of the capture, from 0; of a call that was not captured, 0.
   */
  uint32_t capture;
  /**
   * Number of the call in its capture, from 0; of a call that was not captured, 0.
   */
  uint32_t position;
  /**
   * 0.
   */
  uint32_t reserved;
} lanesum_receipt;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Combines each element over all ranks; every rank gets the same bits. 16-bit elements are summed in f32 and rounded once. On success
 * the named reduction was issued: on memory of the host it is done; on memory of a GPU it is enqueued on the stream, where work behind it
 * sees the result, or recorded into the graph that the stream is captured into.
 *
 * `issued` may be NULL. Else on success `*issued` is the caller's, who ends it with `lanesum_issued_free`, and on failure NULL.
 *
 * The memory is as large as `call` says, and nobody else touches the output, or writes to the input, before the call has completed; for
 * a call that is captured, while its graph runs. A stream lives until the communicator's next call, and as long as receipts of its calls
 * are asked. On memory of the host the calling thread waits for peers, each time for the deadline at most.
 *
 * The output is untouched after `LANESUM_STATUS_REFUSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY`,
 * `LANESUM_STATUS_BUFFER`, `LANESUM_STATUS_DTYPE` and `LANESUM_STATUS_ARGUMENT`; it holds NaN after `LANESUM_STATUS_RANK_LOST`,
 * `LANESUM_STATUS_LATE`, `LANESUM_STATUS_MISMATCH`, `LANESUM_STATUS_FAULT` and `LANESUM_STATUS_POISONED`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_all_reduce(const struct lanesum_communicator *communicator,
                                       const struct lanesum_call *call,
                                       struct lanesum_issued **issued,
                                       struct lanesum_error **error);

/**
 * Returns when every rank has called it. `issued` is as with `lanesum_all_reduce`.
 *
 * Fails as `lanesum_all_reduce`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_barrier(const struct lanesum_communicator *communicator,
                                    struct lanesum_issued **issued,
                                    struct lanesum_error **error);

/**
 * Tells whether calls on streams, or launches of graphs, have met a fault meanwhile; never waits. Calls ask by themselves.
 *
 * Fails with `LANESUM_STATUS_POISONED` and the first fault, with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY`
 * or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_check(const struct lanesum_communicator *communicator,
                                  struct lanesum_error **error);

/**
 * Leaves the communicator: peers that still call are told that this rank is gone, so close after every rank's last call. On a GPU it waits
 * for the communicator's calls there. Whatever is returned but `LANESUM_STATUS_BUSY`, the communicator is closed; doing so again has
 * no effect.
 *
 * Fails with `LANESUM_STATUS_POISONED` if a call had failed before, with `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or
 * `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_close(const struct lanesum_communicator *communicator,
                                  struct lanesum_error **error);

/**
 * Ends the handle, and leaves the communicator if it is not closed. NULL has no effect. No other thread may be in a call of it; receipts
 * of its calls stay the caller's.
 */
void lanesum_free(struct lanesum_communicator *communicator);

/**
 * Tells this rank, from 0. Any thread may ask, also of a closed communicator.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_rank(const struct lanesum_communicator *communicator,
                                 uint32_t *rank,
                                 struct lanesum_error **error);

/**
 * Tells the number of ranks, 1 to 16. Any thread may ask, also of a closed communicator.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_world(const struct lanesum_communicator *communicator,
                                  uint32_t *world,
                                  struct lanesum_error **error);

/**
 * Tells whether GPU memory is reduced, and if so writes the number of this rank's GPU to `device`, counted as by
 * `lanesum_options_set_device`; else that stays as it is. Any thread may ask, also of a closed communicator.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_device(const struct lanesum_communicator *communicator,
                                   bool *has_device,
                                   uint32_t *device,
                                   struct lanesum_error **error);

/**
 * Tells how many ranks' processes are known to have ended by now, and writes the first `capacity` of them, ascending, to `ranks`, which
 * may be NULL; 16 are room enough. To make a new communicator among the ranks that are left, wait until the list stays the same for a
 * moment, and number the others anew.
 *
 * Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_lost_ranks(const struct lanesum_communicator *communicator,
                                       uint32_t *ranks,
                                       size_t capacity,
                                       size_t *count,
                                       struct lanesum_error **error);

/**
 * Tells the longest that one wait of a call may last, milliseconds.
 *
 * Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_deadline_ms(const struct lanesum_communicator *communicator,
                                        uint64_t *ms,
                                        struct lanesum_error **error);

/**
 * Changes the deadline of this rank's calls to come, and of those that are on a stream or in a graph, milliseconds.
 *
 * Fails with `LANESUM_STATUS_REFUSED` outside 1 ms to 24 days, with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`,
 * `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_set_deadline_ms(const struct lanesum_communicator *communicator,
                                            uint64_t ms,
                                            struct lanesum_error **error);

/**
 * The status that the call returned; `LANESUM_STATUS_OK` of NULL.
 */
enum lanesum_status lanesum_error_status(const struct lanesum_error *error);

/**
 * What went wrong and, after `hint:`, what to do; empty of NULL. The error's.
 */
const char *lanesum_error_message(const struct lanesum_error *error);

/**
 * What went wrong, without the hint; empty of NULL. The error's.
 */
const char *lanesum_error_cause(const struct lanesum_error *error);

/**
 * What to do about it; NULL where nothing can be done, and of NULL. The error's.
 */
const char *lanesum_error_hint(const struct lanesum_error *error);

/**
 * A word that tells the cases of a status apart, for programs, as `died` and `departed` of `LANESUM_STATUS_RANK_LOST`; empty of NULL.
 * The library's, which lives as long as that.
 */
const char *lanesum_error_kind(const struct lanesum_error *error);

/**
 * How many ranks the error names: 0 if it is about this rank alone, and of NULL. The first `capacity` of them, ascending, are written to
 * `ranks`, which may be NULL; 16 are room enough.
 */
size_t lanesum_error_ranks(const struct lanesum_error *error,
                           uint32_t *ranks,
                           size_t capacity);

/**
 * Ends an error. NULL has no effect.
 */
void lanesum_error_free(struct lanesum_error *error);

/**
 * Tells what a receipt says. `receipt` begins with `LANESUM_RECEIPT_INIT`.
 *
 * Fails with `LANESUM_STATUS_BUSY` while another thread waits for the call, and with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_issued_read(const struct lanesum_issued *issued,
                                        struct lanesum_receipt *receipt,
                                        struct lanesum_error **error);

/**
 * Tells whether the call has completed; never waits. While another thread waits for it, it has not.
 *
 * Fails as `lanesum_issued_wait`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_issued_poll(const struct lanesum_issued *issued,
                                        bool *completed,
                                        struct lanesum_error **error);

/**
 * Waits until the call has completed; for a call on a stream, until all that was enqueued there since has completed too. One thread waits
 * at a time.
 *
 * Fails with `LANESUM_STATUS_RANK_LOST`, `LANESUM_STATUS_LATE`, `LANESUM_STATUS_MISMATCH` or `LANESUM_STATUS_FAULT` if the call, or one
 * before it, has failed: its output holds NaN; with `LANESUM_STATUS_CUDA` if other work holds the stream up past the deadline; with
 * `LANESUM_STATUS_REFUSED` if it was captured; with `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY` or
 * `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_issued_wait(const struct lanesum_issued *issued,
                                        struct lanesum_error **error);

/**
 * Ends a receipt; the call goes on. NULL has no effect. No other thread may be at it.
 */
void lanesum_issued_free(struct lanesum_issued *issued);

/**
 * Joins as rank `rank` (from 0) of `world` (1 to 16) ranks: those that give the same `name` meet, and no other job may use it. `abi` is
 * `LANESUM_ABI_VERSION`. `options` may be NULL. Waits for the other ranks, until the set-up deadline at the latest.
 *
 * On success `*communicator` is the caller's, to be ended with `lanesum_free`; else it is NULL.
 *
 * Fails with `LANESUM_STATUS_RENDEZVOUS`, `LANESUM_STATUS_PLAN`, `LANESUM_STATUS_SEGMENT`, `LANESUM_STATUS_CUDA`,
 * `LANESUM_STATUS_PEER_DEVICE`, `LANESUM_STATUS_RESOURCE`, `LANESUM_STATUS_REFUSED`, `LANESUM_STATUS_ABI` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_join(uint32_t abi,
                                 uint32_t rank,
                                 uint32_t world,
                                 const char *name,
                                 const struct lanesum_options *options,
                                 struct lanesum_communicator **communicator,
                                 struct lanesum_error **error);

/**
 * Joins the ranks that a launcher started, who are told by their environment (docs/environment.md): those of torchrun, Open MPI, MPICH,
 * Intel MPI and `lanesum launch`. The rest is as with `lanesum_join`. The environment must not be changed meanwhile.
 *
 * Fails as `lanesum_join`, and with `LANESUM_STATUS_ENVIRONMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_join_from_env(uint32_t abi,
                                          const struct lanesum_options *options,
                                          struct lanesum_communicator **communicator,
                                          struct lanesum_error **error);

/**
 * Makes a communicator of each group of ranks that give the same colour, ordered by `key`, then rank. All ranks call it. `color` is NULL
 * for ranks that take no part: they get NULL in `*part`, and `LANESUM_STATUS_OK`. Where making the group fails, this communicator remains
 * usable.
 *
 * On success `*part` is NULL or the caller's, to be ended with `lanesum_free`; else it is NULL.
 *
 * Fails as `lanesum_all_reduce` and `lanesum_join`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_split(const struct lanesum_communicator *communicator,
                                  const uint32_t *color,
                                  uint32_t key,
                                  struct lanesum_communicator **part,
                                  struct lanesum_error **error);

/**
 * Makes a second communicator of the same ranks, with calls and memory of its own, to overlap with this one: on other threads, on other
 * streams, or in graphs that run beside this one's. All ranks call it.
 *
 * On success `*channel` is the caller's, to be ended with `lanesum_free`; else it is NULL.
 *
 * Fails as `lanesum_split`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_channel(const struct lanesum_communicator *communicator,
                                    struct lanesum_communicator **channel,
                                    struct lanesum_error **error);

/**
 * Makes options of which none is set.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_new(struct lanesum_options **options,
                                        struct lanesum_error **error);

/**
 * Ends options. NULL has no effect.
 */
void lanesum_options_free(struct lanesum_options *options);

/**
 * The longest that one wait of a call may last, milliseconds: 1 ms to 24 days, which joining checks (default 30 s, or what the
 * environment says).
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_deadline_ms(struct lanesum_options *options,
                                                    uint64_t ms,
                                                    struct lanesum_error **error);

/**
 * The longest that joining may last, milliseconds: 1 ms to 24 days, which joining checks (default: the deadline).
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_setup_deadline_ms(struct lanesum_options *options,
                                                          uint64_t ms,
                                                          struct lanesum_error **error);

/**
 * Whether GPU memory is reduced too: `host` (the default; no CUDA driver is touched), `cuda` (a GPU on every rank, or joining fails and
 * says why) or `auto` (a GPU on every rank if all have one that works together with the others').
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_engine(struct lanesum_options *options,
                                               const char *engine,
                                               struct lanesum_error **error);

/**
 * Takes the GPU of this number, counted from 0 among those that `CUDA_VISIBLE_DEVICES` leaves, and asks for the engine `cuda` unless the
 * engine is set to `auto`. Without it, rank r takes device r modulo their number.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_device(struct lanesum_options *options,
                                               uint32_t ordinal,
                                               struct lanesum_error **error);

/**
 * Pins the algorithm, as `two_shot_pull`; `auto` leaves it to the plan (the default).
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_algorithm(struct lanesum_options *options,
                                                  const char *algorithm,
                                                  struct lanesum_error **error);

/**
 * Pins the path between GPUs: `peer` or `host_staged`; `auto` leaves it to the plan (the default).
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if there is no such word.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_path(struct lanesum_options *options,
                                             const char *path,
                                             struct lanesum_error **error);

/**
 * Bytes that a rank can post to its peers at once (default 1 MiB), a multiple of 4096, which joining checks. Longer messages take several
 * exchanges.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_staging(struct lanesum_options *options,
                                                uint64_t bytes,
                                                struct lanesum_error **error);

/**
 * Bytes of each rank's arena for shared buffers (default 4 MiB), a multiple of 4096, which joining checks. This ABI allocates none, but
 * peers in Rust may; 0 saves the address space.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_shared_capacity(struct lanesum_options *options,
                                                        uint64_t bytes,
                                                        struct lanesum_error **error);

/**
 * Pins the order of the sum, for equal bits between machines, as `(0+1)+2` (default: the canonical tree).
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`, and with `LANESUM_STATUS_PLAN` if it is no tree.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_tree(struct lanesum_options *options,
                                             const char *tree,
                                             struct lanesum_error **error);

/**
 * Names the instruction set to sum with, as `avx2`, which joining checks (default: the best there is). All give the same bits.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_isa(struct lanesum_options *options,
                                            const char *isa,
                                            struct lanesum_error **error);

/**
 * Where the rendezvous socket is made (default: the user's runtime directory). It must belong to the user, with mode 0700, which joining
 * checks.
 *
 * Fails with `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_options_set_directory(struct lanesum_options *options,
                                                  const char *directory,
                                                  struct lanesum_error **error);

/**
 * Tells people the decision for a call, with all that was refused and why. Of the call only dtype, operation, memory, elements and label
 * count; its memory is not touched.
 *
 * On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
 *
 * Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY`, `LANESUM_STATUS_BUFFER`, `LANESUM_STATUS_DTYPE` or
 * `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_explain(const struct lanesum_communicator *communicator,
                                    const struct lanesum_call *call,
                                    char **text,
                                    struct lanesum_error **error);

/**
 * As `lanesum_explain`, for programs: JSON.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_explain_json(const struct lanesum_communicator *communicator,
                                         const struct lanesum_call *call,
                                         char **text,
                                         struct lanesum_error **error);

/**
 * Tells what ran so far and how long each peer was waited for, in seconds, by rank: JSON with `calls`, `chunks`, `bytes`, `by_algorithm`,
 * `waited`, `naps` and `device`, which is null without a GPU. With a GPU it asks that, which takes some microseconds.
 *
 * On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
 *
 * Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_counters_json(const struct lanesum_communicator *communicator,
                                          char **text,
                                          struct lanesum_error **error);

/**
 * Tells how the communicator was made: JSON with `rank`, `world`, `device` and `without_device` (why there is no GPU although the engine is
 * `auto`), `tree`, `isa`, `memory` (bytes of host memory that the ranks share, of all together), `device_memory` (bytes of GPU memory that
 * this rank has taken for itself), `setup_time` (seconds), `plan_digest` and `topology`.
 *
 * On success `*text` is the caller's, who ends it with `lanesum_string_free`; else it is NULL.
 *
 * Fails with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY` or `LANESUM_STATUS_ARGUMENT`.
 */
LANESUM_MUST_USE
enum lanesum_status lanesum_describe_json(const struct lanesum_communicator *communicator,
                                          char **text,
                                          struct lanesum_error **error);

/**
 * Ends a text that a function handed over. NULL has no effect.
 */
void lanesum_string_free(char *text);

/**
 * The name of a `lanesum_status` in lower case, as `rank_lost`; of another number, `unknown`. The text is the library's and
 * lives as long as that. Any thread may ask.
 */
const char *lanesum_status_name(uint32_t status);

/**
 * The version of the library that runs, as `1.2.3`. The text is the library's and lives as long as that. Any thread may ask.
 */
const char *lanesum_version(void);

/**
 * The ABI of the library that runs. Joining compares it with the header's `LANESUM_ABI_VERSION`; programs that open the library by
 * `dlopen` can ask before. Any thread may ask.
 */
uint32_t lanesum_abi_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LANESUM_H */
