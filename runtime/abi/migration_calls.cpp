// The C calls that move memory, and those that name the streams to stop.
#include "abi/boundary.hpp"

#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

using vma::at_boundary;
using vma::require_argument;

struct vmart_migration {
  vma::Migration migration;
};

namespace {

/// A range in the form that the C++ calls take.
struct Range {
  void* begin = nullptr;  // Of the allocation that contains it.
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Throws: Error{unknown_pointer}; {invalid_argument} if there are no bytes after the offset.
Range range_of(void* pointer, std::size_t offset, std::size_t bytes, const char* call) {
  require_argument(pointer, call, "pointer");
  const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
  const auto allocation = entry->memory.require_around(pointer, call);
  void* begin = vma::to_pointer(allocation->begin());
  if (offset == 0 && bytes == 0) return {begin, 0, allocation->size_bytes()};
  const std::uint64_t before = vma::address_of(pointer) - allocation->begin();
  if (bytes == 0 || offset > allocation->size_bytes()) {
    throw vma::Error(vma::ErrorKind::invalid_argument, call,
                     fmt::format("{} bytes from {} of {}", bytes, offset, fmt::ptr(pointer)));
  }
  return {begin, before + offset, bytes};
}

// Sizes of the first versions of the structs, which every program provides. They have no padding at
// the end, so that later members begin after them.
constexpr std::size_t options_bytes_min = 48;
constexpr std::size_t report_bytes_min = 88;
static_assert(offsetof(vmart_migrate_options, max_stall_us) + sizeof(int32_t) == options_bytes_min);
static_assert(offsetof(vmart_migration_report, stall_max_ns) + sizeof(int64_t) == report_bytes_min);

/// Throws: Error{invalid_argument} if the value is not in the enumeration 0 to `last`.
void require_value(std::int32_t value, std::int32_t last, const char* call, const char* name) {
  if (value >= 0 && value <= last) return;
  throw vma::Error(vma::ErrorKind::invalid_argument, call, fmt::format("{} is {}", name, value));
}

/// Throws: Error{invalid_argument} for an invalid size, mode or scope.
vma::MigrateOptions options_of(const vmart_migrate_options* given, const char* call) {
  vma::MigrateOptions options;
  if (given == nullptr) return options;
  if (given->size_bytes < options_bytes_min || given->size_bytes > vma::struct_bytes_max) {
    throw vma::Error(vma::ErrorKind::invalid_argument, call,
                     fmt::format("options->size_bytes is {}; it must be at least {}",
                                 given->size_bytes, options_bytes_min));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  const auto unknown = std::span(bytes, given->size_bytes).subspan(sizeof *given);
  const auto set = [](std::byte byte) { return byte != std::byte{0}; };
  if (std::ranges::any_of(unknown, set)) {
    throw vma::Error(vma::ErrorKind::invalid_argument, call,
                     "options contain a value that this version does not know");
  }
  static_assert(static_cast<int>(vma::Mode::live) == VMART_MODE_LIVE &&
                static_cast<int>(vma::Mode::stopped) == VMART_MODE_STOPPED);
  require_value(given->mode, VMART_MODE_STOPPED, call, "options->mode");
  options.mode = static_cast<vma::Mode>(given->mode);
  require_value(given->scope, VMART_SCOPE_HOLD, call, "options->scope");
  if (given->scope == VMART_SCOPE_ATTACHED) options.scope = vma::StopScope::attached;
  if (given->scope == VMART_SCOPE_HOLD) options.scope = vma::StopScope::hold;
  options.deadline = std::chrono::milliseconds(given->deadline_ms);
  options.priority = given->priority;
  options.reserve_first = given->reserve_first != 0;
  options.nothing_runs = given->nothing_runs != 0;
  options.wait_for_pins = given->wait_for_pins != 0;
  options.paranoid = given->paranoid != 0;
  if (given->max_stall_us != 0) options.max_stall = std::chrono::microseconds(given->max_stall_us);
  return options;
}

int32_t to_c(vma::Outcome outcome) {
  switch (outcome) {
    case vma::Outcome::done: return VMART_DONE;
    case vma::Outcome::partly: return VMART_PARTLY;
    case vma::Outcome::cancelled: return VMART_ENDED_CANCELLED;
    case vma::Outcome::failed: return VMART_FAILED;
  }
  return VMART_FAILED;
}

vmart_migration_report to_c(const vma::MigrationReport& report) {
  vmart_migration_report filled{};
  filled.bytes_asked = report.bytes_asked;
  filled.bytes_moved = report.bytes_moved;
  filled.bytes_copied_twice = report.bytes_copied_twice;
  filled.outcome = to_c(report.outcome);
  filled.chunks = report.chunks;
  filled.chunks_moved = report.chunks_moved;
  filled.chunks_live = report.chunks_live;
  filled.retries = report.retries;
  filled.gates = static_cast<int32_t>(report.stall.count);
  filled.wall_ns = report.wall.count();
  filled.stall_median_ns = report.stall.median.count();
  filled.stall_p99_ns = report.stall.p99.count();
  filled.stall_max_ns = report.stall.max.count();
  return filled;
}

/// Sets the results that both directions return.
void tell(const vma::ParkReport& report, uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes) {
  uint64_t stayed_bytes = 0;
  for (const vma::ParkReport::Stayed& stayed : report.stayed) stayed_bytes += stayed.bytes;
  if (out_moved_bytes != nullptr) *out_moved_bytes = report.bytes_moved;
  if (out_stayed_bytes != nullptr) *out_stayed_bytes = stayed_bytes;
}

}  // namespace

vmart_status vmart_migrate(void* pointer, size_t offset, size_t size_bytes, vmart_location to,
                           const vmart_migrate_options* options) {
  constexpr const char* call = "vmart_migrate";
  return at_boundary([&] {
    const Range range = range_of(pointer, offset, size_bytes, call);
    vma::migrate(range.begin, range.offset, range.bytes, vma::to_location(to, call),
                 options_of(options, call));
  });
}

vmart_status vmart_migrate_async(void* pointer, size_t offset, size_t size_bytes, vmart_location to,
                                 const vmart_migrate_options* options, vmart_migration** out) {
  constexpr const char* call = "vmart_migrate_async";
  return at_boundary([&] {
    require_argument(out, call, "out");
    const Range range = range_of(pointer, offset, size_bytes, call);
    // Allocated first, because a migration that has begun must not be lost.
    auto handle = std::make_unique<vmart_migration>();
    handle->migration = vma::migrate_async(range.begin, range.offset, range.bytes,
                                           vma::to_location(to, call), options_of(options, call));
    *out = handle.release();
  });
}

vmart_status vmart_migration_wait(vmart_migration* migration) {
  return at_boundary([&] {
    require_argument(migration, "vmart_migration_wait", "migration");
    migration->migration.wait();
  });
}

vmart_status vmart_migration_wait_for(vmart_migration* migration, int64_t limit_ns, int* out_done) {
  return at_boundary([&] {
    require_argument(migration, "vmart_migration_wait_for", "migration");
    require_argument(out_done, "vmart_migration_wait_for", "out_done");
    const std::chrono::nanoseconds limit(std::max<int64_t>(limit_ns, 0));
    *out_done = migration->migration.wait_for(limit) ? 1 : 0;
  });
}

vmart_status vmart_migration_done(vmart_migration* migration, int* out_done) {
  return at_boundary([&] {
    require_argument(migration, "vmart_migration_done", "migration");
    require_argument(out_done, "vmart_migration_done", "out_done");
    *out_done = migration->migration.done() ? 1 : 0;
  });
}

vmart_status vmart_migration_cancel(vmart_migration* migration) {
  return at_boundary([&] {
    require_argument(migration, "vmart_migration_cancel", "migration");
    migration->migration.cancel();
  });
}

vmart_status vmart_migration_report_get(vmart_migration* migration,
                                        vmart_migration_report* report) {
  constexpr const char* call = "vmart_migration_report_get";
  return at_boundary([&] {
    require_argument(migration, call, "migration");
    require_argument(report, call, "report");
    if (report->size_bytes < report_bytes_min) {
      throw vma::Error(vma::ErrorKind::invalid_argument, call,
                       fmt::format("report->size_bytes is {}; it must be at least {}",
                                   report->size_bytes, report_bytes_min));
    }
    vmart_migration_report filled = to_c(migration->migration.report());
    filled.size_bytes = std::min(report->size_bytes, sizeof filled);
    std::memcpy(report, &filled, filled.size_bytes);
  });
}

void vmart_migration_release(vmart_migration* migration) {
  at_boundary([&] { delete migration; });
}

vmart_status vmart_attach(vmart_stream stream) {
  return at_boundary([&] { vma::attach(stream); });
}

vmart_status vmart_detach(vmart_stream stream) {
  return at_boundary([&] { vma::detach(stream); });
}

vmart_status vmart_attach_to(vmart_stream stream, void* pointer) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_attach_to", "pointer");
    vma::attach(stream, pointer);
  });
}

