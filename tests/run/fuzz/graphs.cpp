// Captures and graphs.
#include "world.hpp"

#include <algorithm>
#include <set>

namespace fuzz {
namespace {

constexpr std::size_t graphs_max = 4;

std::vector<Piece> any_pieces(World& world, std::size_t context) {
  std::vector<Piece> pieces;
  const std::size_t count = 1 + world.random.below(5);
  for (std::size_t i = 0; i < count; ++i) {
    Piece piece = any_piece(world, context, true);
    if (piece.run) pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::vector<std::size_t> buffers_of(const std::vector<Piece>& pieces) {
  std::set<std::size_t> all;
  for (const Piece& piece : pieces) all.insert(piece.buffers.begin(), piece.buffers.end());
  return {all.begin(), all.end()};
}

/// Work of another stream, which is not captured.
void work_beside(World& world, std::size_t context, const std::vector<std::size_t>& captured) {
  std::vector<std::size_t> beside;
  for (std::size_t i = 0; i < world.streams.size(); ++i) {
    const Stream& stream = world.streams[i];
    if (stream.alive && stream.context == context && !stream.built_in && !stream.blocking &&
        std::ranges::find(captured, i) == captured.end()) {
      beside.push_back(i);
    }
  }
  const Piece piece = any_piece(world, context, true);
  if (beside.empty() || !piece.run || !piece.buffers.empty()) return;
  world.note(piece.run(world.streams[world.random.of(beside)].handle), "%s beside the capture",
             piece.text.c_str());
}

/// Captures the pieces, some of them in a second stream. Null if that fails.
CUgraph capture(World& world, std::size_t context, const std::vector<Piece>& pieces) {
  const std::size_t first = world.any_stream(context, true);
  const std::size_t second = world.any_stream(context, true);
  const bool forks = second != first && pieces.size() > 1 && world.random.one_in(2);
  const CUstream on = world.streams[first].handle;
  const CUstream other = world.streams[second].handle;
  const auto mode = world.alone() ? static_cast<CUstreamCaptureMode>(world.random.below(3))
                                  : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  CUevent event = nullptr;
  world.enter(context);
  world.note(driver.f_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  world.note(driver.f_cuStreamBeginCapture(on, mode), "cuStreamBeginCapture s%zu", first);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (forks && i + 1 == pieces.size()) {
      world.note(driver.f_cuEventRecord(event, on), "cuEventRecord s%zu", first);
      world.note(driver.f_cuStreamWaitEvent(other, event, 0), "cuStreamWaitEvent s%zu", second);
      world.note(pieces[i].run(other), "captured %s", pieces[i].text.c_str());
      world.note(driver.f_cuEventRecord(event, other), "cuEventRecord s%zu", second);
      world.note(driver.f_cuStreamWaitEvent(on, event, 0), "cuStreamWaitEvent s%zu", first);
    } else {
      world.note(pieces[i].run(on), "captured %s", pieces[i].text.c_str());
    }
    if (world.random.one_in(6)) work_beside(world, context, {first, second});
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  world.note(driver.f_cuStreamIsCapturing(on, &status), "cuStreamIsCapturing");
  world.say("status %d", static_cast<int>(status));
  CUgraph graph = nullptr;
  world.note(driver.f_cuStreamEndCapture(on, &graph), "cuStreamEndCapture s%zu", first);
  world.note(driver.f_cuEventDestroy(event), "cuEventDestroy");
  return graph;
}

void keep(World& world, Graph made) {
  for (const std::size_t buffer : made.buffers) ++world.buffers[buffer].graphs;
  world.graphs.push_back(std::move(made));
}

void capture_graph(World& world, std::size_t context) {
  Graph made;
  made.context = context;
  const std::vector<Piece> pieces = any_pieces(world, context);
  if (pieces.empty()) return;
  made.buffers = buffers_of(pieces);
  made.handle = capture(world, context, pieces);
  if (made.handle == nullptr) return;
  const CUresult result = driver.f_cuGraphInstantiateWithFlags(&made.exec, made.handle, 0);
  if (world.note(result, "cuGraphInstantiate g%zu", world.graphs.size()) != CUDA_SUCCESS) {
    world.note(driver.f_cuGraphDestroy(made.handle), "cuGraphDestroy");
    return;
  }
  keep(world, std::move(made));
}

void launch_graph(World& world, std::size_t number) {
  const Graph& graph = world.graphs[number];
  const std::size_t stream = world.any_stream(graph.context);
  world.order(graph.buffers, stream);
  world.enter(graph.context);
  const std::size_t times = 1 + world.random.below(3);
  for (std::size_t i = 0; i < times; ++i) {
    world.note(driver.f_cuGraphLaunch(graph.exec, world.streams[stream].handle),
               "cuGraphLaunch g%zu on s%zu", number, stream);
  }
  world.used(graph.buffers, stream);
}

/// Other parameters of nodes, or the nodes of another graph.
void change(World& world, std::size_t number) {
  const Graph& graph = world.graphs[number];
  world.enter(graph.context);
  if (!graph.nodes.empty()) return change_nodes(world, number);
  const std::vector<Piece> pieces = any_pieces(world, graph.context);
  if (pieces.empty()) return;
  CUgraph other = capture(world, graph.context, pieces);
  if (other == nullptr) return;
  CUgraphExecUpdateResultInfo info{};
  // The simulated driver updates no captured graph.
  world.note(driver.f_cuGraphExecUpdate(graph.exec, other, &info), "cuGraphExecUpdate g%zu",
             number);
  world.note(driver.f_cuGraphDestroy(other), "cuGraphDestroy");
}

}  // namespace

void destroy_graph(World& world, std::size_t number) {
  Graph& graph = world.graphs[number];
  world.enter(graph.context);
  world.note(driver.f_cuGraphExecDestroy(graph.exec), "cuGraphExecDestroy g%zu", number);
  world.note(driver.f_cuGraphDestroy(graph.handle), "cuGraphDestroy");
  for (const std::size_t buffer : graph.buffers) --world.buffers[buffer].graphs;
  graph.alive = false;
}

void use_graphs(World& world) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < world.graphs.size(); ++i) {
    if (world.graphs[i].alive) found.push_back(i);
  }
  if (found.size() < 2 || (found.size() < graphs_max && world.random.one_in(3))) {
    const std::size_t context = world.any_context(true);
    if (!world.random.one_in(2)) return capture_graph(world, context);
    Graph made = build_graph(world, context);
    if (made.exec != nullptr) keep(world, std::move(made));
    return;
  }
  const std::size_t number = world.random.of(found);
  switch (world.random.below(6)) {
    case 0: return destroy_graph(world, number);
    case 1:
    case 2: return change(world, number);
    default: return launch_graph(world, number);
  }
}

/// What ends a capture, or is refused in one.
void misuse_in_capture(World& world) {
  const std::size_t context = world.any_context(true);
  const std::size_t stream = world.any_stream(context, true);
  const CUstream on = world.streams[stream].handle;
  CUgraph graph = nullptr;
  CUdeviceptr out = 0;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  world.enter(context);
  world.note(driver.f_cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_RELAXED),
             "cuStreamBeginCapture s%zu", stream);
  switch (world.random.below(7)) {
    case 0: world.note(driver.f_cuStreamSynchronize(on), "cuStreamSynchronize of a capture"); break;
    case 1: world.note(driver.f_cuStreamQuery(on), "cuStreamQuery of a capture"); break;
    case 2:
      world.note(driver.f_cuMemAllocAsync(&out, 4 << 20, on), "cuMemAllocAsync in a capture");
      break;
    case 3: {
      const std::size_t buffer = world.any_buffer(world.contexts[context].device, true);
      if (buffer == Buffer::none) break;
      world.note(driver.f_cuMemFreeAsync(world.buffers[buffer].begin, on),
                 "cuMemFreeAsync in a capture of %s", world.name_of(buffer, 0).c_str());
      break;
    }
    case 4:
      world.note(driver.f_cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_RELAXED),
                 "a second cuStreamBeginCapture");
      break;
    case 5: world.note(driver.f_cuCtxSynchronize(), "cuCtxSynchronize beside a capture"); break;
    default:
      world.note(driver.f_cuMemAlloc(&out, 4 << 20), "cuMemAlloc beside a capture");
      world.note(driver.f_cuMemFree(out), "cuMemFree beside a capture");
  }
  world.note(driver.f_cuStreamIsCapturing(on, &status), "cuStreamIsCapturing");
  world.say("status %d", static_cast<int>(status));
  world.note(driver.f_cuStreamEndCapture(on, &graph), "cuStreamEndCapture s%zu", stream);
  if (graph != nullptr) world.note(driver.f_cuGraphDestroy(graph), "cuGraphDestroy");
}

}  // namespace fuzz
