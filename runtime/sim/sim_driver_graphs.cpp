// SimDriver's calls on graphs: captured ones and chains.
#include "driver/native_codes.hpp"
#include "sim/sim_driver.hpp"
#include "sim/sim_machine.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

std::shared_ptr<const WorkList> nodes_of(SimMachine& machine, const SimContext& owner,
                                         std::span<const ChainStep> steps, const char* call) {
  auto nodes = std::make_shared<WorkList>();
  for (const ChainStep& step : steps) {
    for (const WordOperation& operation : step.words) machine.require_word(operation, call);
    if (step.words.empty()) {
      nodes->works.emplace_back(
          machine.kernel_work(owner, step.kernel, step.shape, step.arguments, call));
    } else {
      nodes->works.emplace_back(BatchWork{step.words});
    }
  }
  return nodes;
}

bool same_kind(const WordOperation& a, const WordOperation& b) {
  return a.kind == b.kind;
}

/// Whether a graph update may replace one by the other.
bool alike(const WorkList& a, const WorkList& b) {
  return std::equal(a.works.begin(), a.works.end(), b.works.begin(), b.works.end(),
                    [](const Work& one, const Work& other) {
                      const auto* words = std::get_if<BatchWork>(&one);
                      const auto* others = std::get_if<BatchWork>(&other);
                      if (words == nullptr || others == nullptr) return words == others;
                      return std::equal(words->operations.begin(), words->operations.end(),
                                        others->operations.begin(), others->operations.end(),
                                        same_kind);
                    });
}

}  // namespace

bool SimDriver::is_capturing(BoundStream stream) {
  const MutexLock lock(machine_->progress.mutex);
  const SimStream& asked = machine_->stream(stream, "cuStreamIsCapturing");
  const SimContext& owner = asked.context();
  if (&asked != owner.legacy) return asked.capture != nullptr;
  // The driver reports the legacy stream as capturing if a blocking stream of its context captures.
  return std::any_of(owner.streams.begin(), owner.streams.end(), [](const SimStream* other) {
    return other->kind() == StreamKind::blocking && other->capture != nullptr;
  });
}

StreamNow SimDriver::stream_now(StreamHandle stream, std::uint64_t id) {
  constexpr auto call = "cuStreamGetCaptureInfo";
  BoundStream bound{{}, stream};
  if (static_cast<std::uint64_t>(stream) <= 2) bound.context = current_context();
  const MutexLock lock(machine_->progress.mutex);
  SimStream& asked = machine_->stream(bound, call);
  if (asked.capture != nullptr) return {0, asked.capture->id};
  const SimContext& owner = asked.context();
  if (&asked == owner.legacy && std::ranges::any_of(owner.streams, [](const SimStream* other) {
        return other->kind() == StreamKind::blocking && other->capture != nullptr;
      })) {
    throw driver_error(native_stream_capture_implicit, call, "a blocking stream captures");
  }
  return {id != 0 ? id : asked.id(), 0};
}

void SimDriver::at_graph_end(BoundStream stream, std::function<void()> ended) {
  constexpr auto call = "cuGraphRetainUserObject";
  const MutexLock lock(machine_->progress.mutex);
  const SimStream& captured = machine_->stream(stream, call);
  if (captured.capture == nullptr) {
    throw driver_error(native_illegal_state, call, "the stream is not capturing");
  }
  if (captured.capture->invalid) throw driver_error(native_stream_capture_invalidated, call);
  const auto run = [ended = std::move(ended)](void*) { ended(); };
  captured.capture->nodes.at_end.emplace_back(captured.capture.get(), run);
}

void SimDriver::begin_capture(BoundStream stream, CaptureMode mode) {
  constexpr auto call = "cuStreamBeginCapture";
  const MutexLock lock(machine_->progress.mutex);
  SimStream& origin = machine_->stream(stream, call);
  machine_->progress.check_fault(call);
  if (&origin == origin.context().legacy) {
    throw driver_error(native_stream_capture_unsupported, call, "the legacy stream");
  }
  if (origin.capture != nullptr)
    throw driver_error(native_illegal_state, call, "it captures already");
  origin.capture = std::make_shared<SimCapture>();
  origin.capture->origin = &origin;
  origin.capture->mode = mode;
  origin.capture->id = ++machine_->last_capture_id;
}

