#include "migrate/gates/attached_streams.hpp"

#include "base/log.hpp"
#include "driver/captures_begun.hpp"
#include "driver/native_codes.hpp"
#include "memory/contexts_in_use.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace vma {
namespace {

constexpr StreamHandle legacy{0};
constexpr StreamHandle legacy_by_name{1};  // CU_STREAM_LEGACY.
constexpr StreamHandle per_thread{2};      // CU_STREAM_PER_THREAD.

bool same_stream(const AttachedStreams::Stream& one, const AttachedStreams::Stream& other) {
  return one.bound.context == other.bound.context && one.bound.handle == other.bound.handle &&
         one.thread == other.thread;
}

/// A different number for each thread, never zero.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

std::string name_of_scope(Address scope) {
  return is_none(scope) ? "all memory" : fmt::format("{:#x}", to_integer(scope));
}

Error not_attached(BoundStream stream, Address scope) {
  return Error(ErrorKind::invalid_argument, "vma::detach",
               fmt::format("stream {:#x} is not attached to {}",
                           static_cast<std::uint64_t>(stream.handle), name_of_scope(scope)));
}

}  // namespace

bool is_built_in(StreamHandle stream) noexcept {
  return stream <= per_thread;
}

bool means_lost_stream(int native) noexcept {
  return native == native_invalid_handle || native == native_invalid_context ||
         native == native_context_is_destroyed;
}

AttachedStreams::AttachedStreams(Driver& driver, const Topology& topology)
    : driver_(driver), topology_(topology) {}

AttachedStreams::Stream AttachedStreams::identify(BoundStream stream) {
  if (stream.handle == legacy_by_name) stream.handle = legacy;
  if (is_none(stream.context)) stream.context = driver_.stream_context(stream.handle);
  Stream identified{stream, 0, {}, true};
  if (stream.handle == per_thread) identified.thread = this_thread();
  if (is_built_in(stream.handle)) identified.kind = StreamKind::blocking;
  return identified;
}

/// What is known from other scopes, or else what the driver says, but that question would end a
/// capture. Throws if the driver does not know the stream.
std::optional<StreamKind> AttachedStreams::find_kind(const Stream& stream, Address scope) {
  const bool captures = driver_.is_capturing(stream.bound);
  if (stream.kind) return stream.kind;
  std::optional<StreamKind> known;
  bool again = false;
  {
    const MutexLock lock(mutex_);
    for (const Attachment& attachment : attachments_) {
      if (!same_stream(attachment.stream, stream)) continue;
      known = attachment.stream.kind;
      again |= attachment.scope == scope;
    }
  }
  return captures || (known && !again) ? known : driver_.stream_kind(stream.bound);
}

void AttachedStreams::attach(BoundStream stream, Address scope, StreamWork work) {
  Stream attached = identify(stream);
  attached.graphs = work == StreamWork::any;
  attached.device = driver_.context_device(attached.bound.context);
  topology_.require(gpu(index(attached.device)), "vma::attach");
  attached.kind = find_kind(attached, scope);
  const MutexLock turn(attaching_);
  const MutexLock lock(mutex_);
  bool again = false;
  for (Attachment& known : attachments_) {
    if (!same_stream(known.stream, attached)) continue;
    if (attached.kind) {
      known.stream.kind = attached.kind;
    } else {
      attached.kind = known.stream.kind;  // Another thread has learned it meanwhile.
    }
    attached.together |= known.stream.together;
    again |= known.scope == scope;
  }
  if (again) {
    throw Error(ErrorKind::invalid_argument, "vma::attach",
                fmt::format("stream {:#x} is already attached to {}; detach a stream before "
                            "destroying it, since a new stream may get the same handle",
                            static_cast<std::uint64_t>(stream.handle), name_of_scope(scope)));
  }
  last_attaches_[scope] = ++last_attach_;
  attachments_.push_back({attached, scope});
}

void AttachedStreams::detach(BoundStream stream, Address scope) {
  const Stream wanted = identify_attached(stream);
  MutexLock lock(mutex_);
  const auto found = find_locked(wanted, scope);
  if (found == attachments_.end()) {
    await_forgotten_locked(lock);
    throw not_attached(stream, scope);
  }
  attachments_.erase(found);
  await_forgotten_locked(lock);
}

bool AttachedStreams::try_detach(BoundStream stream, Address scope) {
  const Stream wanted = identify_attached(stream);
  const MutexLock lock(mutex_);
  const auto found = find_locked(wanted, scope);
  if (found == attachments_.end()) throw not_attached(stream, scope);
  for (const Use* use : uses_) {
    const auto is_it = [&](const Stream& used) { return same_stream(used, found->stream); };
    if (std::ranges::any_of(use->streams(), is_it)) return false;
  }
  attachments_.erase(found);
  return true;
}

