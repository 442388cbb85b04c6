#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "base/part.hpp"
#include "memory/memory.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "migrate/moves/migrator.hpp"
#include "sharing/import_follower.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/memory_import.hpp"
#include "sharing/share_protocol.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// The thread that serves importers, with its context.
class ShareThread {
 public:
  /// Throws: Error{busy} if the system cannot start a thread.
  ShareThread();
  ~ShareThread();
  ShareThread(const ShareThread&) = delete;
  ShareThread& operator=(const ShareThread&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  /// Runs `body` on the thread and waits for it. Throws: what `body` throws; std::bad_alloc before.
  /// Requires: `end` is not called meanwhile.
  void run_there(const std::function<void()>& body);
  /// No handler runs afterwards. Idempotent.
  void end() noexcept;

 private:
  void run() noexcept;

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  ThreadedExecutor threads_;
  std::unique_ptr<Task> task_;  // Last: it uses all of the above.
};

/// What a runtime shares with other processes: its exports, with the thread that serves them, and
/// imports, with the thread that lets them follow. Any thread.
///
/// The threads start with the first export and the first import. They are of the operating system
/// also on a simulated machine: other processes live in real time. A stepped machine, all of whose
/// threads take turns, exports nothing.
class Sharing final : public ExporterMoves, public Part {
 public:
  /// Leads the importers in the moves of `migrator`. Requires: both outlive it.
  Sharing(Memory& memory, Migrator& migrator);
  ~Sharing() override;

  /// A path in a folder of this user for sockets, which begin with it and end with ".sock".
  static std::string new_path();
  /// Serves the allocation at a socket until `close`. An empty path in the request becomes one in
  /// a folder of this user. Throws: Error{unsupported} on a stepped machine; as MemoryExport.
  std::shared_ptr<MemoryExport> open(std::shared_ptr<Allocation> allocation, ExportRequest request);
  /// Returns once no process is served any more. Blocks: for a driver call in progress.
  void close(const std::shared_ptr<MemoryExport>& shared) noexcept;
  std::unique_ptr<ExporterMove> begin(const Allocation& allocation, const Limits& limits) override;
  /// As `MemoryImport::run`.
  std::shared_ptr<Allocation> import(const ImportRequest& request);

  /// Imports that wait for their exporters, and later ones, throw Error{driver_gone} from now on.
  void stop_accepting() noexcept override;
  /// Closes all exports and ends the threads. No `open` may follow. Requires: no move is in
  /// progress.
  void finish() noexcept override;
  /// At the end of the process: removes the sockets from the file system, and nothing else. Does
  /// not wait for other threads.
  void remove_paths() noexcept VMART_NO_THREAD_ANALYSIS;

 private:
  ShareThread& thread() VMART_REQUIRES(mutex_);
  void close_all() noexcept VMART_REQUIRES(mutex_);
  void move_ended() noexcept;
  const ShareStop& import_stop() VMART_REQUIRES(mutex_);
  ImportFollower& follower() VMART_REQUIRES(mutex_);

  Memory& memory_;
  Migrator& migrator_;
  const PlaceNames places_;
  Mutex mutex_;
  Condition moves_ended_;
  std::size_t moves_ VMART_GUARDED_BY(mutex_) = 0;  // Use the thread.
  std::unique_ptr<ShareThread> thread_ VMART_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<MemoryExport>> exports_ VMART_GUARDED_BY(mutex_);
  std::unique_ptr<ShareStop> stop_ VMART_GUARDED_BY(mutex_);           // From the first import on.
  std::unique_ptr<ImportFollower> follower_ VMART_GUARDED_BY(mutex_);  // The same.
  bool imports_refused_ VMART_GUARDED_BY(mutex_) = false;
};

}  // namespace vma
