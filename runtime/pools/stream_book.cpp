#include "pools/stream_book.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vma {
namespace {

struct Remembered {
  std::uint64_t book = 0;
  StreamHandle handle{};
  std::uint64_t id = 0;
  StreamFrees* frees = nullptr;
};
constinit thread_local std::array<Remembered, 8> remembered{};

Remembered& remembered_of(std::uint64_t book, StreamHandle handle) {
  constexpr int address_bits = 6;  // The lowest ones of handles are alike.
  const std::uint64_t number = static_cast<std::uint64_t>(handle) >> address_bits;
  return remembered[(number ^ (number >> address_bits) ^ book) % remembered.size()];
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Handles that every context has; the same handle names several streams.
bool is_built_in_stream(StreamHandle handle) {
  return static_cast<std::uint64_t>(handle) <= 2;
}

}  // namespace

StreamBook::StreamBook(Driver& driver, ContextsInUse& contexts, Lives lives)
    : driver_(driver), contexts_(contexts), lives_(std::move(lives)), number_(next_number()) {}

StreamNow StreamBook::now(StreamHandle handle) {
  const Remembered& last = remembered_of(number_, handle);
  // The number of a stream that may have been destroyed has to be asked for again.
  const bool lasts =
      last.book == number_ && last.handle == handle && last.frees->lasting_id() == last.id;
  return driver_.stream_now(handle, lasts ? last.id : StreamFrees::nobody);
}

StreamFrees& StreamBook::of(StreamHandle handle, std::uint64_t id, bool remembers) {
  Remembered& last = remembered_of(number_, handle);
  if (remembers && last.book == number_ && last.id == id) return *last.frees;
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  StreamFrees& frees = found != by_id_.end() ? *found->second : add(handle, id);
  last = {number_, handle, id, &frees};
  return frees;
}

StreamFrees* StreamBook::find(std::uint64_t id) {
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

/// A known stream with the same handle no longer exists.
StreamFrees& StreamBook::add(StreamHandle handle, std::uint64_t id) {
  using Life = StreamFrees::Life;
  const BoundStream stream{driver_.stream_context(handle), handle};
  const bool built_in = is_built_in_stream(handle);
  // The end of a thread tells of that of its stream.
  const Life life = handle == stream_of_thread ? Life::unknown : lives_(handle);
  ThreadEnd thread = handle == stream_of_thread ? this_thread_end() : nullptr;
  StreamFrees*& entry = by_id_[id];  // What may fail comes before anything changes.
  StreamFrees* unused = nullptr;
  for (StreamFrees& frees : all_) {
    const MutexLock own(frees.mutex);
    if (!built_in && frees.id() != StreamFrees::nobody && frees.stream().handle == handle) {
      frees.leave();
    }
    if (unused == nullptr && frees.is_over()) {
      by_id_.erase(frees.id());
      last_epoch_ = std::max(last_epoch_, frees.become_nobodys());
    }
    if (unused == nullptr && frees.id() == StreamFrees::nobody) unused = &frees;
  }
  try {
    if (unused == nullptr) unused = &all_.emplace_back(driver_, contexts_);
  } catch (...) {
    by_id_.erase(id);
    throw;
  }
  entry = unused;
  const MutexLock own(unused->mutex);
  unused->become(id, stream, life, std::move(thread), last_epoch_);
  return *unused;
}

// --- What is known about the streams

std::vector<StreamBook::Epoch> StreamBook::past(std::uint64_t only_stream) {
  std::vector<Epoch> past;
  for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (only_stream != StreamFrees::nobody && frees.id() != only_stream) return;
    past.push_back({frees.id(), frees.stream().context, frees.close_epoch()});
  });
  return past;
}

StreamBook::Known StreamBook::known() {
  Known known;
  for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    known.marked |= frees.marked();
    known.unmarked |= frees.unmarked();
  });
  return known;
}

void StreamBook::order(Named after, Named before) {
  const auto known =
      with(before.handle, before.id, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
        auto epochs = frees.after;
        epochs[before.id] = frees.close_epoch();
        return epochs;
      });
  with(after.handle, after.id, [&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    for (const auto& [id, epoch] : known) {
      if (id != after.id) frees.after[id] = std::max(frees.after[id], epoch);
    }
  });
}

void StreamBook::leaves(StreamHandle stream) noexcept {
  for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.stream().handle != stream || frees.left()) return;
    frees.mark();
    frees.leaves();
  });
}

void StreamBook::has_left(StreamHandle stream, bool left) noexcept {
  for_each([&](StreamFrees& frees) VMART_REQUIRES(frees.mutex) {
    if (frees.stream().handle != stream || !frees.leaving()) return;
    if (left) {
      frees.leave();
    } else {
      frees.stays();
    }
  });
}

}  // namespace vma