vmart_status vmart_attach_as(vmart_stream stream, void* pointer, int32_t work) {
  return at_boundary([&] {
    require_value(work, VMART_WORK_NO_GRAPHS, "vmart_attach_as", "work");
    const auto enqueued =
        work == VMART_WORK_NO_GRAPHS ? vma::StreamWork::no_graphs : vma::StreamWork::any;
    if (pointer == nullptr) return vma::attach(stream, enqueued);
    vma::attach(stream, pointer, enqueued);
  });
}

vmart_status vmart_detach_from(vmart_stream stream, void* pointer) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_detach_from", "pointer");
    vma::detach(stream, pointer);
  });
}

vmart_status vmart_park(const char* tag, const vmart_migrate_options* options,
                        uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes) {
  constexpr const char* call = "vmart_park";
  return at_boundary([&] {
    require_argument(tag, call, "tag");
    tell(vma::park(tag, {{}, options_of(options, call)}), out_moved_bytes, out_stayed_bytes);
  });
}

vmart_status vmart_park_dropping(const char* tag, const vmart_migrate_options* options,
                                 uint64_t* out_dropped_bytes, uint64_t* out_stayed_bytes) {
  constexpr const char* call = "vmart_park_dropping";
  return at_boundary([&] {
    require_argument(tag, call, "tag");
    tell(vma::park(tag, {{}, options_of(options, call), vma::ParkContents::drop}),
         out_dropped_bytes, out_stayed_bytes);
  });
}

vmart_status vmart_resume(const char* tag, const vmart_migrate_options* options,
                          uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes) {
  constexpr const char* call = "vmart_resume";
  return at_boundary([&] {
    require_argument(tag, call, "tag");
    tell(vma::resume(tag, {{}, options_of(options, call)}), out_moved_bytes, out_stayed_bytes);
  });
}

vmart_status vmart_is_parked(const char* tag, int* out_parked) {
  constexpr const char* call = "vmart_is_parked";
  return at_boundary([&] {
    require_argument(tag, call, "tag");
    require_argument(out_parked, call, "out_parked");
    *out_parked = vma::is_parked(tag) ? 1 : 0;
  });
}
