#pragma once

#include "migrate/migration/importer_moves.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/offered_move.hpp"
#include "sharing/share_thread.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// Leads the importers of one allocation, by whichever of its exports they came, through one move.
class ExportMove final : public ImportersMove {
 public:
  using Exports = std::vector<std::shared_ptr<MemoryExport>>;

  /// The thread does not end before this object. `at_end` is called by the destructor.
  ExportMove(ShareThread& thread, Exports exports, const ImporterMoves::Limits& limits,
             std::function<void()> at_end);
  ~ExportMove() override;
  ExportMove(const ExportMove&) = delete;
  ExportMove& operator=(const ExportMove&) = delete;

  void prepare(std::span<const MovingChunk> chunks) override;
  void stop() override;
  bool decide() noexcept override;
  Account await_end() noexcept override;

 private:
  void tell_all(TimePoint deadline);
  std::string tell_or_name_busy();

  ShareThread& thread_;
  const Exports exports_;
  const ImporterMoves::Limits limits_;
  const std::function<void()> at_end_;
  SteadyClock clock_;
  std::shared_ptr<OfferedMove> offer_;
};

}  // namespace vma