/// A destroyed stream is known only by its handle.
AttachedStreams::Stream AttachedStreams::identify_attached(BoundStream stream) {
  return is_built_in(stream.handle) ? identify(stream) : Stream{stream, 0, {}, true};
}

std::vector<AttachedStreams::Attachment>::iterator AttachedStreams::find_locked(
    const Stream& wanted, Address scope) {
  return std::ranges::find_if(attachments_, [&](const Attachment& it) {
    if (it.scope != scope) return false;
    return is_built_in(wanted.bound.handle) ? same_stream(it.stream, wanted)
                                            : it.stream.bound.handle == wanted.bound.handle;
  });
}

void AttachedStreams::stop_together(Address allocation) {
  const std::vector<Stream> streams = in_scope(allocation);
  const auto is_one = [](const Stream& stream) {
    return stream.kind == StreamKind::blocking && !is_built_in(stream.bound.handle);
  };
  const MutexLock lock(mutex_);
  for (Attachment& attachment : attachments_) {
    const auto shares = [&](const Stream& other) {
      return is_one(other) && other.bound.context == attachment.stream.bound.context &&
             other.bound.handle != attachment.stream.bound.handle;
    };
    const bool concerned = attachment.concerns(allocation) && is_one(attachment.stream);
    if (concerned && std::ranges::any_of(streams, shares)) attachment.stream.together = true;
  }
}

/// Wants back every use that has a stream which is no longer attached; returns whether there is
/// one. A stream that is still attached elsewhere will not be destroyed yet.
bool AttachedStreams::want_forgotten() noexcept {
  const auto forgotten = [&](const Stream& stream) VMART_NO_THREAD_ANALYSIS {
    return std::ranges::none_of(
        attachments_, [&](const Attachment& it) { return same_stream(it.stream, stream); });
  };
  bool any = false;
  for (Use* use : uses_) {
    if (std::ranges::none_of(use->streams(), forgotten)) continue;
    use->want_back();
    any = true;
  }
  return any;
}

void AttachedStreams::await_forgotten_locked(MutexLock& lock) {
  use_ended_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return !want_forgotten(); });
}

void AttachedStreams::await_forgotten() {
  MutexLock lock(mutex_);
  await_forgotten_locked(lock);
}

AttachedStreams::Use::Use(AttachedStreams& attached, std::span<const Address> allocations)
    : attached_(attached), streams_(attached.begin_use(*this, allocations)) {}

AttachedStreams::Use::Use(AttachedStreams& attached)
    : attached_(attached), streams_(attached.begin_use(*this, std::nullopt)) {}

std::vector<AttachedStreams::Stream> AttachedStreams::begin_use(Use& use, Scope allocations) {
  const MutexLock lock(mutex_);
  std::vector<Stream> streams = in_scope_locked(allocations);
  uses_.push_back(&use);
  return streams;
}

AttachedStreams::Use::~Use() {
  end();
}

void AttachedStreams::Use::end() noexcept {
  const MutexLock lock(attached_.mutex_);
  if (std::erase(attached_.uses_, this) > 0) attached_.use_ended_.notify_all();
}

std::vector<AttachedStreams::Stream> AttachedStreams::in_scope(Address allocation) const {
  const MutexLock lock(mutex_);
  return in_scope_locked(std::span(&allocation, 1));
}

std::vector<AttachedStreams::Stream> AttachedStreams::in_scope_locked(Scope allocations) const {
  const auto in_scope = [&](const Attachment& attachment) {
    return !allocations || std::ranges::any_of(*allocations, [&](Address allocation) {
      return attachment.concerns(allocation);
    });
  };
  std::vector<Stream> streams;
  for (const Attachment& attachment : attachments_) {
    if (!in_scope(attachment)) continue;
    const auto listed = std::ranges::find_if(
        streams, [&](const Stream& it) { return same_stream(it, attachment.stream); });
    if (listed == streams.end()) {
      streams.push_back(attachment.stream);
    } else {
      listed->graphs |= attachment.stream.graphs;
      listed->together |= attachment.stream.together;
    }
  }
  return streams;
}

std::vector<ContextHandle> AttachedStreams::contexts() const {
  std::vector<ContextHandle> contexts;
  const MutexLock lock(mutex_);
  for (const Attachment& attachment : attachments_) {
    const ContextHandle context = attachment.stream.bound.context;
    if (std::ranges::find(contexts, context) == contexts.end()) contexts.push_back(context);
  }
  return contexts;
}

