#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace vma {

/// The streams that the program named as users of memory, which gates stop. Any thread.
///
/// Nothing here synchronises, and nothing ends a capture. The program may begin a capture on any of
/// these streams at any moment, and the driver ends the capture of a stream whose id or flags are
/// queried. So a stream is identified by its context and handle, its flags are queried by `attach`
/// alone, and later the only query is whether it captures. As a consequence, a stream that was
/// destroyed while attached cannot be told from a new one with the same handle.
///
/// Handles 0 and 1 are the legacy stream and 2 the per-thread stream of the caller's current
/// context; a per-thread stream belongs to the calling thread, so only that thread can detach it.
class AttachedStreams {
 public:
  struct Stream {
    BoundStream bound;
    std::uint64_t thread = 0;        ///< The owner of a per-thread stream; zero for others.
    std::optional<StreamKind> kind;  ///< Empty if the stream captured when it was attached.
    bool graphs = true;              ///< Whether graphs may be launched on it.
    bool together = false;           ///< See `stop_together`.
    DeviceId device{};               ///< The GPU of its context.
  };

  /// Streams whose handles are passed to the driver during its lifetime: those that were in scope
  /// of any of the allocations when it was created. `detach` of one of them waits for its end,
  /// since the program may destroy the stream then.
  class Use {
   public:
    Use(AttachedStreams& attached, std::span<const Address> allocations);
    Use(AttachedStreams& attached, Address allocation) : Use(attached, {&allocation, 1}) {}
    /// All attached streams.
    explicit Use(AttachedStreams& attached);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const std::vector<Stream>& streams() const noexcept { return streams_; }
    /// Another thread waits for it: its owner should end it soon.
    const std::atomic<bool>& wanted() const noexcept { return wanted_; }
    /// Sets `wanted` until it ends. Does not wait.
    void want_back() noexcept { wanted_ = true; }
    /// The handles are no longer used.
    void end() noexcept;

   private:
    AttachedStreams& attached_;
    std::atomic<bool> wanted_{false};
    const std::vector<Stream> streams_;  // Last: from here on other threads see it.
  };

  AttachedStreams(Driver& driver, const Topology& topology);

  /// `scope` is where an allocation begins; zero is all memory. Throws: Error{invalid_argument} if
  /// the stream is attached to it already, or on a GPU that the runtime does not use; what the
  /// driver throws for an unknown stream. Queries the stream's flags, unless it captures or they
  /// are known from another scope. If it is attached already, stores what they are now: the handle
  /// may be that of a new stream. Requires: no other thread begins a capture on the stream
  /// meanwhile, which the query would end.
  void attach(BoundStream stream, Address scope, StreamWork work = StreamWork::any);
  /// Throws: Error{invalid_argument} if the stream is not attached to `scope`. A stream that was
  /// destroyed may be detached. Blocks: until no `Use` has the stream, if it is attached to nothing
  /// any more; also if it throws because the allocation was freed. Requires: the caller has no
  /// `Use`.
  void detach(BoundStream stream, Address scope);

  /// As `detach`, but false, with nothing done, if a `Use` has the stream.
  bool try_detach(BoundStream stream, Address scope);

  /// The streams attached to all memory or to the allocation, each once.
  std::vector<Stream> in_scope(Address allocation) const;
  /// The number of the last call that brought a stream into scope of one of the allocations. A
  /// caller of `in_scope` that later finds another one may have missed a stream, even if that was
  /// detached again. Numbers never repeat, so that a free, which forgets some, hides no attach.
  std::uint64_t last_attach(std::span<const Address> allocations) const;
  /// `attach` waits while it is held. A thread that stops streams holds it from its last look at
  /// `last_attach` until the slot is no longer dark. Work of a stream attached later would find the
  /// slot dark.
  Mutex& attaching() noexcept { return attaching_; }
  bool any(Address allocation) const;
  /// Context, handle and thread of streams, in order.
  using Names = std::vector<std::tuple<ContextHandle, StreamHandle, std::uint64_t>>;
  /// The streams attached to the allocation and not to all memory.
  Names own_streams(Address allocation) const;
  /// Whether the same streams are in scope of both allocations.
  bool same_scope(Address one, Address other) const;
  /// The GPUs of the streams in scope.
  std::set<DeviceId> devices(Address allocation) const;
  /// The contexts of all streams, each once.
  std::vector<ContextHandle> contexts() const;
  /// The allocation was freed: streams attached only to it are detached. Does not wait: uses of
  /// such streams are wanted back, and `await_forgotten` waits for them.
  void forget_allocation(Address begin) noexcept;
  /// Blocks: until every `Use` has only attached streams.
  void await_forgotten();
  /// Detaches and returns the streams in scope that the driver no longer knows. Throws: other
  /// errors of the driver.
  std::vector<Stream> drop_lost(Address allocation);
  /// Stops of their own did not all arrive while some stopped. Marks the blocking streams in scope
  /// that share a context with another, so that the legacy stream is stopped in their place until
  /// they are detached.
  void stop_together(Address allocation);
  /// Any stream that captures now, out of all; the per-thread streams of other threads cannot be
  /// queried.
  std::optional<Stream> find_capturing();
  /// Called before `contexts` are held, which would end their captures. Throws: Error{unsupported}
  /// if an attached stream or a blocking stream captures; of others, if the process has been told
  /// that one does (`CapturesBegun`).
  void require_no_capture(const std::vector<ContextHandle>& contexts);

 private:
  struct Attachment {
    Stream stream;
    Address scope{};

    bool concerns(Address allocation) const noexcept {
      return is_none(scope) || scope == allocation;
    }
  };
  using Scope = std::optional<std::span<const Address>>;  // Of allocations; none: everything.
  std::vector<Stream> begin_use(Use& use, Scope allocations);
  std::vector<Stream> in_scope_locked(Scope allocations) const VMART_REQUIRES(mutex_);
  bool want_forgotten() noexcept VMART_REQUIRES(mutex_);
  void await_forgotten_locked(MutexLock& lock) VMART_REQUIRES(mutex_);
  Stream identify(BoundStream stream);
  Stream identify_attached(BoundStream stream);
  std::vector<Attachment>::iterator find_locked(const Stream& wanted, Address scope)
      VMART_REQUIRES(mutex_);
  bool is_lost(const Stream& stream);
  std::optional<StreamKind> find_kind(const Stream& stream, Address scope);

  Driver& driver_;
  const Topology& topology_;
  Mutex attaching_;  // Taken before `mutex_`.
  mutable Mutex mutex_;
  Condition use_ended_;
  std::vector<Attachment> attachments_ VMART_GUARDED_BY(mutex_);
  std::vector<Use*> uses_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_attach_ VMART_GUARDED_BY(mutex_) = 0;
  std::map<Address, std::uint64_t> last_attaches_ VMART_GUARDED_BY(mutex_);  // By scope.
};

/// Whether it is a legacy or a per-thread stream, which exist as long as their context or thread.
bool is_built_in(StreamHandle stream) noexcept;
/// Whether a driver code means that the stream or its context no longer exists.
bool means_lost_stream(int native) noexcept;

}  // namespace vma
