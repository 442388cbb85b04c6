#include "twin/twin_mover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

using namespace std::chrono_literals;

TwinMover::TwinMover(TwinWorld& world)
    : world_(world), plan_(world.plan()), random_(world.plan().seed + 1) {}

void TwinMover::run() {
  constexpr std::size_t under_way_max = 3;
  for (int i = 0; i < plan_.moves && !world_.finished(); ++i) {
    try {
      if (plan_.company.holds && below(random_, 3) == 0) {
        move_held();
      } else {
        move_some();
      }
    } catch (const Error& error) {
      judge(error);
    }
    world_.nap(std::chrono::nanoseconds(below(random_, 50'000)));
    while (under_way_.size() > below(random_, under_way_max)) end_one();
  }
  while (!under_way_.empty()) end_one();
}

MigrateOptions TwinMover::draw_options() {
  MigrateOptions options;
  options.scope = StopScope::attached;
  options.mode = Mode::automatic;
  constexpr std::chrono::microseconds stalls[] = {1us, 200us, 2ms, 1s};  // One chunk a gate to all.
  options.max_stall = stalls[below(random_, std::size(stalls))];
  if (plan_.bug != TwinBug::none) {
    options.mode = Mode::live;
    return options;
  }
  if (below(random_, 4) == 0) options.mode = Mode::live;
  if (below(random_, 8) == 0) options.mode = Mode::stopped;
  options.priority = static_cast<int>(below(random_, 2));
  options.reserve_first = below(random_, 4) == 0;
  options.wait_for_pins = below(random_, 4) != 0;
  options.paranoid = below(random_, 6) == 0;
  return options;
}

/// One array, or both to one place: with a call for each, or with one for both.
void TwinMover::move_some() {
  const TwinArray& array = world_.any_array(random_);
  const MigrateOptions options = draw_options();
  const Place to = world_.elsewhere(random_, array.array);
  std::vector<MoveRequest> requests{draw_request(array, to)};
  if (below(random_, 2) == 0) {
    const bool first = array.array == world_.array().array;
    requests.push_back(draw_request(first ? world_.beside() : world_.array(), to));
  }
  if (below(random_, 2) == 0) {
    const MigrationGroup group = world_.runtime().migrate_async(requests, options);
    for (std::size_t i = 0; i < group.size(); ++i) under_way_.push_back(group.request(i));
  } else {
    for (const MoveRequest& one : requests) {
      under_way_.push_back(
          world_.runtime().migrate_async(one.pointer, one.offset, one.bytes, one.to, options));
    }
  }
  if (!plan_.cancels || below(random_, 4) != 0) return;
  world_.nap(std::chrono::nanoseconds(below(random_, 100'000)));
  under_way_.back().cancel();
}

MoveRequest TwinMover::draw_request(const TwinArray& array, Place to) {
  const std::uint64_t bytes = array.words * sizeof(std::uint64_t);
  std::uint64_t offset = 0, length = bytes;
  if (below(random_, 3) == 0) {
    offset = below(random_, bytes);
    length = 1 + below(random_, bytes - offset);
  }
  return {array.array, to, offset, length};
}

/// One array, or both with one call.
void TwinMover::move_held() {
  std::uint64_t* const array = world_.array().array;
  MigrateOptions options;
  options.reserve_first = below(random_, 2) == 0;
  const Place to = world_.elsewhere(random_, array);
  if (below(random_, 2) == 0) return count(world_.runtime().migrate(array, to, options));
  std::uint64_t* const other = world_.beside().array;
  std::vector<MoveRequest> requests{{other, world_.elsewhere(random_, other)}, {array, to}};
  if (below(random_, 2) == 0) std::ranges::reverse(requests);
  count(world_.runtime().migrate(requests, options).total);
}

/// Of the moves in progress, the one requested first.
void TwinMover::end_one() {
  const Migration move = std::move(under_way_.front());
  under_way_.erase(under_way_.begin());
  try {
    count(move.wait());
  } catch (const Error& error) {
    if (error.report() != nullptr)
      seen_.chunks_moved += static_cast<unsigned>(error.report()->chunks_moved);
    judge(error);
  }
}

void TwinMover::count(const MigrationReport& report) {
  ++seen_.moves_done;
  seen_.chunks_moved += static_cast<unsigned>(report.chunks_moved);
  seen_.chunks_live += static_cast<unsigned>(report.chunks_live);
}

void TwinMover::judge(const Error& error) {
  ++seen_.moves_failed[std::string(to_string(error.kind()))];
  const bool captured = plan_.company.captures;
  bool may_be = plan_.any_error;
  switch (error.kind()) {
    case ErrorKind::busy: may_be = true; break;
    case ErrorKind::cancelled: may_be |= plan_.cancels; break;
    case ErrorKind::pinned: may_be |= plan_.company.pins; break;
    // Some memory cannot move live, and a hold is refused while something captures.
    case ErrorKind::unsupported:
      may_be |= plan_.hosts || captured || plan_.hardware_queues < 8;
      break;
    default: break;
  }
  if (!may_be) world_.fail(fmt::format("a move ended in {}", error.what()));
}

void TwinMover::add_to(TwinOutcome& outcome) {
  const RuntimeStats stats = world_.runtime().stats();
  seen_.gates = stats.gates;
  seen_.bytes_remapped = stats.bytes_remapped;
  for (const auto& [reason, times] : stats.gates_given_up_by_reason) seen_.given_up[reason] = times;
  if (stats.poisoned != 0 && !plan_.any_error) world_.fail("an allocation is poisoned");
  outcome += seen_;
}

}  // namespace vma
