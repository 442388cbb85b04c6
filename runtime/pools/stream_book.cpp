#include "pools/stream_book.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace vma {
namespace {

// An event costs as much as several frees, so one covers many.
constexpr std::uint64_t unmarked_blocks_max = 64;
constexpr std::uint64_t unmarked_bytes_max = 8 * MiB;
constexpr std::size_t marks_max = 8;

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

StreamFrees::StreamFrees(Driver& driver, ContextsInUse& contexts)
    : driver_(driver), contexts_(contexts) {
  marks_.reserve(marks_max);
}

void StreamFrees::become(std::uint64_t id, BoundStream stream, Life life, ThreadEnd thread,
                         std::uint64_t epoch) noexcept {
  id_ = id;
  stream_ = stream;
  life_ = life;
  leaving_ = false;
  thread_ = std::move(thread);
  tell_lasting();
  open_epoch_ = std::max(open_epoch_, epoch + 1);
}

std::uint64_t StreamFrees::become_nobodys() noexcept {
  drop_marks(UINT64_MAX);
  id_ = nobody;
  tell_lasting();
  after.clear();
  wanted = false;
  return close_epoch();
}

void StreamFrees::put(Block& block) noexcept {
  block.epoch = open_epoch_;
  put_back(block);
}

void StreamFrees::put_back(Block& block) noexcept {
  if (block.epoch <= done_epoch_) told_epoch_ = 0;  // To be collected again.
  if (block.epoch > marked_epoch_) {
    ++unmarked_blocks_;
    unmarked_bytes_ += block.size_bytes;
  }
  bins_.put(block);
}

void StreamFrees::remove(Block& block) noexcept {
  if (block.epoch > marked_epoch_) {
    --unmarked_blocks_;
    unmarked_bytes_ -= block.size_bytes;
  }
  bins_.remove(block);
}

bool StreamFrees::should_mark() const noexcept {
  if (lasts() || unmarked_blocks_ == 0) return false;  // Whoever wants to know marks it.
  return unmarked_blocks_ >= unmarked_blocks_max || unmarked_bytes_ >= unmarked_bytes_max ||
         wanted.load(std::memory_order_relaxed);
}

bool StreamFrees::mark() noexcept {
  if (!unmarked()) return !marks_.empty();
  if (marks_.size() == marks_max) poll();
  if (marks_.size() == marks_max) return false;  // A later call marks these frees, too.
  EventHandle event{};
  try {
    if (lasts() && driver_.is_capturing(stream_)) return false;  // In a call of another stream.
    event = contexts_.take_event(stream_.context);
    driver_.record(event, stream_);
    // A capture that began in between has taken the event, and querying it would invalidate the
    // capture.
    if (driver_.is_capturing(stream_)) throw driver_error(native_captured_event, "cuEventRecord");
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a pool cannot mark the frees of a stream: {}", error.what());
    if (!is_none(event)) contexts_.give_back(stream_.context, event);
    return false;
  }
  marks_.push_back({open_epoch_, event});
  marked_epoch_ = open_epoch_++;
  unmarked_blocks_ = unmarked_bytes_ = 0;
  wanted.store(false, std::memory_order_relaxed);
  return true;
}

void StreamFrees::complete(std::uint64_t epoch) noexcept {
  done_epoch_ = std::max(done_epoch_, epoch);
  drop_marks(epoch);
  if (epoch > marked_epoch_) count_unmarked(epoch);
}

void StreamFrees::count_unmarked(std::uint64_t marked_epoch) noexcept {
  marked_epoch_ = marked_epoch;
  unmarked_blocks_ = unmarked_bytes_ = 0;
  bins_.for_each([this](const Block& block) VMART_REQUIRES(mutex) {
    if (block.epoch <= marked_epoch_) return;
    ++unmarked_blocks_;
    unmarked_bytes_ += block.size_bytes;
  });
}

void StreamFrees::poll() noexcept {
  while (!marks_.empty() && event_is_done(marks_.front().event)) {
    done_epoch_ = std::max(done_epoch_, marks_.front().epoch);
    drop_marks(done_epoch_);
  }
}

bool StreamFrees::is_done(std::uint64_t epoch) noexcept {
  if (epoch <= done_epoch_) return true;
  const auto mark =
      std::ranges::find_if(marks_, [&](const Mark& each) { return each.epoch >= epoch; });
  return mark != marks_.end() && event_is_done(mark->event);
}

bool StreamFrees::take_news() noexcept {
  return std::exchange(told_epoch_, done_epoch_) != done_epoch_;
}

StreamFrees::Mark StreamFrees::newest_mark() const noexcept {
  return marks_.empty() ? Mark{} : marks_.back();
}

void StreamFrees::drop_marks(std::uint64_t epoch) noexcept {
  while (!marks_.empty() && marks_.front().epoch <= epoch) {
    contexts_.give_back(stream_.context, marks_.front().event);
    marks_.erase(marks_.begin());
  }
}

/// An error proves that the work has ended only if its context is broken or destroyed.
bool StreamFrees::event_is_done(EventHandle event) noexcept {
  try {
    return driver_.query_event(event);
  } catch (const Error& error) {
    if (error.native() == native_captured_event) {  // By a capture that began and ended meanwhile.
      drop_marks(UINT64_MAX);
      count_unmarked(done_epoch_);
      return false;
    }
    log(LogLevel::debug, "an event that a pool waits for failed: {}", error.what());
    return context_is_broken(error.native()) || error.native() == native_invalid_context ||
           error.native() == native_invalid_handle;
  } catch (const std::exception&) {  // The exception may come from formatting.
    return false;
  }
}

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
