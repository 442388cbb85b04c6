#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"
#include "sharing/imported_chunks.hpp"
#include "sharing/share_channel.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace vma {

/// The connections of one runtime's imports. Any thread.
class FollowedImports {
 public:
  struct Entry {
    explicit Entry(std::shared_ptr<ShareChannel> opened) : channel(std::move(opened)) {}
    std::shared_ptr<ShareChannel> channel;
    std::weak_ptr<Allocation> allocation;  ///< Set once begun.
    std::atomic<bool> begun{false};        ///< The channel is the follower's.
    std::atomic<bool> left{false};         ///< The memory was freed.
    bool ended = false;                    ///< The exporter says no more. Only of the follower.
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  /// Throws: Error{out_of_memory} without descriptors left.
  FollowedImports();
  void add(std::shared_ptr<Entry> entry);
  void remove(const std::shared_ptr<Entry>& entry) noexcept;
  Entries all() const;
  /// Becomes readable by `wake`, until `slept`.
  int native() const noexcept { return woken_.get(); }
  void wake() noexcept;
  void slept() noexcept;

 private:
  Descriptor woken_;
  mutable Mutex mutex_;
  Entries entries_ VMART_GUARDED_BY(mutex_);
};

/// The connection of one import; lives as long as the import does.
class FollowedImport {
 public:
  FollowedImport(std::shared_ptr<FollowedImports> imports, std::shared_ptr<ShareChannel> channel);
  /// Ends the connection.
  ~FollowedImport();
  FollowedImport(const FollowedImport&) = delete;
  FollowedImport& operator=(const FollowedImport&) = delete;

  /// The allocation follows from here on, and nobody else uses the channel any more.
  void begin(const std::shared_ptr<Allocation>& allocation) noexcept;

 private:
  const std::shared_ptr<FollowedImports> imports_;
  const std::shared_ptr<FollowedImports::Entry> entry_;
};

/// Lets imported memory follow the moves of its exporters, on a thread of its own: one move at a
/// time. Any thread.
class ImportFollower {
 public:
  /// Requires: all outlive it. Throws: Error{busy} if the system cannot start a thread.
  ImportFollower(Memory& memory, Mover& mover, const PlaceNames& places, const ShareStop& stop);
  ~ImportFollower();
  ImportFollower(const ImportFollower&) = delete;
  ImportFollower& operator=(const ImportFollower&) = delete;

  /// Throws: std::bad_alloc.
  std::shared_ptr<FollowedImport> add(std::shared_ptr<ShareChannel> channel);

 private:
  void run() noexcept;
  void look();
  void serve(FollowedImports::Entry& entry);
  void follow(FollowedImports::Entry& entry);

  Memory& memory_;
  Mover& mover_;
  const ImportedChunks chunks_;
  const ShareStop& stop_;
  const std::shared_ptr<FollowedImports> imports_;
  ThreadedExecutor threads_;
  std::atomic<bool> ending_{false};
  std::unique_ptr<Task> task_;  // Last: it uses all of the above.
};

}  // namespace vma
