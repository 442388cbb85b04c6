#include "migrate/migration/move_account.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace vma {
namespace {

std::size_t offset_of(const Transaction& chunk) {
  return chunk.slot() * chunk.allocation().geometry().chunk_bytes;
}

}  // namespace

MigrationReport report_of(const Allocation& allocation, SlotRange range) {
  const Geometry& geometry = allocation.geometry();
  MigrationReport report;
  report.offset = range.first * geometry.chunk_bytes;
  report.chunks = static_cast<int>(range.end - range.first);
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    report.bytes_asked += geometry.slot_bytes(slot);
  }
  return report;
}

void note_routes(MigrationReport& report, const std::set<Place>& sources, Place to) {
  for (const Place from : sources) {
    report.route +=
        fmt::format("{}{}->{}", report.route.empty() ? "" : ", ", to_string(from), to_string(to));
  }
}

void note_moved(MigrationReport& report, const Transaction& chunk) noexcept {
  ++report.chunks_moved;
  report.bytes_moved += chunk.size_bytes();
  if (chunk.remapped()) report.bytes_remapped += chunk.size_bytes();
}

void note_failure(MigrationReport& report, const Transaction& chunk,
                  const std::exception& error) noexcept {
  try {
    report.failures.push_back(
        {offset_of(chunk), {}, chunk.state() == Transaction::State::poisoned});
    report.failures.back().reason = error.what();
  } catch (const std::bad_alloc&) {  // Recorded without its reason.
  }
}

std::exception_ptr cancelled_after(const MigrationReport& report, const Allocation& allocation,
                                   const char* call) noexcept {
  try {
    return std::make_exception_ptr(
        Error(ErrorKind::cancelled, call,
              fmt::format("after {} of {} chunks{}", report.chunks_moved, report.chunks,
                          allocation.being_freed ? ", because the memory is being freed" : "")));
  } catch (...) {
    return std::current_exception();
  }
}

MigrationProgress progress_of(const MigrationReport& report) noexcept {
  return {report.chunks, report.chunks_moved, report.bytes_asked, report.bytes_moved};
}

void tell_progress(Callbacks& callbacks,
                   const std::function<void(const MigrationProgress&)>& on_progress,
                   const MigrationReport& report) noexcept {
  if (!on_progress) return;
  try {
    callbacks.post([call = on_progress, progress = progress_of(report)] { call(progress); });
  } catch (const std::exception& error) {  // Lost, as a callback that throws would be.
    callbacks.count_failures(1);
    log(LogLevel::warn, "could not queue a progress callback: {}", error.what());
  }
}

ChunkStep step_of(const Transaction& chunk, ChunkStep::Kind kind, const MigrationReport& report,
                  const MigrationTerms& terms) noexcept {
  ChunkStep step;
  step.kind = kind;
  step.address = chunk.allocation().slot_begin(chunk.slot());
  step.bytes = chunk.size_bytes();
  step.from = chunk.from();
  step.to = chunk.to();
  step.stop = report.stop;
  step.switched = chunk.switched_at();
  step.operation = terms.operation;
  step.by_policy = terms.by_policy;
  if (kind != ChunkStep::Kind::stayed) return step;
  const std::vector<ChunkFailure>& failures = report.failures;
  const auto own = std::ranges::find(failures, offset_of(chunk), &ChunkFailure::offset);
  try {  // Its own reason, or that of the chunk that ended the migration.
    step.why = failures.empty() ? "cancelled" : (own != failures.end() ? *own : failures[0]).reason;
  } catch (const std::bad_alloc&) {  // Reported without its reason.
  }
  return step;
}

}  // namespace vma