std::uint64_t AttachedStreams::last_attach(std::span<const Address> allocations) const {
  const MutexLock lock(mutex_);
  const auto last_of = [&](Address scope) VMART_NO_THREAD_ANALYSIS {
    const auto known = last_attaches_.find(scope);
    return known == last_attaches_.end() ? 0 : known->second;
  };
  std::uint64_t last = last_of(Address{});
  for (const Address allocation : allocations) last = std::max(last, last_of(allocation));
  return last;
}

bool AttachedStreams::any(Address allocation) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(attachments_,
                             [&](const Attachment& it) { return it.concerns(allocation); });
}

AttachedStreams::Names AttachedStreams::own_streams(Address allocation) const {
  Names own;
  const MutexLock lock(mutex_);
  for (const Attachment& it : attachments_) {
    if (it.scope != allocation || is_none(allocation)) continue;
    const bool everywhere = std::ranges::any_of(attachments_, [&](const Attachment& other) {
      return is_none(other.scope) && same_stream(other.stream, it.stream);
    });
    if (!everywhere)
      own.emplace_back(it.stream.bound.context, it.stream.bound.handle, it.stream.thread);
  }
  std::ranges::sort(own);
  return own;
}

bool AttachedStreams::same_scope(Address one, Address other) const {
  return own_streams(one) == own_streams(other);
}

std::set<DeviceId> AttachedStreams::devices(Address allocation) const {
  std::set<DeviceId> devices;
  const MutexLock lock(mutex_);
  for (const Attachment& it : attachments_) {
    if (it.concerns(allocation)) devices.insert(it.stream.device);
  }
  return devices;
}

void AttachedStreams::forget_allocation(Address begin) noexcept {
  if (is_none(begin)) return;
  const MutexLock lock(mutex_);
  std::erase_if(attachments_, [&](const Attachment& it) { return it.scope == begin; });
  last_attaches_.erase(begin);
  want_forgotten();
}

bool AttachedStreams::is_lost(const Stream& stream) {
  try {
    driver_.context_device(stream.bound.context);
    if (!is_built_in(stream.bound.handle))
      driver_.is_capturing(stream.bound);  // Built-in streams exist as long as the context.
    return false;
  } catch (const Error& error) {
    if (means_lost_stream(error.native())) return true;
    if (!context_is_broken(error.native())) throw;
    return false;  // It exists, but runs no work.
  }
}

std::vector<AttachedStreams::Stream> AttachedStreams::drop_lost(Address allocation) {
  std::vector<Stream> lost;
  const Use use(*this, allocation);
  for (const Stream& stream : use.streams()) {
    if (is_lost(stream)) lost.push_back(stream);
  }
  const MutexLock lock(mutex_);
  // A stream that was detached since was not lost.
  std::erase_if(lost, [&](const Stream& gone) VMART_NO_THREAD_ANALYSIS {
    return std::erase_if(attachments_,
                         [&](const Attachment& it) { return same_stream(gone, it.stream); }) == 0;
  });
  return lost;
}

std::optional<AttachedStreams::Stream> AttachedStreams::find_capturing() {
  const Use use(*this);
  for (const Stream& stream : use.streams()) {
    if (stream.thread != 0) continue;
    try {
      if (driver_.is_capturing(stream.bound)) return stream;
    } catch (const Error& error) {
      if (!means_lost_stream(error.native()) && !context_is_broken(error.native())) throw;
    }
  }
  return std::nullopt;
}

void AttachedStreams::require_no_capture(const std::vector<ContextHandle>& contexts) {
  const auto refuse_capture = [](const std::string& which) {
    throw Error(ErrorKind::unsupported, "vma::migrate",
                fmt::format("{} captures, and a hold of its context would end the capture; move "
                            "after the capture, or use migrate_async, which waits for its end",
                            which));
  };
  if (const auto stream = find_capturing()) {
    refuse_capture(
        fmt::format("attached stream {:#x}", static_cast<std::uint64_t>(stream->bound.handle)));
  }
  for (const ContextHandle context : contexts) {
    bool captures = false;
    try {
      captures = driver_.is_capturing({context, StreamHandle{}});
    } catch (const Error& error) {
      if (!context_is_broken(error.native())) throw;
    }
    if (captures) refuse_capture("a blocking stream");
  }
  if (CapturesBegun::of_process().any_open()) refuse_capture("a stream that is not attached");
}

}  // namespace vma
