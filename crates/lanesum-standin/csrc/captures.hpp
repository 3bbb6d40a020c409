// Streams that capture: what is enqueued becomes nodes of a graph. Whoever enqueues, waits or asks comes here first.
#pragma once
#include "streams.hpp"

namespace standin {

// Runs the operation in the stream's order, or adds it to what the stream captures.
CUresult submit(Stream* stream, Operation operation);
// Where the stream stands in its capture; a point without capture if there is none.
CUresult locate(Stream* stream, Point* point);
// The stream goes on after a point of a capture, which it becomes part of.
CUresult join(Stream* stream, const Point& point);
// Nothing but `submit` and `join` may be done with a stream that captures, nor anything with the NULL stream while a stream
// captures that it would wait for. Refusing invalidates the capture.
CUresult refuse_in_capture(Stream* stream, CUresult code = CAPTURE_UNSUPPORTED);
bool captures(Stream* stream);
// No stream of a context may capture while all of it is waited for.
CUresult refuse_in_captures_of(Context* context);
// For calls that the calling thread's mode forbids while somebody captures, as they might wait for the device.
CUresult refuse_unsafe();
// The stream is destroyed.
void leave(Stream* stream);

}  // namespace standin
