// The part of a life in which two allocations move with one call, on two routes.
#include "faults/life.hpp"

#include "runtime/runtime_parts.hpp"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t other_bytes = life_chunk_bytes + life_page;  // Two slots.

std::uint64_t bytes_at(const std::vector<Extent>& extents, Place at) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.at == at ? extent.bytes : 0;
  return bytes;
}

}  // namespace

/// Each request tells how much of it has come to its target, and has an error if that is not there
/// in full. `before`: how much of each was there already.
void Life::check_group(const char* stage, const GroupReport& group,
                       const std::vector<std::uint64_t>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& [request, report, error] = group.requests.at(i);
    const std::uint64_t there = bytes_at(runtime_->where(request.pointer), request.to);
    if (report.bytes_moved != there - before[i]) {
      problem(stage, fmt::format("request {}: {} bytes came, the report says {}", i,
                                 there - before[i], report.bytes_moved));
    }
    const bool done = report.outcome == Outcome::done && there == runtime_->size(request.pointer);
    if (done != !error) problem(stage, "an error that does not fit the outcome");
  }
}

/// The other allocation lives only as long as this part.
void Life::move_group(const char* stage, const MigrateOptions& options) {
  std::vector<std::uint64_t> pattern(other_bytes / sizeof(std::uint64_t)), bytes = pattern;
  std::iota(pattern.begin(), pattern.end(), content_ + 500'000);
  void* other = nullptr;
  undisturbed(stage, [&] {
    if (!outcome_.poisoned) runtime_->migrate(memory_, gpu(0));
    other = runtime_->alloc(other_bytes, host(0), {life_chunk_bytes, "other"});
    runtime_->write(other, std::as_bytes(std::span(pattern)));
  });
  if (other == nullptr) return;
  move(stage, [&] {
    const std::vector<MoveRequest> requests{{memory_, gpu(1)}, {other, gpu(0)}};
    std::vector<std::uint64_t> before;
    for (const MoveRequest& request : requests) {
      before.push_back(bytes_at(runtime_->where(request.pointer), request.to));
    }
    try {
      check_group(stage, runtime_->migrate(requests, options), before);
    } catch (const Error& error) {
      if (error.group() != nullptr) check_group(stage, *error.group(), before);
      throw;
    }
  });
  undisturbed(stage, [&] {
    runtime_->read(other, std::as_writable_bytes(std::span(bytes)));
    if (bytes != pattern) problem(stage, "bytes of the other allocation differ");
    if (!parts_of(*runtime_).machinery->memory.require(other, "check")->poisoned()) {
      check_mappings(stage, other);
    }
    runtime_->free(other);
  });
}

}  // namespace vma
