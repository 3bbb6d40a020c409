#include "streams.hpp"

#include <set>
#include <sys/prctl.h>
#include <thread>

#include "captures.hpp"
#include "machine/cpu.hpp"

namespace standin {
namespace {

// Where an event was recorded last: nowhere, in a stream, or in a capture.
struct Recorded {
    std::shared_ptr<Mark> mark;
    Point point;
};
struct Event {
    u32 flags;
    Recorded recorded;
};
const u32 NON_BLOCKING = 1, DISABLE_TIMING = 2;

// Handles that are valid now.
struct Known {
    std::mutex mutex;
    std::set<Stream*> streams;
    std::set<Event*> events;
};
Known& known() {
    static Known* const all = new Known;
    return *all;
}

// False if there is no such event.
bool find(Event* event, Recorded* recorded) {
    std::lock_guard<std::mutex> guard(known().mutex);
    if (known().events.count(event) == 0) return false;
    *recorded = event->recorded;
    return true;
}

// The mark of an event that the host asks for; null if it was never recorded.
CUresult mark_of(Event* event, std::shared_ptr<Mark>* mark) {
    Recorded recorded;
    if (!find(event, &recorded)) return INVALID_HANDLE;
    if (recorded.point.capture != nullptr) return CAPTURED_EVENT;
    *mark = recorded.mark;
    return SUCCESS;
}

// What the host may not do with a stream that captures, nor in a thread that does.
CUresult refuse_wait(Stream* stream) {
    if (const CUresult refused = refuse_in_capture(stream)) return refused;
    return refuse_unsafe();
}

}  // namespace

void Mark::reach() {
    std::lock_guard<std::mutex> guard(mutex);
    reached = true;
    time_ns = clock_ns();
    changed.notify_all();
}

void Mark::wait() {
    std::unique_lock<std::mutex> guard(mutex);
    changed.wait(guard, [this] { return reached; });
}

bool Mark::is_reached() {
    std::lock_guard<std::mutex> guard(mutex);
    return reached;
}

Stream::Stream(Context* of, bool blocks) : context(of), blocking(blocks) { std::thread([this] { serve(); }).detach(); }

void Stream::serve() {
    prctl(PR_SET_NAME, "standin-stream");
    prctl(PR_SET_TIMERSLACK, 1000);
    std::unique_lock<std::mutex> guard(mutex);
    for (;;) {
        changed.wait(guard, [this] { return !queue.empty() || closing; });
        if (queue.empty()) break;
        std::shared_ptr<Mark> end;
        {
            const Enqueued next = std::move(queue.front());
            end = next.end;
            queue.pop_front();
            guard.unlock();
            next.operation(context->dead.load() == 0);
        }
        guard.lock();
        ++done;
        changed.notify_all();
        if (end != nullptr) end->reach();
    }
    guard.unlock();
    delete this;
}

void Stream::drain() {
    std::unique_lock<std::mutex> guard(mutex);
    const u64 last = queued;
    changed.wait(guard, [&] { return done >= last; });
}

bool Stream::is_idle() {
    std::lock_guard<std::mutex> guard(mutex);
    return done == queued;
}

CUresult Stream::enqueue(Operation operation, std::shared_ptr<Mark> end) {
    std::lock_guard<std::mutex> guard(mutex);
    queue.push_back({std::move(operation), std::move(end)});
    ++queued;
    changed.notify_all();
    return SUCCESS;
}

CUresult Stream::mark(std::shared_ptr<Mark> here) {
    return enqueue([](bool) {}, std::move(here));
}

void Stream::close() {
    std::lock_guard<std::mutex> guard(mutex);
    closing = true;
    changed.notify_all();
}

Stream* stream_of(Context* context, Stream* handle) {
    std::lock_guard<std::mutex> guard(known().mutex);
    if (reinterpret_cast<u64>(handle) > 2) return known().streams.count(handle) != 0 ? handle : nullptr;
    if (context->null_stream.load() == nullptr) context->null_stream.store(new Stream(context, false));
    return context->null_stream.load();
}

CUresult settle(Context* context) {
    // A mark in each stream, so that one that is destroyed meanwhile is not touched.
    std::vector<std::shared_ptr<Mark>> marks;
    stream_of(context, nullptr);
    {
        std::lock_guard<std::mutex> guard(known().mutex);
        std::vector<Stream*> streams(known().streams.begin(), known().streams.end());
        streams.push_back(context->null_stream.load());
        for (Stream* stream : streams) {
            if (stream->context != context) continue;
            auto mark = std::make_shared<Mark>();
            stream->mark(mark);
            marks.push_back(mark);
        }
    }
    for (const auto& mark : marks) mark->wait();
    return context->dead.load();
}

}  // namespace standin

using namespace standin;

LANESUM_API cuStreamCreate(Stream** out, unsigned flags) {
    LANESUM_ENTER(cuStreamCreate);
    LANESUM_CONTEXT;
    if (out == nullptr || flags > 1) return INVALID_VALUE;
    Stream* const made = new Stream(context, flags != NON_BLOCKING);
    std::lock_guard<std::mutex> guard(known().mutex);
    known().streams.insert(made);
    ++counters().handles;
    *out = made;
    return SUCCESS;
}

