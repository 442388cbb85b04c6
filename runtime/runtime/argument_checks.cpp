#include "runtime/argument_checks.hpp"

#include "base/printable.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

void check_usable(const Allocation& allocation, const char* call) {
  if (allocation.being_freed) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("{:#x} is being freed", to_integer(allocation.begin())));
  }
}

void check_not_poisoned(const Allocation& allocation, const char* call) {
  if (!allocation.poisoned()) return;
  throw Error(
      ErrorKind::poisoned, call,
      fmt::format("the allocation at {:#x} lost a slot to a failed move; vma::read serves its "
                  "saved bytes",
                  to_integer(allocation.begin())));
}

void check_not_dropped(const Allocation& allocation, SlotRange range, const char* call) {
  if (!allocation.any_dropped(range.first, range.end)) return;
  throw Error(ErrorKind::dropped, call,
              fmt::format("contents of the allocation at {:#x} were dropped; vma::resume of \"{}\" "
                          "gives it memory again",
                          to_integer(allocation.begin()), allocation.tag));
}

void check_not_dropped(const Allocation& allocation, const char* call) {
  check_not_dropped(allocation, {0, allocation.geometry().slots}, call);
}

void check_no_hook(Allocation& allocation, const char* call) {
  if (!allocation.hooks().runs_here()) return;
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("a hook of the allocation at {:#x} called it, which would deadlock",
                          to_integer(allocation.begin())));
}

SlotRange slots_of(const Allocation& allocation, const void* pointer, std::size_t offset,
                   std::size_t bytes, const char* call) {
  const std::uint64_t before = address_of(pointer) - allocation.begin();
  const std::uint64_t left = allocation.size_bytes() - before;
  if (bytes == 0 || offset > left || bytes > left - offset) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} bytes at offset {} of {} are not within the {} bytes of the "
                            "allocation at {:#x}",
                            bytes, offset, fmt::ptr(pointer), allocation.size_bytes(),
                            to_integer(allocation.begin())));
  }
  const std::uint64_t chunk_bytes = allocation.geometry().chunk_bytes;
  const std::uint64_t first = before + offset;
  return {first / chunk_bytes, (first + bytes - 1) / chunk_bytes + 1};
}

void check_options(const MigrateOptions& options, const char* call) {
  if (options.deadline < std::chrono::milliseconds(0)) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("deadline is {} ms", options.deadline.count()));
  }
  if (options.max_stall && options.max_stall->count() <= 0) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("max_stall is {} us; it must be above 0", options.max_stall->count()));
  }
  const int share = options.copy_share_percent.value_or(100);
  if (share < 1 || share > 100) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("copy_share_percent is {}; it must be 1 to 100", share));
  }
}

void check_held_move(const MigrateOptions& options, const char* call) {
  if (options.mode == Mode::live) {
    throw Error(ErrorKind::unsupported, call,
                "the synchronous call holds contexts and moves stopped; set StopScope::attached to "
                "move live");
  }
  check_options(options, call);
}

void check_background_options(const MigrateOptions& options, const char* call) {
  const bool holds = options.scope == StopScope::hold || options.nothing_runs;
  if (holds && options.mode == Mode::live) {
    throw Error(ErrorKind::unsupported, call, "live moves are impossible under a hold");
  }
  check_options(options, call);
}

void check_background_move(const Allocation& allocation, Migrator& migrator,
                           const MigrateOptions& options, const char* call) {
  check_usable(allocation, call);
  check_not_poisoned(allocation, call);
  // Importers follow.
  const std::string reason =
      allocation.imported() ? allocation.why_pinned() : allocation.why_kept();
  if (!reason.empty() && !(options.wait_for_pins && allocation.movable)) {
    throw Error(ErrorKind::pinned, call,
                fmt::format("the allocation at {:#x} {}", to_integer(allocation.begin()), reason));
  }
  const bool holds = options.scope == StopScope::hold || options.nothing_runs;
  if (!holds && !migrator.may_stop_for(allocation.begin())) {
    throw Error(ErrorKind::invalid_argument, call,
                "this driver can hold no context, the program's work cannot be suspended, and no "
                "attached stream may use the allocation; attach the streams that use it");
  }
  if (options.nothing_runs) return;
  CopyScopes::process().look();
  CopyScopes::process().require_guards(call);
}

void check_capacity(const Topology& topology, Place at, std::uint64_t bytes, const char* call) {
  const std::uint64_t least = topology.granularity(), most = topology.memory_bytes(at);
  if (bytes == UINT64_MAX || bytes == 0) return;
  if (bytes < least) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} is less than a chunk of {}; ask for more, such as 20GiB, or for 0, "
                            "which moves everything away from {}",
                            bytes_text(bytes), bytes_text(least), to_string(at)));
  }
  if (most > 0 && bytes > most) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} is more than the {} that {} has; \"none\" removes the limit",
                            bytes_text(bytes), bytes_text(most), to_string(at)));
  }
}

}  // namespace vma
