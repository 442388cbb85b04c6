#pragma once

#include <vma/export.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// How memory can leave the process. The driver fixes this when it creates a chunk, so it is an
/// option of the runtime or of an allocation, and not of an export. What a device does not support
/// is left out.
struct Exportable {
  /// By POSIX file descriptor: needed for `export_allocation`, and for other libraries' IPC. Costs
  /// 5 us for each new chunk and 10 us when one is unmapped, on H200.
  bool descriptor = false;
  /// By fabric handle, for processes on other nodes of an NVLink domain; needs IMEX. vmart does not
  /// export these itself: see `note_export`.
  bool fabric = false;
  /// For network cards (`gpuDirectRDMACapable`): without it, RDMA libraries copy through the host.
  bool rdma = false;
};

/// Who may import an allocation, and how.
struct ExportOptions {
  /// Path of the Unix socket through which other processes import. Empty: a new one in a folder
  /// that only this user can enter.
  std::string path{};
  /// Numeric ids of users that may import, besides the user of this process and root. `path` must
  /// then name a socket in a folder that those users can enter.
  std::vector<unsigned> users{};
  /// How many processes may have it imported at a time.
  std::size_t importers_max = 64;
  /// How long an import of up to 256 chunks may take, from the connection until the importer says
  /// that it is ready; each further 256 chunks have as long again. A process that takes longer is
  /// disconnected. At most 24 hours for each 256 chunks; more counts as that.
  std::chrono::milliseconds import_limit{5'000};
};

/// A process that has imported an allocation, as the kernel reports it.
struct Importer {
  int process = 0;
  unsigned user = 0;
};

/// Whose memory is accepted, and how long to wait for it.
struct ImportOptions {
  /// Name of the allocation in this process. Empty: the exporter's.
  std::string tag{};
  /// How long an import of up to 256 chunks may take; each further 256 chunks have as long again.
  /// At most 24 hours for each 256 chunks; more counts as that.
  std::chrono::milliseconds limit{5'000};
  /// Numeric ids of users whose memory is accepted, besides the user of this process and root. They
  /// can read and change it at any time.
  std::vector<unsigned> users{};
};

/// Lets other processes import an allocation while this object exists. Until then it cannot be
/// freed; while a process has imported it, it does not move. Movable, not copyable.
class VMART_EXPORT ExportedAllocation {
 public:
  ExportedAllocation(ExportedAllocation&&) noexcept;
  ExportedAllocation& operator=(ExportedAllocation&&) noexcept;
  /// Calls `close`.
  ~ExportedAllocation();

  /// Path of the socket; pass it to `import_allocation` in the other process.
  const std::string& path() const noexcept;
  /// The processes that have imported it, or are about to. Empty once closed.
  std::vector<Importer> importers() const;
  /// Ends the export: nobody can import any more, and the allocation may move and be freed.
  /// Processes that have imported it keep the memory that they have until they free it; from the
  /// next move on, it is not this allocation's any more. Waits for no other process. Idempotent.
  void close() noexcept;

 private:
  friend class Runtime;
  struct State;
  explicit ExportedAllocation(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace vma::inline v1
