#include "pools/stream_frees.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

// An event costs as much as several frees, so one covers many.
constexpr std::uint64_t unmarked_blocks_max = 64;
constexpr std::uint64_t unmarked_bytes_max = 8 * MiB;
constexpr std::size_t marks_max = 8;

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

}  // namespace vma
