#include "sharing/exporter_move_state.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

constexpr const char* move_call = "vma::migrate";

}  // namespace

ExporterMoveState::ExporterMoveState(std::span<const ExporterChunk> chunks,
                                     const ExporterMoves::Limits& limits)
    : chunks_(chunks.begin(), chunks.end()), limits_(limits) {}

ShareMessage ExporterMoveState::announcement() const {
  const auto in_ms = [](std::chrono::nanoseconds time) {
    return std::chrono::ceil<std::chrono::milliseconds>(time);
  };
  ShareMessage message{.kind = ShareKind::move, .first = chunks_.size()};
  message.limit = in_ms(limits_.answer);
  message.decision_limit = in_ms(limits_.decision);
  message.descriptors.push_back(decision_.pass_on());
  return message;
}

std::size_t ExporterMoveState::add(const ImportingProcess& importer) {
  const MutexLock lock(mutex_);
  parties_.push_back({importer});
  return parties_.size() - 1;
}

bool ExporterMoveState::reached(std::size_t importer, Stage stage) noexcept {
  const MutexLock lock(mutex_);
  Party& party = parties_[importer];
  if (static_cast<int>(party.stage) + 1 != static_cast<int>(stage)) return false;
  party.stage = stage;
  changed_.notify_all();
  return true;
}

void ExporterMoveState::ended(std::size_t importer, std::chrono::nanoseconds stall) noexcept {
  const MutexLock lock(mutex_);
  decide_to_stay();
  parties_[importer].stage = Stage::ended;
  parties_[importer].stall = stall;
  changed_.notify_all();
}

void ExporterMoveState::refused(std::size_t importer, ErrorKind kind,
                                std::string_view why) noexcept {
  const MutexLock lock(mutex_);
  decide_to_stay();
  try {
    if (!refusal_) {
      refusal_.emplace(kind, move_call,
                       fmt::format("process {}, which has imported the memory, cannot follow: {}",
                                   parties_[importer].who.process, why));
    }
  } catch (const std::exception&) {  // It is called off without words.
  }
  changed_.notify_all();
}

void ExporterMoveState::call_off() noexcept {
  const MutexLock lock(mutex_);
  decide_to_stay();
  changed_.notify_all();
}

void ExporterMoveState::decide_to_stay() noexcept {
  called_off_ |= decision_.decide(SharedDecision::Value::stay) == SharedDecision::Value::stay;
}

void ExporterMoveState::gone(std::size_t importer) noexcept {
  const MutexLock lock(mutex_);
  parties_[importer].gone = true;
  changed_.notify_all();
}

bool ExporterMoveState::with_chunks(
    const std::function<bool(std::span<const ExporterChunk>)>& body) {
  const MutexLock lock(mutex_);
  return withdrawn_ || body(chunks_);
}

bool ExporterMoveState::withdrawn() const {
  const MutexLock lock(mutex_);
  return withdrawn_;
}

bool ExporterMoveState::all_reached(Stage stage) const {
  return std::ranges::all_of(
      parties_, [&](const Party& party) { return party.gone || party.stage >= stage; });
}

void ExporterMoveState::await(Stage stage, TimePoint deadline) {
  SteadyClock clock;
  MutexLock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, clock, deadline, [&]() VMART_NO_THREAD_ANALYSIS {
    return refusal_.has_value() || called_off_ || all_reached(stage);
  });
  if (refusal_) throw *refusal_;
  if (called_off_) {
    throw Error(ErrorKind::busy, move_call,
                "a process that has imported the memory called the move off; nothing has moved");
  }
  if (in_time) return;
  const auto late = std::ranges::find_if(
      parties_, [&](const Party& party) { return !party.gone && party.stage < stage; });
  throw Error(ErrorKind::busy, move_call,
              fmt::format("process {}, which has imported the memory, did not {} the move in time; "
                          "it may be stopped. Nothing has moved. Set a longer "
                          "MigrateOptions::deadline, or close the ExportedAllocation",
                          late->who.process, stage == Stage::ready ? "prepare for" : "stop for"));
}

void ExporterMoveState::withdraw() noexcept {
  const MutexLock lock(mutex_);
  withdrawn_ = true;
}

ExporterMove::Account ExporterMoveState::account() const noexcept {
  const MutexLock lock(mutex_);
  ExporterMove::Account account;
  for (const Party& party : parties_) {
    if (!party.gone) ++account.importers;
    account.stall = std::max(account.stall, party.stall);
  }
  return account;
}

}  // namespace vma
