// The calls that move memory. Each moves a group: that of a call with one pointer has one request.
#include "runtime/moving.hpp"

#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include "migrate/migration/group.hpp"
#include "migrate/migration/target_reservation.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// Chunks that were already sent to a place, by the first of them.
struct Sent {
  std::size_t end = 0;
  std::size_t request = 0;
  Place to;
};

/// Refuses a chunk that goes to two places. For each allocation, ranges that do not overlap.
class Sendings {
 public:
  void add(std::size_t which, const RequestedRange& wanted, const char* call) {
    std::map<std::size_t, Sent>& sent = sent_[wanted.allocation.get()];
    std::size_t first = wanted.range.first;
    while (first < wanted.range.end) {
      auto next = sent.upper_bound(first);
      if (next != sent.begin() && std::prev(next)->second.end > first) --next;
      if (next == sent.end() || next->first >= wanted.range.end) {
        sent[first] = {wanted.range.end, which, wanted.to};
        return;
      }
      if (next->second.to != wanted.to)
        refuse(std::max(first, next->first), next->second, wanted, call);
      if (next->first > first) sent[first] = {next->first, which, wanted.to};
      first = next->second.end;
    }
  }

 private:
  [[noreturn]] static void refuse(std::size_t slot, const Sent& other, const RequestedRange& wanted,
                                  const char* call) {
    throw Error(
        ErrorKind::invalid_argument, call,
        fmt::format("the chunk at offset {} of the allocation at {:#x} would go to {} and, "
                    "by request {}, to {}. Ranges are extended to whole chunks of {} bytes",
                    slot * wanted.allocation->geometry().chunk_bytes,
                    to_integer(wanted.allocation->begin()), to_string(wanted.to), other.request,
                    to_string(other.to), wanted.allocation->geometry().chunk_bytes));
  }

  std::map<const Allocation*, std::map<std::size_t, Sent>> sent_;
};

/// All that the pointer names: an allocation, or in a pool a block.
SlotRange whole(const Machinery& parts, const Allocation& allocation, const void* pointer,
                const char* call) {
  if (parts.pools.segment_around(address_of(pointer)) == nullptr) {
    return {0, allocation.geometry().slots};
  }
  if (const auto block = parts.pools.block_around(address_of(pointer))) {
    return slots_of(allocation, to_pointer(block->segment), block->offset, block->size_bytes, call);
  }
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("no block of a pool is allocated at {}; name a range to move a part of "
                          "the segment at {:#x}",
                          fmt::ptr(pointer), to_integer(allocation.begin())));
}

RequestedRange resolve(const MoveRequest& request, const Machinery& parts, const char* call) {
  parts.topology.require(request.to, call);
  std::shared_ptr<Allocation> allocation = parts.memory.require_around(request.pointer, call);
  check_usable(*allocation, call);
  check_no_hook(*allocation, call);
  const SlotRange range =
      request.offset == 0 && request.bytes == 0
          ? whole(parts, *allocation, request.pointer, call)
          : slots_of(*allocation, request.pointer, request.offset, request.bytes, call);
  return {std::move(allocation), range, request.to};
}

