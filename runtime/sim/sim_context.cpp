#include "sim/sim_context.hpp"

#include "sim/sim_capture.hpp"
#include "sim/sim_stream.hpp"

#include <algorithm>
#include <utility>

namespace vma {

const std::vector<CompletionPtr>& SimContext::standing_holds() {
  std::erase_if(holds, [this](const CompletionPtr& hold) {
    if (!Progress::is_done(*hold)) return false;
    knows.join(hold->knows);
    held_until = std::max(held_until, hold->at);
    return true;
  });
  return holds;
}

CompletionPtr SimContext::everything() {
  std::vector<CompletionPtr> parts = standing_holds();
  for (SimStream* stream : streams) parts.push_back(stream->last());
  return Progress::joined(std::move(parts));
}

bool SimContext::captures() const {
  return std::any_of(streams.begin(), streams.end(),
                     [](SimStream* stream) { return stream->capture != nullptr; });
}

void SimContext::invalidate_captures() {
  for (SimStream* stream : streams) {
    if (stream->capture != nullptr) stream->capture->invalid = true;
  }
}

}  // namespace vma
