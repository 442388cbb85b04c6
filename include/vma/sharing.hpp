#pragma once

#include <vma/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// Names a block of an exported pool for `import_pointer` in another process, which may get these
/// numbers in any way.
struct ExportedPointer {
  std::uint64_t segment = 0;  ///< Of the exported pool, counted from 1 in the order of exports.
  std::uint64_t offset = 0;   ///< Of the block within it.
  std::uint64_t bytes = 0;    ///< Of the block, with what rounding added.
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
/// freed; while a process has imported it, it moves only in migrations that the program asks for,
/// together with the importers. Movable, not copyable.
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

/// Lets other processes import blocks of a pool while this object exists. The pool's memory is
/// exported in segments, each once a block of it is: from then on, while a process has blocks of it
/// imported, it moves only together with that process, and the pool does not give it back.
/// Movable, not copyable. Members throw Error{driver_gone} after the end of the runtime.
class VMART_EXPORT ExportedPool {
 public:
  ExportedPool(ExportedPool&&) noexcept;
  ExportedPool& operator=(ExportedPool&&) noexcept;
  /// Calls `close`.
  ~ExportedPool();

  /// Pass it to `import_pointer` in the other process. The sockets of segments begin with it.
  const std::string& path() const noexcept;
  /// Exports a block that is allocated. As with CUDA's pools, the program sees to it that work of
  /// other processes comes after the allocation, and that they have freed the block before it is
  /// freed here. Throws: Error{unknown_pointer}; as `export_allocation`, and {invalid_argument}
  /// once closed. Blocks: while a move switches a chunk.
  ExportedPointer pointer(void* block) const;
  /// The processes that have blocks imported, or are about to.
  std::vector<Importer> importers() const;
  /// As `ExportedAllocation::close`, for all segments.
  void close() noexcept;

 private:
  friend class Runtime;
  struct State;
  explicit ExportedPool(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace vma::inline v1
