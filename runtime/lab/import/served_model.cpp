#include "lab/import/served_model.hpp"

#include <vma/location.hpp>

#include <algorithm>

namespace vma {
namespace {

constexpr std::uint64_t first_weights = std::uint64_t{1} << 62;  // No file has such numbers.

}  // namespace

ServedModel::ServedModel(EventOrder& order, const TraceValues& values)
    : weight_bytes_(values.whole("weight_bytes")),
      ends_(weight_bytes_ > 0 ? values.whole("gpus") : 0) {
  for (std::size_t gpu = 0; gpu < ends_.size(); ++gpu) {
    TraceEvent event;
    event.kind = TraceEventKind::allocation;
    event.object = first_weights + gpu;
    event.bytes = weight_bytes_;
    event.tag = order.intern("weights");
    order.add(event);
  }
}

ServedModel::Server ServedModel::serve(Time start, Time end) {
  if (ends_.empty()) return {};
  for (std::vector<Time>& ends : ends_) std::erase_if(ends, [&](Time one) { return one <= start; });
  const auto least = std::ranges::min_element(ends_, {}, &std::vector<Time>::size);
  least->push_back(end);
  const auto number = static_cast<std::size_t>(least - ends_.begin());
  return {TracePlace(gpu(static_cast<int>(number))), first_weights + number, least->size()};
}

std::optional<TraceEvent> ServedModel::read(const Server& server, double passes) const {
  if (weight_bytes_ == 0) return std::nullopt;
  TraceEvent event;
  event.object = server.weights;
  event.bytes = weight_bytes_;
  event.passes = static_cast<float>(passes);
  event.at = server.at;
  return event;
}

}  // namespace vma
