// The C calls that move memory, and those that name the streams to stop.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"
#include "migrate/stops/program_calls.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/vma.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

using vma::at_boundary;
using vma::options_of;
using vma::require_argument;
using vma::require_value;

namespace {

/// Sets the results that both directions return.
void tell(const vma::ParkReport& report, uint64_t* out_moved_bytes, uint64_t* out_stayed_bytes) {
  uint64_t stayed_bytes = 0;
  for (const vma::ParkReport::Stayed& stayed : report.stayed) stayed_bytes += stayed.bytes;
  if (out_moved_bytes != nullptr) *out_moved_bytes = report.bytes_moved;
  if (out_stayed_bytes != nullptr) *out_stayed_bytes = stayed_bytes;
}

vma::ContextHandle context_of(void* context) {
  return vma::ContextHandle{reinterpret_cast<std::uintptr_t>(context)};
}

}  // namespace

vmart_status vmart_migrate(void* pointer, size_t offset, size_t size_bytes, vmart_place to,
                           const vmart_migrate_options* options) {
  constexpr const char* call = "vmart_migrate";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    const vma::Place place = vma::to_place(to, call);
    const vma::MigrateOptions how = options_of(options, call);
    if (offset == 0 && size_bytes == 0) {
      vma::migrate(pointer, place, how);
    } else {
      vma::migrate(pointer, offset, size_bytes, place, how);
    }
  });
}

vmart_status vmart_migrate_async(void* pointer, size_t offset, size_t size_bytes, vmart_place to,
                                 const vmart_migrate_options* options, vmart_migration** out) {
  constexpr const char* call = "vmart_migrate_async";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    const vma::Place place = vma::to_place(to, call);
    const vma::MigrateOptions how = options_of(options, call);
    // Allocated first, because a migration that has begun must not be lost.
    auto handle = std::make_unique<vmart_migration>();
    handle->migration = offset == 0 && size_bytes == 0
                            ? vma::migrate_async(pointer, place, how)
                            : vma::migrate_async(pointer, offset, size_bytes, place, how);
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
    vma::require_report(report, call, "report");
    const vma::Migration& one = migration->migration;
    const vmart_status status =
        vma::status_of(one.error());  // First: with it, the report is the last.
    vma::fill(report, one.report(), status);
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

vmart_status vmart_try_detach(vmart_stream stream, int* out_detached) {
  return at_boundary([&] {
    require_argument(out_detached, "vmart_try_detach", "out_detached");
    *out_detached = vma::try_detach(stream) ? 1 : 0;
  });
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

void vmart_copy_begin() {
  vma::CopyScopes::process().enter();
}

void vmart_copy_end() {
  vma::CopyScopes::process().leave();
}

void vmart_captures_will_be_told(int any_yet) {
  vma::CaptureLock::expect(any_yet != 0);
}

void vmart_no_stops_begin() {
  vma::CaptureLock::enter();
}

void vmart_no_stops_end() {
  vma::CaptureLock::leave();
}

void vmart_context_created(void* context) {
  vma::note_program_context(context_of(context), true);
}

void vmart_context_destroyed(void* context) {
  vma::note_program_context(context_of(context), false);
}

void vmart_hold_enqueues(const char* (*begin)(int64_t, void*), void (*end)(void*), void* data) {
  // Never freed: a move may be about to call it.
  vma::ProgramEnqueues::of_process().store(new vma::ProgramEnqueues{begin, end, data});
}

int64_t vmart_ns_since_hold() {
  return vma::ClosedHolds::of_process().since_last().count();
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
