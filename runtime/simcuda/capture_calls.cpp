// Captures of streams.
#include "simcuda/graphs.hpp"
#include "simcuda/library.hpp"

#include "base/mutex.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <thread>

namespace vma {
namespace {

struct CaptureBegun {
  CUgraph graph = nullptr;
  BoundStream origin;
  CaptureMode mode{};
  std::thread::id thread;
};

/// The captures in progress, by the simulator's number of the capture.
struct Captures {
  Mutex mutex;
  std::map<std::uint64_t, CaptureBegun> begun VMART_GUARDED_BY(mutex);
};
Captures& captures() {
  static Captures& all = *new Captures;
  return all;
}

thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

CaptureMode mode_of(CUstreamCaptureMode mode) {
  switch (mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL: return CaptureMode::global;
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: return CaptureMode::thread_local_mode;
    case CU_STREAM_CAPTURE_MODE_RELAXED: return CaptureMode::relaxed;
    default: refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

/// Zero if the stream captures nothing. Throws: for a legacy stream whose others capture.
std::uint64_t capture_of(BoundStream stream) {
  return sim().stream_now(stream.handle, 1).capture;
}

/// The simulator tells of an invalid capture only to those who want to add to it. Another thread
/// may end the capture meanwhile.
CUstreamCaptureStatus status_of(BoundStream stream) {
  try {
    sim().at_graph_end(stream, [] {});
    return CU_STREAM_CAPTURE_STATUS_ACTIVE;
  } catch (const Error& error) {
    switch (error.native()) {
      case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      case CUDA_ERROR_ILLEGAL_STATE: return CU_STREAM_CAPTURE_STATUS_NONE;
      default: throw;
    }
  }
}

CUgraph drop(std::uint64_t capture) {
  const MutexLock lock(captures().mutex);
  const auto found = captures().begun.find(capture);
  if (found == captures().begun.end()) return nullptr;
  CUgraph graph = found->second.graph;
  captures().begun.erase(found);
  return graph;
}

void begin(CUstream stream, CaptureMode mode) {
  const BoundStream origin = stream_of(stream);
  sim().begin_capture(origin, mode);
  const auto graph = std::make_shared<Graph>();
  graph->capturing = true;
  graph->origin = origin;
  auto* const handle = native_of<CUgraph>(graphs().graphs.add(graph));
  const std::uint64_t capture = capture_of(origin);
  const MutexLock lock(captures().mutex);
  captures().begun[capture] = {handle, origin, mode, std::this_thread::get_id()};
}

void end(CUstream stream, CUgraph* out) {
  required(out);
  *out = nullptr;
  const BoundStream origin = stream_of(stream);
  const std::uint64_t capture = capture_of(origin);
  if (capture == 0) refuse(CUDA_ERROR_ILLEGAL_STATE);
  GraphHandle captured{};
  try {
    captured = sim().end_capture(origin);
  } catch (const Error&) {
    if (capture_of(origin) == 0) {  // It has ended all the same.
      if (CUgraph failed = drop(capture)) graphs().graphs.take(failed);
    }
    throw;
  }
  CUgraph handle = drop(capture);
  const auto graph = graphs().graphs.at(handle);
  graph->captured = captured;
  graph->capturing = false;
  *out = handle;
}

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
};

CaptureInfo info_of(CUstream native) {
  const BoundStream stream = stream_of(native);
  CaptureInfo info;
  info.id = capture_of(stream);
  if (info.id == 0) return info;
  info.status = status_of(stream);
  if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return {info.status, 0, nullptr};
  const MutexLock lock(captures().mutex);
  const auto found = captures().begun.find(info.id);
  if (found != captures().begun.end()) info.graph = found->second.graph;
  return info;
}

void tell(const CaptureInfo& info, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
          const CUgraphNode** dependencies, std::size_t* count) {
  *required(status) = info.status;
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = info.graph;
  if (dependencies != nullptr) *dependencies = nullptr;  // The simulator keeps its nodes.
  if (count != nullptr) *count = 0;
}

}  // namespace

void forbid_in_captures() {
  if (mode_of_thread == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool forbidden = false;
  const MutexLock lock(captures().mutex);
  for (const auto& [number, capture] : captures().begun) {
    const bool here = capture.thread == std::this_thread::get_id();
    const bool everywhere =
        capture.mode == CaptureMode::global && mode_of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!everywhere && !(here && capture.mode != CaptureMode::relaxed)) continue;
    try {
      if (!sim().is_capturing(capture.origin)) continue;
      forbidden = true;
      sim().query_stream(capture.origin);  // Ends the capture.
    } catch (const Error&) {               // As it should, or the stream is gone.
    }
  }
  if (forbidden) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void note_captured(BoundStream stream, CUgraphNodeType type, const NodeContents& contents) {
  {
    const MutexLock lock(captures().mutex);
    if (captures().begun.empty()) return;
  }
  const CaptureInfo info = info_of(native_of<CUstream>(stream.handle));
  if (info.graph == nullptr) return;
  Graph& graph = *graphs().graphs.at(info.graph);
  add_node_to(graph, Node{&graph, 0, type, contents});
}

SIMCUDA_STREAM_CALL(cuStreamBeginCapture, _ptsz, (CUstream stream), (stream)) {
  begin(stream, CaptureMode::global);
}
SIMCUDA_STREAM_CALL(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode),
                    (stream, mode)) {
  begin(stream, mode_of(mode));
}
SIMCUDA_STREAM_CALL(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph* graph), (stream, graph)) {
  end(stream, graph);
}
SIMCUDA_STREAM_CALL(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus* status),
                    (stream, status)) {
  if (const BoundStream named = stream_of(stream); !is_none(named.context)) {
    require_active(named.context);
  }
  *required(status) = info_of(stream).status;
}
SIMCUDA_STREAM_CALL(cuStreamGetCaptureInfo, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
                    (stream, status, id)) {
  tell(info_of(stream), status, id, nullptr, nullptr, nullptr);
}
SIMCUDA_STREAM_CALL(cuStreamGetCaptureInfo_v2, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, std::size_t* count),
                    (stream, status, id, graph, dependencies, count)) {
  tell(info_of(stream), status, id, graph, dependencies, count);
}
SIMCUDA_STREAM_CALL(cuStreamGetCaptureInfo_v3, _ptsz,
                    (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                     std::size_t* count),
                    (stream, status, id, graph, dependencies, edges, count)) {
  tell(info_of(stream), status, id, graph, dependencies, count);
  if (edges != nullptr) *edges = nullptr;
}

// None of the simulator's own calls disturbs captures of other streams, whatever the mode.
SIMCUDA_CALL(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode)) {
  sim();
  mode_of(*required(mode));
  std::swap(*mode, mode_of_thread);
}

}  // namespace vma
