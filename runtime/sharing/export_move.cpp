#include "sharing/export_move.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace vma {

ExportMove::ExportMove(ShareThread& thread, Exports exports, const ImporterMoves::Limits& limits,
                       std::function<void()> at_end)
    : thread_(thread), exports_(std::move(exports)), limits_(limits), at_end_(std::move(at_end)) {}

ExportMove::~ExportMove() {
  if (offer_) {
    offer_->decision().decide(SharedDecision::Value::stay);
    offer_->withdraw();
  }
  at_end_();
}

void ExportMove::prepare(std::span<const MovingChunk> chunks) {
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(limits_.answer);
  const TimePoint deadline = later(clock_.now(), import_time(limit, chunks.size()));
  offer_ = std::make_shared<OfferedMove>(chunks, limits_);
  tell_all(deadline);
  offer_->await(OfferedMove::Stage::ready, deadline);
}

/// Those that are about to import have time to end that, and so have those that have not answered a
/// move before: they were stopped, for example.
void ExportMove::tell_all(TimePoint deadline) {
  Poll poll;
  while (true) {
    ProcessExit::hold_back();
    const std::string busy = tell_or_name_busy();
    if (busy.empty()) return;
    if (clock_.now() >= deadline) throw Error(ErrorKind::busy, "vma::migrate", busy);
    poll.pause();
  }
}

std::string ExportMove::tell_or_name_busy() {
  std::string busy;
  thread_.run_there([&] {
    for (const auto& shared : exports_) {
      if (busy.empty()) busy = shared->why_not_moving();
    }
    if (!busy.empty()) return;
    for (const auto& shared : exports_) shared->join(offer_);
  });
  return busy;
}

void ExportMove::stop() {
  thread_.run_there([&] {
    for (const auto& shared : exports_) shared->ask_to_stop();
  });
  offer_->await(OfferedMove::Stage::stopped, later(clock_.now(), limits_.answer));
}

bool ExportMove::decide() noexcept {
  return offer_->decision().decide(SharedDecision::Value::move) == SharedDecision::Value::move;
}

ImportersMove::Account ExportMove::await_end() noexcept {
  try {
    offer_->await(OfferedMove::Stage::ended, later(clock_.now(), limits_.answer));
  } catch (const std::exception& error) {
    log(LogLevel::debug, "an importer has yet to switch: {}", error.what());
  }
  return offer_->account();
}

}  // namespace vma
