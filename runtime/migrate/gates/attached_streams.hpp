#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace vma {

/// The streams that the program has named as users of memory: what gates stop. Any thread.
///
/// Nothing here synchronises, and nothing ends a capture. The program may begin a capture on any of
/// these streams at any moment, and the driver ends a capture whose stream is asked for its id or
/// its flags. So a stream is known by its context and handle, and no more is asked of it than
/// whether it captures. In turn, a stream that was destroyed while attached cannot be told from a
/// new one with the same handle.
///
/// Handles 0 and 1 are the legacy stream and 2 the per-thread stream of the caller's current
/// context; a per-thread stream is the calling thread's own, so only that thread can detach it.
class AttachedStreams {
 public:
  struct Stream {
    BoundStream bound;
    std::uint64_t thread = 0;  ///< Whose it is, of a per-thread stream; zero of others.
    /// Nothing until `learn_kinds`, except for legacy and per-thread streams.
    std::optional<StreamKind> kind;
    bool graphs = true;  ///< Whether graphs may be launched on it.
    DeviceId device{};   ///< The GPU of its context.
  };

  /// Streams whose handles are given to the driver meanwhile: those in scope when it was made, or
  /// all of them where no allocation is named.
  /// `detach` of one of them waits for its end, since the program may destroy the stream then.
  class Use {
   public:
    Use(AttachedStreams& attached, std::optional<Address> allocation);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const std::vector<Stream>& streams() const noexcept { return streams_; }
    /// Somebody waits for it: whoever has it is to end it soon.
    const std::atomic<bool>& wanted() const noexcept { return wanted_; }
    /// Makes it wanted until it ends. Does not wait.
    void want_back() noexcept { wanted_ = true; }
    /// No handle is used any more.
    void end() noexcept;

   private:
    AttachedStreams& attached_;
    std::atomic<bool> wanted_{false};
    const std::vector<Stream> streams_;  // Last: from here on others see it.
  };

  AttachedStreams(Driver& driver, const Topology& topology);

  /// `scope` is where an allocation begins; zero is all memory. Throws: Error{invalid_argument} if
  /// it is attached so already, or on a GPU that is not the runtime's; what the driver throws for a
  /// stream that it does not know.
  void attach(BoundStream stream, Address scope, StreamWork work = StreamWork::any);
  /// Throws: Error{invalid_argument} if it is not attached so. A stream that was destroyed may be
  /// detached. Blocks: until no `Use` has the stream, if it is attached to nothing any more; also
  /// where it throws since the allocation was freed. Requires: the caller has no `Use`.
  void detach(BoundStream stream, Address scope);

  /// Those attached to all memory or to the allocation, each once.
  std::vector<Stream> in_scope(Address allocation) const;
  /// Rises whenever a stream comes into scope. Who asked for `in_scope` and finds it risen has
  /// missed one, even if that is gone again.
  std::uint64_t attaches(Address allocation) const;
  /// `attach` waits while it is held: by who stops streams, from his last look at `attaches` until
  /// the slot is not dark any more. Work of a stream that came later would find it dark.
  Mutex& attaching() noexcept { return attaching_; }
  bool any(Address allocation) const;
  /// The GPUs of those streams, each once, in order.
  std::vector<DeviceId> devices(Address allocation) const;
  /// Of all of them, each once.
  std::vector<ContextHandle> contexts() const;
  /// It was freed: what was attached to it alone is not any more. Does not wait: uses of such
  /// streams are wanted back, and `await_forgotten` waits for them.
  void forget_allocation(Address begin) noexcept;
  /// Blocks: until every `Use` has attached streams only.
  void await_forgotten();
  /// Streams in scope that the driver does not know any more: detached and returned. Throws: what
  /// the driver throws else.
  std::vector<Stream> drop_lost(Address allocation);
  /// One that captures now, of all of them; the per-thread streams of other threads cannot be
  /// asked.
  std::optional<Stream> find_capturing();
  /// Before `contexts` are held, which would end their captures. Throws: Error{unsupported} where
  /// an attached stream captures, or a blocking one; of any other stream nothing is known.
  void require_no_capture(const std::vector<ContextHandle>& contexts);
  /// Asks for the kinds that are not known of streams that share a context with another one in
  /// scope. Only for streams of which one waited for another at a gate: those that capture, or were
  /// ever seen to, are left out, but a capture that begins during the question is ended.
  void learn_kinds(Address allocation);

 private:
  struct Attachment {
    Stream stream;
    Address scope{};
    bool captured = false;  // The stream captured when it was asked.
  };
  std::vector<Stream> begin_use(Use& use, std::optional<Address> allocation);
  std::vector<Stream> in_scope_locked(std::optional<Address> allocation) const
      VMART_REQUIRES(mutex_);
  bool want_forgotten() noexcept VMART_REQUIRES(mutex_);
  void await_forgotten_locked(MutexLock& lock) VMART_REQUIRES(mutex_);
  Stream identify(BoundStream stream);
  bool is_lost(const Stream& stream);
  bool captures(const Stream& stream);
  bool has_captured(const Stream& stream) const;
  void note_kind(const Stream& stream, StreamKind kind);

  Driver& driver_;
  const Topology& topology_;
  Mutex attaching_;  // Taken before `mutex_`.
  mutable Mutex mutex_;
  Condition use_ended_;
  std::vector<Attachment> attachments_ VMART_GUARDED_BY(mutex_);
  std::vector<Use*> uses_ VMART_GUARDED_BY(mutex_);
  std::map<Address, std::uint64_t> attaches_ VMART_GUARDED_BY(mutex_);  // By scope.
};

/// Whether it is a legacy or a per-thread stream, which has no life of its own.
bool is_built_in(StreamHandle stream) noexcept;
/// Whether a driver code means that the stream or its context is not there any more.
bool means_lost_stream(int native) noexcept;

}  // namespace vma