GraphHandle SimDriver::end_capture(BoundStream stream) {
  constexpr auto call = "cuStreamEndCapture";
  const MutexLock lock(machine_->progress.mutex);
  SimStream& origin = machine_->stream(stream, call);
  const std::shared_ptr<SimCapture> capture = origin.capture;
  if (capture == nullptr || capture->origin != &origin) {
    throw driver_error(native_illegal_state, call, "the stream is not capturing");
  }
  for (const auto& [handle, other] : machine_->streams) {
    if (other->capture == capture) other->capture.reset();
  }
  if (capture->invalid) throw driver_error(native_stream_capture_invalidated, call);
  if (!capture->unjoined.empty()) throw driver_error(native_stream_capture_unjoined, call);
  const auto handle = machine_->next_handle<GraphHandle>();
  machine_->graphs[handle] = std::make_shared<WorkList>(std::move(capture->nodes));
  return handle;
}

ExecGraphHandle SimDriver::instantiate(GraphHandle graph) {
  const CallTime time(*machine_, machine_->costs.parameters().load_kernel_us);
  const MutexLock lock(machine_->progress.mutex);
  const auto found = machine_->graphs.find(graph);
  if (found == machine_->graphs.end()) {
    throw driver_error(native_invalid_value, "cuGraphInstantiate", "no such graph");
  }
  const auto handle = machine_->next_handle<ExecGraphHandle>();
  machine_->exec_graphs[handle].nodes = found->second;
  return handle;
}

void SimDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  constexpr auto call = "cuGraphLaunch";
  const CallTime time(*machine_, machine_->costs.parameters().launch_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& launcher = machine_->stream_after_frees(lock, stream, call);
  if (launcher.capture != nullptr) machine_->forbid_capture(launcher, call);
  SimExecGraph& ready = machine_->exec_graph(graph, call);
  std::vector<CompletionPtr> before;
  if (ready.last_launch != nullptr) before.push_back(ready.last_launch);
  const auto end = machine_->submit(launcher, GraphWork{ready.nodes}, call, std::move(before));
  if (end != nullptr) ready.last_launch = end;
}

void SimDriver::destroy_graph(GraphHandle graph) {
  const MutexLock lock(machine_->progress.mutex);
  if (machine_->graphs.erase(graph) == 0) {
    throw driver_error(native_invalid_value, "cuGraphDestroy", "no such graph");
  }
}

void SimDriver::destroy_exec_graph(ExecGraphHandle graph) {
  const MutexLock lock(machine_->progress.mutex);
  machine_->exec_graph(graph, "cuGraphExecDestroy");
  machine_->exec_graphs.erase(graph);
}

ExecGraphHandle SimDriver::make_chain(ContextHandle context, std::span<const ChainStep> steps) {
  constexpr auto call = "cuGraphInstantiate";
  const CallTime time(*machine_, machine_->costs.parameters().load_kernel_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->wait_for_frees(lock, owner);
  machine_->progress.check_fault(call);
  if (steps.empty()) throw driver_error(native_invalid_value, call, "no steps");
  const auto nodes = nodes_of(*machine_, owner, steps, call);
  const auto handle = machine_->next_handle<ExecGraphHandle>();
  machine_->exec_graphs[handle] = {nodes, context, nullptr};
  return handle;
}

void SimDriver::update_chain(ExecGraphHandle chain, std::span<const ChainStep> steps) {
  constexpr auto call = "cuGraphExecKernelNodeSetParams";
  const CallTime time(*machine_, machine_->costs.parameters().batch_us);
  MutexLock lock(machine_->progress.mutex);
  const ContextHandle context = machine_->exec_graph(chain, call).chain_of;
  if (is_none(context)) throw driver_error(native_invalid_value, call, "it is not a chain");
  SimContext& owner = machine_->context(context, call);
  machine_->progress.check_fault(call);
  SimExecGraph& updated = machine_->exec_graph(chain, call);
  auto nodes = nodes_of(*machine_, owner, steps, call);
  if (!alike(*updated.nodes, *nodes)) {
    throw driver_error(native_invalid_value, call, "the steps differ in type or number");
  }
  updated.nodes = std::move(nodes);
}

/// Submits a kernel, so that a capture can record it as a node.
void SimDriver::stop(BoundStream stream, ExecGraphHandle chain,
                     std::span<const WordOperation> words) {
  constexpr auto call = "cuLaunchKernel";
  const CallTime time(*machine_, machine_->costs.parameters().launch_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& stopped = machine_->stream_after_frees(lock, stream, call);
  const SimExecGraph& like = machine_->exec_graph(chain, call);
  ChainStep step;
  step.words.assign(words.begin(), words.end());
  const auto nodes = nodes_of(*machine_, stopped.context(), {&step, 1}, call);
  if (!alike(*like.nodes, *nodes)) {
    throw driver_error(native_invalid_value, call, "the words do not do what the chain does");
  }
  machine_->submit(stopped, GraphWork{nodes}, call);
}

}  // namespace vma
