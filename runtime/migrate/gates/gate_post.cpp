#include "migrate/gates/gate_post.hpp"

#include "memory/contexts_in_use.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace vma {
namespace {
/// Programs create and destroy streams; from this number on, the words of streams not stopped in
/// recent gates are reused.
constexpr std::size_t stands_max = 1024;
constexpr std::uint64_t gates_remembered = 64;

bool has_written(const GatePost::StreamState& state) {
  if (state.arrived == nullptr) return true;
  return std::atomic_ref(*state.arrived).load(std::memory_order_acquire) >= state.asked;
}
}  // namespace

GatePost::GatePost(Driver& driver, Watchdog& watchdog, Ledger& ledger)
    : driver_(driver), watchdog_(watchdog), ledger_(ledger) {}

GatePost::~GatePost() {
  drop_chains();
  open_word_.reset();
  // A stream that has not reached a gate that was given up may still write its word.
  const auto pending = [](const auto& entry) { return !has_written(entry.second); };
  if (words_ && std::ranges::any_of(streams_, pending)) words_->keep_for_good();
  words_.reset();
  if (!retained_) return;
  ledger_.undo("the context of the words of gates", [&] { driver_.release_primary(*retained_); });
}

void GatePost::prepare(const GatePlan& plan, Use use) {
  ++prepared_;
  if (plan.stops.empty() && !words_) return;
  if (!retained_) choose_context(plan);
  if (!words_) words_ = std::make_unique<PinnedWords>(driver_, context_, ledger_);
  if (!open_word_) open_word_ = std::make_unique<StopWord>(*words_);
  for (const GateStop& stop : plan.stops) {
    StreamState& state = streams_[key(stop)];
    state.prepared = prepared_;
    if (state.arrived == nullptr) state.arrived = take_word();
    if (!state.gpu) state.gpu = gpu_of(stop);
    if (stop.graphs && use == Use::stops) make_chain(key(stop), state);
  }
}

std::optional<int> GatePost::gpu_of(const GateStop& stop) noexcept {
  try {
    return index(driver_.context_device(stop.stream.context));
  } catch (const std::exception&) {
    return std::nullopt;  // The thread that stops the stream meets the failure.
  }
}

std::uint64_t* GatePost::take_word() {
  if (spare_.empty()) return words_->take();
  std::uint64_t* const word = spare_.back();
  spare_.pop_back();
  return word;
}

WordOperation GatePost::arrival(const StreamState& state, std::uint64_t epoch) const noexcept {
  return {WordOperation::Kind::write, address_of(state.arrived), epoch};
}

std::array<WordOperation, 2> GatePost::words_of_stop(const StreamState& state, const StopWord& open,
                                                     std::uint64_t epoch) const noexcept {
  return {arrival(state, epoch), open.wait_for(epoch)};
}

/// A broken context has none: it runs no more work.
void GatePost::make_chain(const Key& key, StreamState& state) {
  if (!is_none(state.chain) && has_context(key, state)) return;
  state.chain = ExecGraphHandle{};  // A chain is destroyed with its context.
  ChainStep step;                   // Stops bring words of their own.
  const auto words = words_of_stop(state, *open_word_, 0);
  step.words.assign(words.begin(), words.end());
  try {
    state.context_id = driver_.context_id(key.first);
    state.chain = driver_.make_chain(key.first, {&step, 1});
  } catch (const Error& error) {
    if (!context_is_broken(error.native()) || means_lost_stream(error.native())) throw;
  }
}

/// The program may have destroyed the context, and a new one may have its handle.
bool GatePost::has_context(const Key& key, const StreamState& state) {
  try {
    return driver_.context_id(key.first) == state.context_id;
  } catch (const Error&) {
    return false;
  }
}

void GatePost::drop_chain(const Key& key, StreamState& state) noexcept {
  const ExecGraphHandle chain = std::exchange(state.chain, ExecGraphHandle{});
  if (is_none(chain) || !has_context(key, state)) return;
  ledger_.undo("a chain of gates", [&] { driver_.destroy_exec_graph(chain); });
}

void GatePost::drop_chains() noexcept {
  for (auto& [key, state] : streams_) drop_chain(key, state);
}

/// A primary context, since it lasts: the program may destroy any other under our words. An already
/// active one costs nothing.
void GatePost::choose_context(const GatePlan& plan) {
  DeviceId device = driver_.context_device(plan.stops.front().stream.context);
  for (const GateStop& stop : plan.stops) {
    if (driver_.context_active(device)) break;
    device = driver_.context_device(stop.stream.context);
  }
  context_ = driver_.retain_primary(device);
  retained_ = device;
}

void GatePost::prune() {
  if (streams_.size() <= stands_max) return;
  for (auto it = streams_.begin(); it != streams_.end();) {
    if (it->second.prepared + gates_remembered >= prepared_) {
      ++it;
      continue;
    }
    if (it->second.arrived != nullptr && has_written(it->second)) {
      spare_.push_back(it->second.arrived);
    } else if (it->second.arrived != nullptr) {
      words_->keep_for_good();
    }
    drop_chain(it->first, it->second);
    it = streams_.erase(it);
  }
}

void GatePost::retire_words(const GatePlan& plan, bool also_open) noexcept {
  if (also_open) {
    words_->leave_to_graphs(open_word_->word());
    open_word_.reset();
  }
  for (const GateStop& stop : plan.stops) {
    const auto known = streams_.find(key(stop));
    if (known == streams_.end() || known->second.arrived == nullptr) continue;
    words_->leave_to_graphs(std::exchange(known->second.arrived, nullptr));
  }
}

}  // namespace vma
