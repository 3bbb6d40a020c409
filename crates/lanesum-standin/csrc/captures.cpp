#include "captures.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "graphs.hpp"

namespace standin {

struct Capture {
    u64 id;
    Stream* origin;
    int mode;
    std::thread::id thread;
    Graph* graph;
    // What the next node of each stream depends on.
    std::map<Stream*, std::vector<Node*>> tips;
    bool valid = true, ended = false;
};

namespace {

enum Mode : int { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };
enum Status : int { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };

// All that is captured now. The mutex guards what is in a Capture and which one a stream has; the books of graphs come after.
struct Ongoing {
    std::mutex mutex;
    std::set<std::shared_ptr<Capture>> all;
    u64 ids = 0;
};
Ongoing& ongoing() {
    static Ongoing* const all = new Ongoing;
    return *all;
}

int& mode_of_thread() {
    static thread_local int mode = GLOBAL;
    return mode;
}

// From here to the end of the namespace: with the mutex held.

CUresult invalidate(Capture& capture, CUresult why) {
    capture.valid = false;
    return why;
}

bool is_null(const Stream* stream) { return stream == stream->context->null_stream.load(); }

// The capture with a stream that the NULL stream of this context waits for, and that for it.
Capture* blocked_by(const Context* context) {
    for (const auto& capture : ongoing().all) {
        if (!capture->valid) continue;
        for (const auto& member : capture->tips) {
            if (member.first->context == context && member.first->blocking) return capture.get();
        }
    }
    return nullptr;
}

// Why nothing may be added to the stream; 0 if it may.
CUresult closed(const Stream* stream) {
    if (is_null(stream)) {
        Capture* const blocked = blocked_by(stream->context);
        return blocked == nullptr ? SUCCESS : invalidate(*blocked, CAPTURE_IMPLICIT);
    }
    return stream->capture == nullptr || stream->capture->valid ? SUCCESS : CAPTURE_INVALIDATED;
}

// All streams are as before; the graph is the caller's.
void end(const std::shared_ptr<Capture>& capture) {
    capture->ended = true;
    for (const auto& member : capture->tips) member.first->capture = nullptr;
    capture->tips.clear();
    ongoing().all.erase(capture);
}

// Whether all that was captured comes before where the origin stands.
bool joined(const Capture& capture) {
    std::set<const Node*> seen;
    std::vector<Node*> open = capture.tips.at(capture.origin);
    while (!open.empty()) {
        const Node* const node = open.back();
        open.pop_back();
        if (seen.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
    }
    return seen.size() == capture.graph->nodes.size();
}

// Whether a thread in this mode may not do what might wait, because of this capture.
bool forbids(const Capture& capture, int mode) {
    if (!capture.valid || capture.mode == RELAXED || mode == RELAXED) return false;
    return capture.thread == std::this_thread::get_id() || (capture.mode == GLOBAL && mode == GLOBAL);
}

}  // namespace

CUresult submit(Stream* stream, Operation operation) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (const CUresult refused = closed(stream)) return refused;
    if (stream->capture == nullptr) return stream->enqueue(std::move(operation));
    auto& nodes = stream->capture->graph->nodes;
    auto& tips = stream->capture->tips[stream];
    nodes.emplace_back(new Node{std::move(operation), std::move(tips)});
    tips.assign(1, nodes.back().get());
    return SUCCESS;
}

CUresult locate(Stream* stream, Point* point) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (const CUresult refused = closed(stream)) return refused;
    point->capture = stream->capture;
    if (stream->capture != nullptr) point->after = stream->capture->tips[stream];
    return SUCCESS;
}

CUresult join(Stream* stream, const Point& point) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (const CUresult refused = closed(stream)) return refused;
    Capture& other = *point.capture;
    const bool live = !other.ended && other.valid;
    if (stream->capture == nullptr) {
        if (!live) return INVALID_VALUE;
        if (is_null(stream)) return invalidate(other, CAPTURE_UNSUPPORTED);
        stream->capture = point.capture;
    } else if (stream->capture != point.capture) {
        if (live) invalidate(other, CAPTURE_MERGE);
        return invalidate(*stream->capture, live ? CAPTURE_MERGE : CAPTURE_ISOLATION);
    }
    auto& tips = other.tips[stream];
    for (Node* node : point.after) {
        if (std::find(tips.begin(), tips.end(), node) == tips.end()) tips.push_back(node);
    }
    return SUCCESS;
}

CUresult refuse_in_capture(Stream* stream, CUresult code) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (const CUresult refused = closed(stream)) return refused;
    return stream->capture == nullptr ? SUCCESS : invalidate(*stream->capture, code);
}

bool captures(Stream* stream) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    return stream->capture != nullptr;
}

