// Streams: each a worker thread that takes its operations in order. The NULL stream is one of them: it does not wait for the
// others of its device, nor they for it, other than with the real driver; lanesum never relies on that.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "driver.hpp"

namespace standin {

// `alive` is false once the context is dead: then nothing is to happen but what others wait for.
using Operation = std::function<void(bool alive)>;

// A point in a stream that an event has captured.
struct Mark {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    u64 time_ns = 0;

    void reach();
    void wait();
    bool is_reached();
};

struct Capture;
struct Node;

// A point in a capture: what goes on after it comes after these nodes, which are the capture's.
struct Point {
    std::shared_ptr<Capture> capture;  // null: nothing was captured
    std::vector<Node*> after;
};

struct Enqueued {
    Operation operation;
    std::shared_ptr<Mark> end;  // may be null
};

struct Stream {
    Context* const context;
    const bool blocking;  // the NULL stream would wait for it
    std::shared_ptr<Capture> capture;  // see captures.cpp
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Enqueued> queue;
    u64 queued = 0, done = 0;
    bool closing = false;

    Stream(Context* context, bool blocking);
    // Returns once everything enqueued before has run.
    void drain();
    bool is_idle();
    // `end` is reached once the operation counts as done, so that who has seen it, through whatever, finds the stream idle if
    // nothing follows: the driver's query is of operations that have completed. An operation must reach no mark itself.
    CUresult enqueue(Operation operation, std::shared_ptr<Mark> end = nullptr);
    // A point behind all that was enqueued before.
    CUresult mark(std::shared_ptr<Mark> here);
    // The worker ends after the last operation and deletes the stream.
    void close();

  private:
    void serve();
};

// The stream behind a handle, which may be null or one of the driver's two constants; null if there is none.
Stream* stream_of(Context* context, Stream* handle);
// Returns once everything that was enqueued before in all streams of the context has run.
CUresult settle(Context* context);

}  // namespace standin

// Declares `context`, the calling thread's, and `stream` behind `handle`.
#define LANESUM_STREAM                                                   \
    LANESUM_CONTEXT;                                                     \
    standin::Stream* const stream = standin::stream_of(context, handle); \
    if (stream == nullptr) return standin::INVALID_HANDLE
