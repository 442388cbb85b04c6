#pragma once

#include <vma/place.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vma {

/// The bytes of one exportable simulated chunk: a file in memory, whose descriptor other processes
/// can map. Its size is sealed, so that no process can take bytes away from another one. Its last
/// page says what it is.
///
/// The bytes live as long as any process has the file open or mapped, as exported memory of a
/// driver does. Immutable except for the bytes; any thread.
class ChunkFile {
 public:
  /// What an importer learns from a descriptor.
  struct Label {
    Place at;
    std::uint64_t size_bytes = 0;
  };

  /// Zeroed. Throws: Error{out_of_memory}, also if more than half of the descriptors that this
  /// process may open would then belong to chunks.
  static std::unique_ptr<ChunkFile> create(const Label& label);
  /// The file behind another process's descriptor, which stays the caller's. Throws:
  /// Error{invalid_argument} if it is none of `create`; {out_of_memory}.
  static std::unique_ptr<ChunkFile> open(int descriptor);
  ~ChunkFile();
  ChunkFile(const ChunkFile&) = delete;
  ChunkFile& operator=(const ChunkFile&) = delete;

  const Label& label() const noexcept { return label_; }
  std::byte* bytes() const noexcept { return bytes_; }
  /// A new descriptor, which the caller closes. Throws: Error{out_of_memory} if there is none left.
  int duplicate() const;
  /// Also maps the bytes for the CPU at `address`, replacing the mapping there. Throws:
  /// Error{out_of_memory} if the kernel has no mapping left.
  void show(void* address, bool writable) const;

 private:
  explicit ChunkFile(const Label& label) : label_(label) {}
  void map(const char* call);

  const Label label_;
  int descriptor_ = -1;  // Constant, as is the next one, once `create` or `open` has returned.
  std::byte* bytes_ = nullptr;
};

}  // namespace vma
