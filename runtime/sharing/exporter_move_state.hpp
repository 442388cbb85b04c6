#pragma once

#include "base/mutex.hpp"
#include "memory/importer_list.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "sharing/share_protocol.hpp"
#include "sharing/shared_decision.hpp"

#include <vma/error.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vma {

/// One move of exported memory as its importers take part in it: what they are told, and how far
/// each is. The thread that moves waits here for what the thread that serves importers notes.
class ExporterMoveState {
 public:
  /// How far an importer is.
  enum class Stage { told, ready, stopped, ended };

  /// Throws: as SharedDecision.
  ExporterMoveState(std::span<const ExporterChunk> chunks, const ExporterMoves::Limits& limits);

  SharedDecision& decision() noexcept { return decision_; }
  /// What begins the move for an importer. Throws: Error{out_of_memory}.
  ShareMessage announcement() const;

  // --- Of the thread that serves importers.
  /// Returns the importer's number.
  std::size_t add(const ImportingProcess& importer);
  /// False if another stage is due.
  bool reached(std::size_t importer, Stage stage) noexcept;
  /// Whatever its stage was; calls the move off if it is not decided.
  void ended(std::size_t importer, std::chrono::nanoseconds stall) noexcept;
  /// Calls the move off, also if the importer has not.
  void refused(std::size_t importer, ErrorKind kind, std::string_view why) noexcept;
  /// This process cannot tell all importers.
  void call_off() noexcept;
  /// Its connection has ended: nobody waits for it any more.
  void gone(std::size_t importer) noexcept;
  /// Calls `body` with all chunks, unless the move has been withdrawn; the chunks exist until it
  /// returns. Returns what `body` does, and true if it is not called.
  bool with_chunks(const std::function<bool(std::span<const ExporterChunk>)>& body);
  bool withdrawn() const;

  // --- Of the thread that moves.
  /// Returns once all importers that there still are have reached the stage. Throws: Error{busy}
  /// that names one that has not at the deadline, of the processor's clock; what one refused with.
  void await(Stage stage, TimePoint deadline);
  /// No chunk is passed on from here on.
  void withdraw() noexcept;
  ExporterMove::Account account() const noexcept;

 private:
  struct Party {
    ImportingProcess who;
    Stage stage = Stage::told;
    bool gone = false;
    std::chrono::nanoseconds stall{0};
  };
  bool all_reached(Stage stage) const VMART_REQUIRES(mutex_);
  void decide_to_stay() noexcept VMART_REQUIRES(mutex_);

  const std::vector<ExporterChunk> chunks_;
  const ExporterMoves::Limits limits_;
  SharedDecision decision_;
  mutable Mutex mutex_;  // Held while a message with chunks is made.
  Condition changed_;
  std::vector<Party> parties_ VMART_GUARDED_BY(mutex_);
  std::optional<Error> refusal_ VMART_GUARDED_BY(mutex_);  // The first one.
  bool called_off_ VMART_GUARDED_BY(mutex_) = false;       // And the importers have said why.
  bool withdrawn_ VMART_GUARDED_BY(mutex_) = false;
};

}  // namespace vma
