#include "sim/sim_context.hpp"

#include "sim/sim_capture.hpp"
#include "sim/sim_stream.hpp"

#include <algorithm>
#include <utility>

namespace vma {

std::vector<CompletionPtr> SimContext::standing_holds() {
  std::erase_if(holds, [this](const CompletionPtr& hold) {
    if (!Progress::is_done(*hold)) return false;
    knows.join(hold->knows);
    held_until = std::max(held_until, hold->at);
    return true;
  });
  if (shared == nullptr) return holds;
  std::vector<CompletionPtr> all = shared->standing_holds();
  knows.join(shared->knows);
  held_until = std::max(held_until, shared->held_until);
  all.insert(all.end(), holds.begin(), holds.end());
  return all;
}

CompletionPtr SimContext::everything() {
  std::vector<CompletionPtr> parts = standing_holds();
  for (SimStream* stream : streams) parts.push_back(stream->last());
  for (SimContext* green : greens) parts.push_back(green->everything());
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
