#include "sharing/importer_reach.hpp"

#include "migrate/migration/group.hpp"
#include "sharing/share_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

namespace vma {

std::vector<SlotRange> ImporterReach::beyond() const {
  std::vector<SlotRange> beyond;
  const std::size_t slots = allocation_->geometry().slots;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (who_.can_map(allocation_->place(slot))) continue;
    if (beyond.empty() || beyond.back().end != slot) beyond.push_back({slot, slot});
    beyond.back().end = slot + 1;
  }
  return beyond;
}

/// Where the program wants the range, the importer's own GPUs, the host: the first that suits all
/// importers and users here, and has not refused it.
std::optional<Place> ImporterReach::place_for(SlotRange range) const {
  const Topology& topology = parts_.memory.topology();
  std::vector<Place> places{allocation_->wanted(range.first)};
  places.insert(places.end(), who_.gpus->begin(), who_.gpus->end());
  const Place home = allocation_->place(range.first);
  if (home.kind == Place::Kind::gpu) {
    places.push_back(topology.nearest_host(DeviceId{home.ordinal}));
  }
  places.insert(places.end(), topology.places().begin(), topology.places().end());
  const auto suits = [&](Place at) {
    if (std::ranges::count(refused_, at) > 0) return false;
    if (!allocation_->importers().why_not_at(at).empty()) return false;
    for (std::size_t slot = range.first; slot < range.end; ++slot) {
      if (!parts_.migrator.reach().allows(*allocation_, slot, at)) return false;
    }
    return true;
  };
  const auto found = std::ranges::find_if(places, suits);
  return found == places.end() ? std::nullopt : std::optional(*found);
}

void ImporterReach::bring(const std::vector<SlotRange>& ranges, bool is_last) {
  const std::optional<Place> to = place_for(ranges.front());
  const bool gives_up = is_last || !allocation_->movable;
  if (!to || (failure_ && gives_up)) {
    const Place at = allocation_->place(ranges.front().first);
    throw Error(
        failure_ ? failure_->kind() : ErrorKind::unreachable, export_call,
        fmt::format("the memory lies at {}, which process {} does not use, and does not move to "
                    "where it can: {}. Start that process with this GPU in CUDA_VISIBLE_DEVICES",
                    to_string(at), who_.process,
                    failure_ ? detail_of(*failure_)
                             : "no place suits all processes and GPUs that use the memory"));
  }
  if (const std::string why = allocation_->why_kept(); !why.empty()) {
    failure_.emplace(ErrorKind::pinned, export_call, "it " + why);
    return;  // For a moment, perhaps.
  }
  std::vector<NewMigration> moves;
  for (const SlotRange& range : ranges) {
    NewMigration& move = moves.emplace_back();
    move.what = {allocation_, range, *to};
    const bool attached = parts_.migrator.attached().any(allocation_->begin());
    move.options.scope = attached ? StopScope::attached : StopScope::hold;
  }
  moves_ = parts_.migrator.submit_all(std::move(moves));
}

bool ImporterReach::ended() {
  if (!std::ranges::all_of(moves_, [](const auto& task) { return task->done(); })) return false;
  for (const auto& task : std::exchange(moves_, {})) {
    try {
      if (const std::exception_ptr failure = task->error()) std::rethrow_exception(failure);
    } catch (const Error& error) {
      failure_ = error;
      switch (error.kind()) {
        case ErrorKind::busy:
        case ErrorKind::cancelled:
        case ErrorKind::pinned: break;
        case ErrorKind::out_of_memory:
        case ErrorKind::unreachable:
        case ErrorKind::unsupported: refused_.push_back(task->to); break;
        default: throw;
      }
    }
  }
  return true;
}

}  // namespace vma