/// Why the range may not move, if that is known already.
std::optional<Error> refusal_of(const RuntimeParts::Entry& entry, const RequestedRange& wanted,
                                const MigrateOptions& options, const char* call) {
  const auto& [allocation, range, to] = wanted;
  try {
    check_background_move(*allocation, entry->migrator, options, call);
    check_not_dropped(*allocation, range, call);
    entry->migrator.reach().require_atomics(*allocation, range, to, call);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// If one may not move, none does.
void refuse_with_others(std::vector<NewMigration>& migrations, const char* call) {
  const auto refused = [](const NewMigration& one) { return one.refusal.has_value(); };
  if (std::ranges::none_of(migrations, refused)) return;
  for (NewMigration& one : migrations) {
    if (!one.refusal) one.refusal = nothing_moves(call);
  }
}

/// In the background. What may not move is an error of its task, or thrown if it is `alone`.
std::shared_ptr<GroupTask> start(RuntimeParts& parts, std::span<const MoveRequest> requests,
                                 const MigrateOptions& options, const char* call,
                                 bool alone = false) {
  const RuntimeParts::Entry entry(parts, call);
  check_background_options(options, call);
  const std::vector<RequestedRange> ranges = resolve_requests(requests, *entry, call);
  const auto account = GroupAccount::of(parts.driver->clock(), ranges, options.on_progress);
  std::vector<NewMigration> migrations;
  for (std::size_t which = 0; which < ranges.size(); ++which) {
    NewMigration& migration = migrations.emplace_back();
    migration.what = ranges[which];
    migration.options = options;
    if (options.all_or_nothing) migration.options.reserve_first = false;  // It is done for all.
    migration.options.on_progress = account->progress_of(which);
    migration.group = account;
    migration.refusal = refusal_of(entry, ranges[which], options, call);
    migration.terms.requires_guards = false;  // They have been asked for.
    if (alone && migration.refusal) throw Error(*migration.refusal);
  }
  if (options.all_or_nothing) refuse_with_others(migrations, call);
  return std::make_shared<GroupTask>(call, std::vector(requests.begin(), requests.end()),
                                     entry->migrator.submit_all(std::move(migrations)), account,
                                     entry->migrator.shared_callbacks());
}

/// For a caller that waits. Throws only what prevents that anything begins.
GroupReport move(RuntimeParts& parts, std::span<const MoveRequest> requests,
                 const MigrateOptions& options, bool alone = false) {
  constexpr const char* call = "vma::migrate";
  if (options.scope == StopScope::attached) {
    const std::shared_ptr<GroupTask> task = start(parts, requests, options, call, alone);
    // Waits outside, so that a shutdown can end the moves.
    task->wait();
    if (options.on_progress) task->await_progress();
    return task->report();
  }
  const RuntimeParts::Entry entry(parts, call);
  check_held_move(options, call);
  if (!options.nothing_runs) CopyScopes::process().look();
  const std::vector<RequestedRange> ranges = resolve_requests(requests, *entry, call);
  GroupReport report;
  const auto account = GroupAccount::of(parts.driver->clock(), ranges, options.on_progress);
  std::vector<RangeResult> results;
  {
    const AwaitedCallbacks progress(entry->migrator.callbacks(),
                                    static_cast<bool>(options.on_progress));
    results = entry->migrator.move_all(ranges, options, {}, *account);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    report.requests.push_back(
        {requests[i], std::move(results[i].report), std::move(results[i].error)});
  }
  report.total = account->total(report.requests);
  return report;
}

MigrationReport move_one(RuntimeParts& parts, const MoveRequest& request,
                         const MigrateOptions& options) {
  GroupReport group = move(parts, {&request, 1}, options, true);
  auto& [what, report, error] = group.requests.front();
  if (error) throw Error(*error);
  return std::move(report);
}

Migration start_one(RuntimeParts& parts, const MoveRequest& request,
                    const MigrateOptions& options) {
  return Migration(
      start(parts, {&request, 1}, options, "vma::migrate_async", true)->tasks().front());
}

/// A range that came to nothing is more likely an error than a wish to move all.
MoveRequest part_of(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                    const char* call) {
  if (bytes > 0) return {pointer, to, offset, bytes};
  throw Error(ErrorKind::invalid_argument, call, "bytes is 0; name no range to move all of it");
}

}  // namespace

std::vector<RequestedRange> resolve_requests(std::span<const MoveRequest> requests,
                                             const Machinery& parts, const char* call) {
  std::vector<RequestedRange> wanted;
  wanted.reserve(requests.size());
  if (requests.size() == 1) {
    wanted.push_back(resolve(requests.front(), parts, call));
    return wanted;
  }
  Sendings sendings;
  for (std::size_t which = 0; which < requests.size(); ++which) {
    for_request(which, call, [&] {
      wanted.push_back(resolve(requests[which], parts, call));
      sendings.add(which, wanted.back(), call);
    });
  }
  return wanted;
}

void for_request(std::size_t which, const char* call, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(error.kind(), call, fmt::format("request {}: {}", which, detail_of(error)),
                error.native());
  }
}

inline namespace v1 {

MigrationReport Runtime::migrate(void* pointer, Place to, const MigrateOptions& options) {
  return move_one(*parts_, {pointer, to}, options);
}

MigrationReport Runtime::migrate(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                                 const MigrateOptions& options) {
  return move_one(*parts_, part_of(pointer, offset, bytes, to, "vma::migrate"), options);
}

GroupReport Runtime::migrate(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  GroupReport report = move(*parts_, requests, options);
  if (report.failed() > 0) throw group_error("vma::migrate", std::move(report));
  return report;
}

Migration Runtime::migrate_async(void* pointer, Place to, const MigrateOptions& options) {
  return start_one(*parts_, {pointer, to}, options);
}

Migration Runtime::migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                                 const MigrateOptions& options) {
  return start_one(*parts_, part_of(pointer, offset, bytes, to, "vma::migrate_async"), options);
}

MigrationGroup Runtime::migrate_async(std::span<const MoveRequest> requests,
                                      const MigrateOptions& options) {
  return MigrationGroup(start(*parts_, requests, options, "vma::migrate_async"));
}

}  // namespace v1
}  // namespace vma