LANESUM_API cuStreamDestroy_v2(Stream* handle) {
    LANESUM_ENTER(cuStreamDestroy_v2);
    LANESUM_CONTEXT;
    {
        std::lock_guard<std::mutex> guard(known().mutex);
        if (known().streams.erase(handle) == 0) return INVALID_HANDLE;
        --counters().handles;
    }
    leave(handle);
    handle->close();
    return SUCCESS;
}

LANESUM_API cuStreamSynchronize(Stream* handle) {
    LANESUM_ENTER(cuStreamSynchronize);
    LANESUM_STREAM;
    if (const CUresult refused = refuse_wait(stream)) return refused;
    stream->drain();
    return context->dead.load();
}

LANESUM_API cuStreamQuery(Stream* handle) {
    LANESUM_ENTER(cuStreamQuery);
    LANESUM_STREAM;
    if (const CUresult refused = refuse_wait(stream)) return refused;
    if (!stream->is_idle()) return NOT_READY;
    return context->dead.load();
}

LANESUM_API cuCtxSynchronize() {
    LANESUM_ENTER(cuCtxSynchronize);
    LANESUM_CONTEXT;
    if (const CUresult refused = refuse_in_captures_of(context)) return refused;
    return settle(context);
}

LANESUM_API cuEventCreate(Event** out, unsigned flags) {
    LANESUM_ENTER(cuEventCreate);
    LANESUM_CONTEXT;
    if (out == nullptr || flags > 7) return INVALID_VALUE;
    Event* const made = new Event{flags, {}};
    std::lock_guard<std::mutex> guard(known().mutex);
    known().events.insert(made);
    ++counters().handles;
    *out = made;
    return SUCCESS;
}

LANESUM_API cuEventDestroy_v2(Event* event) {
    LANESUM_ENTER(cuEventDestroy_v2);
    LANESUM_CONTEXT;
    std::lock_guard<std::mutex> guard(known().mutex);
    if (known().events.erase(event) == 0) return INVALID_HANDLE;
    --counters().handles;
    delete event;
    return SUCCESS;
}

// In a capture the event is no node: it only tells those that wait for it what they come after.
LANESUM_API cuEventRecord(Event* event, Stream* handle) {
    LANESUM_ENTER(cuEventRecord);
    LANESUM_STREAM;
    Recorded recorded;
    if (!find(event, &recorded)) return INVALID_HANDLE;
    recorded = {};
    if (const CUresult refused = locate(stream, &recorded.point)) return refused;
    const bool captured = recorded.point.capture != nullptr;
    if (!captured) recorded.mark = std::make_shared<Mark>();
    const auto mark = recorded.mark;
    {
        std::lock_guard<std::mutex> guard(known().mutex);
        if (known().events.count(event) == 0) return INVALID_HANDLE;
        event->recorded = std::move(recorded);
    }
    return captured ? SUCCESS : stream->mark(mark);
}

LANESUM_API cuStreamWaitEvent(Stream* handle, Event* event, unsigned flags) {
    LANESUM_ENTER(cuStreamWaitEvent);
    LANESUM_STREAM;
    if (flags > 1) return INVALID_VALUE;
    Recorded recorded;
    if (!find(event, &recorded)) return INVALID_HANDLE;
    if (recorded.point.capture != nullptr) return join(stream, recorded.point);
    const auto mark = recorded.mark;
    if (mark == nullptr) return SUCCESS;
    if (const CUresult refused = refuse_in_capture(stream, CAPTURE_ISOLATION)) return refused;
    return stream->enqueue([mark](bool) { mark->wait(); });
}

LANESUM_API cuEventQuery(Event* event) {
    LANESUM_ENTER(cuEventQuery);
    LANESUM_CONTEXT;
    std::shared_ptr<Mark> mark;
    if (const CUresult failed = mark_of(event, &mark)) return failed;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (mark != nullptr && !mark->is_reached()) return NOT_READY;
    return context->dead.load();
}

LANESUM_API cuEventSynchronize(Event* event) {
    LANESUM_ENTER(cuEventSynchronize);
    LANESUM_CONTEXT;
    std::shared_ptr<Mark> mark;
    if (const CUresult failed = mark_of(event, &mark)) return failed;
    if (const CUresult refused = refuse_unsafe()) return refused;
    if (mark != nullptr) mark->wait();
    return context->dead.load();
}

LANESUM_API cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
    LANESUM_ENTER(cuEventElapsedTime);
    LANESUM_CONTEXT;
    std::shared_ptr<Mark> first, last;
    if (milliseconds == nullptr) return INVALID_VALUE;
    if (const CUresult failed = mark_of(start, &first)) return failed;
    if (const CUresult failed = mark_of(end, &last)) return failed;
    if (first == nullptr || last == nullptr) return INVALID_HANDLE;
    if ((start->flags | end->flags) & DISABLE_TIMING) return INVALID_HANDLE;
    if (!first->is_reached() || !last->is_reached()) return NOT_READY;
    *milliseconds = static_cast<float>(static_cast<double>(last->time_ns - first->time_ns) / 1e6);
    return SUCCESS;
}
