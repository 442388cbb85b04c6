#include "abi/migration_values.hpp"

#include <vma/vma.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>

namespace vma {
namespace {

// The first versions of the structs have no padding at the end, so that later members begin after
// them.
constexpr std::size_t options_bytes_min = 48;
static_assert(offsetof(vmart_migrate_options, max_stall_us) + sizeof(int32_t) == options_bytes_min);
static_assert(offsetof(vmart_migration_report, stall_max_ns) + sizeof(int64_t) == report_bytes_min);

int32_t to_c(Outcome outcome) {
  switch (outcome) {
    case Outcome::done: return VMART_DONE;
    case Outcome::partly: return VMART_PARTLY;
    case Outcome::cancelled: return VMART_ENDED_CANCELLED;
    case Outcome::failed: return VMART_FAILED;
  }
  return VMART_FAILED;
}

}  // namespace

void require_value(std::int32_t value, std::int32_t last, const char* call, const char* name) {
  if (value >= 0 && value <= last) return;
  throw Error(ErrorKind::invalid_argument, call, fmt::format("{} is {}", name, value));
}

void require_struct_size(std::size_t size_bytes, std::size_t min_bytes, const char* call,
                         const char* name) {
  if (size_bytes >= min_bytes && size_bytes <= struct_bytes_max) return;
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("{} is {}; it must be at least {}", name, size_bytes, min_bytes));
}

void require_zeros_behind(const void* begin, std::size_t known_bytes, std::size_t size_bytes,
                          const char* call, const char* name) {
  const std::span all(static_cast<const std::byte*>(begin), size_bytes);
  const auto set = [](std::byte byte) { return byte != std::byte{0}; };
  if (std::ranges::none_of(all.subspan(std::min(known_bytes, size_bytes)), set)) return;
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("{} contain a value that this version does not know", name));
}

MigrateOptions options_of(const vmart_migrate_options* given, const char* call) {
  MigrateOptions options;
  if (given == nullptr) return options;
  const auto known = known_part(given, options_bytes_min, sizeof *given, call);
  static_assert(static_cast<int>(Mode::live) == VMART_MODE_LIVE &&
                static_cast<int>(Mode::stopped) == VMART_MODE_STOPPED);
  require_value(known.mode, VMART_MODE_STOPPED, call, "options->mode");
  options.mode = static_cast<Mode>(known.mode);
  require_value(known.scope, VMART_SCOPE_HOLD, call, "options->scope");
  if (known.scope == VMART_SCOPE_ATTACHED) options.scope = StopScope::attached;
  if (known.scope == VMART_SCOPE_HOLD) options.scope = StopScope::hold;
  options.deadline = std::chrono::milliseconds(known.deadline_ms);
  options.priority = known.priority;
  options.reserve_first = known.reserve_first != 0;
  options.all_or_nothing = known.all_or_nothing != 0;
  options.nothing_runs = known.nothing_runs != 0;
  options.wait_for_pins = known.wait_for_pins != 0;
  options.paranoid = known.paranoid != 0;
  if (known.copy_share_percent != 0) options.copy_share_percent = known.copy_share_percent;
  if (known.max_stall_us != 0) options.max_stall = std::chrono::microseconds(known.max_stall_us);
  return options;
}

void require_report(const vmart_migration_report* report, const char* call, const char* name) {
  require_argument(report, call, name);
  require_struct_size(report->size_bytes, report_bytes_min, call,
                      fmt::format("{}->size_bytes", name).c_str());
}

void fill(vmart_migration_report* report, const MigrationReport& what,
          vmart_status status) noexcept {
  vmart_migration_report filled{};
  filled.size_bytes = std::min(report->size_bytes, sizeof filled);
  filled.bytes_asked = what.bytes_asked;
  filled.bytes_moved = what.bytes_moved;
  filled.bytes_copied_twice = what.bytes_copied_twice;
  filled.outcome = to_c(what.outcome);
  filled.chunks = what.chunks;
  filled.chunks_moved = what.chunks_moved;
  filled.chunks_live = what.chunks_live;
  filled.retries = what.retries;
  filled.gates = static_cast<int32_t>(what.stall.count);
  filled.wall_ns = what.wall.count();
  filled.stall_median_ns = what.stall.median.count();
  filled.stall_p99_ns = what.stall.p99.count();
  filled.stall_max_ns = what.stall.max.count();
  filled.status = status;
  static_assert(static_cast<int>(StopKind::gate) == VMART_STOP_GATE &&
                static_cast<int>(StopKind::hold) == VMART_STOP_HOLD &&
                static_cast<int>(StopKind::suspension) == VMART_STOP_SUSPENSION);
  filled.stop = static_cast<int32_t>(what.stop);
  std::memcpy(report, &filled, filled.size_bytes);
}

vmart_status status_of(const std::exception_ptr& error) noexcept {
  if (!error) return VMART_OK;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return to_status(known.kind());
  } catch (...) {
    return VMART_INTERNAL;
  }
}

}  // namespace vma
