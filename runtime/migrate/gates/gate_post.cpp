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

bool has_written(const GatePost::Stand& stand) {
  if (stand.arrived == nullptr) return true;
  return std::atomic_ref(*stand.arrived).load(std::memory_order_acquire) >= stand.asked;
}
}  // namespace

GatePost::GatePost(Driver& driver, Watchdog& watchdog, Ledger& ledger)
    : driver_(driver), watchdog_(watchdog), ledger_(ledger) {}

GatePost::~GatePost() {
  drop_chains();
  open_word_.reset();
  // A stream that has not reached a gate that was given up may still write its word.
  const auto pending = [](const auto& entry) { return !has_written(entry.second); };
  if (words_ && std::ranges::any_of(stands_, pending)) words_->keep_for_good();
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
    Stand& stand = stands_[key(stop)];
    stand.prepared = prepared_;
    if (stand.arrived == nullptr) stand.arrived = take_word();
    if (!stand.gpu) stand.gpu = gpu_of(stop);
    if (stop.graphs && use == Use::stops) make_chain(key(stop), stand);
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

WordOperation GatePost::arrival(const Stand& stand, std::uint64_t epoch) const noexcept {
  return {WordOperation::Kind::write, address_of(stand.arrived), epoch};
}

std::array<WordOperation, 2> GatePost::words_of_stop(const Stand& stand, const StopWord& open,
                                                     std::uint64_t epoch) const noexcept {
  return {arrival(stand, epoch), open.wait_for(epoch)};
}

/// A broken context has none: it runs no more work.
void GatePost::make_chain(const Key& key, Stand& stand) {
  if (!is_none(stand.chain) && has_context(key, stand)) return;
  stand.chain = ExecGraphHandle{};  // A chain is destroyed with its context.
  ChainStep step;                   // Stops bring words of their own.
  const auto words = words_of_stop(stand, *open_word_, 0);
  step.words.assign(words.begin(), words.end());
  try {
    stand.context_id = driver_.context_id(key.first);
    stand.chain = driver_.make_chain(key.first, {&step, 1});
  } catch (const Error& error) {
    if (!context_is_broken(error.native()) || means_lost_stream(error.native())) throw;
  }
}

/// The program may have destroyed the context, and a new one may have its handle.
bool GatePost::has_context(const Key& key, const Stand& stand) {
  try {
    return driver_.context_id(key.first) == stand.context_id;
  } catch (const Error&) {
    return false;
  }
}

void GatePost::drop_chain(const Key& key, Stand& stand) noexcept {
  const ExecGraphHandle chain = std::exchange(stand.chain, ExecGraphHandle{});
  if (is_none(chain) || !has_context(key, stand)) return;
  ledger_.undo("a chain of gates", [&] { driver_.destroy_exec_graph(chain); });
}

void GatePost::drop_chains() noexcept {
  for (auto& [key, stand] : stands_) drop_chain(key, stand);
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
  if (stands_.size() <= stands_max) return;
  for (auto it = stands_.begin(); it != stands_.end();) {
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
    it = stands_.erase(it);
  }
}

void GatePost::retire_words(const GatePlan& plan, bool also_open) noexcept {
  if (also_open) {
    words_->leave_to_graphs(open_word_->word());
    open_word_.reset();
  }
  for (const GateStop& stop : plan.stops) {
    const auto known = stands_.find(key(stop));
    if (known == stands_.end() || known->second.arrived == nullptr) continue;
    words_->leave_to_graphs(std::exchange(known->second.arrived, nullptr));
  }
}

}  // namespace vma
