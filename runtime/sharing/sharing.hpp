#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/memory_import.hpp"
#include "sharing/place_names.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// What a runtime shares with other processes: its exports, with the thread that serves them, and
/// imports. Any thread.
///
/// The thread starts with the first export. It is one of the operating system also on a simulated
/// machine: other processes live in real time. A stepped machine, all of whose threads take turns,
/// exports nothing.
class Sharing {
 public:
  /// Requires: `memory` outlives it.
  explicit Sharing(Memory& memory);
  ~Sharing();

  /// A path in a folder of this user for sockets, which begin with it and end with ".sock".
  std::string new_path();
  /// Serves the allocation at a socket until `close`. An empty path in the request becomes one in
  /// a folder of this user. Throws: Error{unsupported} on a stepped machine; as MemoryExport.
  std::shared_ptr<MemoryExport> open(std::shared_ptr<Allocation> allocation, ExportRequest request);
  /// Returns once no process is served any more. Blocks: for a driver call in progress.
  void close(const std::shared_ptr<MemoryExport>& shared) noexcept;
  /// As `MemoryImport::run`.
  std::shared_ptr<Allocation> import(const ImportRequest& request);

  /// Imports that wait for their exporters, and later ones, throw Error{driver_gone} from now on.
  void refuse_imports() noexcept;
  /// Closes all exports and ends the thread. No `open` may follow.
  void stop() noexcept;
  /// At the end of the process: removes the sockets from the file system, and nothing else. Does
  /// not wait for other threads.
  void remove_paths() noexcept VMART_NO_THREAD_ANALYSIS;

 private:
  struct Service;

  Service& service() VMART_REQUIRES(mutex_);
  const ShareStop& import_stop();

  Memory& memory_;
  const PlaceNames places_;
  Mutex mutex_;
  std::unique_ptr<Service> service_ VMART_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<MemoryExport>> exports_ VMART_GUARDED_BY(mutex_);
  std::unique_ptr<ShareStop> stop_ VMART_GUARDED_BY(mutex_);  // From the first import on.
  bool imports_refused_ VMART_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> last_path_{0};
};

}  // namespace vma