CUresult refuse_in_captures_of(Context* context) {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    CUresult refused = SUCCESS;
    for (const auto& capture : ongoing().all) {
        for (const auto& member : capture->tips) {
            if (member.first->context == context) refused = invalidate(*capture, CAPTURE_UNSUPPORTED);
        }
    }
    return refused;
}

CUresult refuse_unsafe() {
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    CUresult refused = SUCCESS;
    for (const auto& capture : ongoing().all) {
        if (forbids(*capture, mode_of_thread())) refused = invalidate(*capture, CAPTURE_UNSUPPORTED);
    }
    return refused;
}

void leave(Stream* stream) {
    Graph* abandoned = nullptr;
    {
        std::lock_guard<std::mutex> guard(ongoing().mutex);
        const std::shared_ptr<Capture> capture = stream->capture;
        if (capture == nullptr) return;
        if (capture->origin == stream) {
            abandoned = capture->graph;
            end(capture);
        } else {
            invalidate(*capture, CAPTURE_INVALIDATED);
            capture->tips.erase(stream);
            stream->capture = nullptr;
        }
    }
    if (abandoned != nullptr) remove_graph(abandoned);
}

}  // namespace standin

using namespace standin;

LANESUM_API cuStreamBeginCapture_v2(Stream* handle, int mode) {
    LANESUM_ENTER(cuStreamBeginCapture_v2);
    LANESUM_STREAM;
    if (mode < GLOBAL || mode > RELAXED) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (is_null(stream)) return CAPTURE_UNSUPPORTED;
    if (stream->capture != nullptr) return ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    capture->id = ++ongoing().ids;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->graph = make_graph();
    capture->tips[stream] = {};
    stream->capture = capture;
    ongoing().all.insert(std::move(capture));
    return SUCCESS;
}

LANESUM_API cuStreamEndCapture(Stream* handle, Graph** out) {
    LANESUM_ENTER(cuStreamEndCapture);
    LANESUM_STREAM;
    if (out == nullptr) return INVALID_VALUE;
    *out = nullptr;
    CUresult failed = SUCCESS;
    Graph* graph;
    {
        std::lock_guard<std::mutex> guard(ongoing().mutex);
        const std::shared_ptr<Capture> capture = stream->capture;
        if (capture == nullptr) return ILLEGAL_STATE;
        if (capture->origin != stream) return invalidate(*capture, CAPTURE_UNMATCHED);
        if (capture->mode != RELAXED && capture->thread != std::this_thread::get_id()) return CAPTURE_WRONG_THREAD;
        if (!capture->valid) {
            failed = CAPTURE_INVALIDATED;
        } else if (!joined(*capture)) {
            failed = CAPTURE_UNJOINED;
        }
        graph = capture->graph;
        end(capture);
    }
    if (failed != SUCCESS) {
        remove_graph(graph);
        return failed;
    }
    release_graph(graph);
    *out = graph;
    return SUCCESS;
}

// Asking invalidates nothing, other than doing would.
LANESUM_API cuStreamIsCapturing(Stream* handle, int* status) {
    LANESUM_ENTER(cuStreamIsCapturing);
    LANESUM_STREAM;
    if (status == nullptr) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (is_null(stream) && blocked_by(context) != nullptr) return CAPTURE_IMPLICIT;
    *status = stream->capture == nullptr ? NONE : stream->capture->valid ? ACTIVE : INVALIDATED;
    return SUCCESS;
}

LANESUM_API cuStreamGetCaptureInfo_v2(Stream* handle, int* status, unsigned long long* id, Graph** graph,
                                      const Node* const** dependencies, size_t* count) {
    LANESUM_ENTER(cuStreamGetCaptureInfo_v2);
    LANESUM_STREAM;
    if (status == nullptr) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(ongoing().mutex);
    if (is_null(stream) && blocked_by(context) != nullptr) return CAPTURE_IMPLICIT;
    const Capture* const capture = stream->capture.get();
    *status = capture == nullptr ? NONE : capture->valid ? ACTIVE : INVALIDATED;
    if (*status != ACTIVE) return SUCCESS;
    const std::vector<Node*>& tips = capture->tips.at(stream);
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = capture->graph;
    if (dependencies != nullptr) *dependencies = tips.data();
    if (count != nullptr) *count = tips.size();
    return SUCCESS;
}

LANESUM_API cuThreadExchangeStreamCaptureMode(int* mode) {
    LANESUM_ENTER(cuThreadExchangeStreamCaptureMode);
    if (mode == nullptr || *mode < GLOBAL || *mode > RELAXED) return INVALID_VALUE;
    std::swap(*mode, mode_of_thread());
    return SUCCESS;
}
