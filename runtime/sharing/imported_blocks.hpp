#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Blocks of other processes' pools that this process has imported. Those of one segment share its
/// import, which ends once the last of them is freed and the work before these frees has ended. Any
/// thread.
class ImportedBlocks {
 public:
  explicit ImportedBlocks(Memory& memory) : memory_(memory) {}
  ~ImportedBlocks();
  ImportedBlocks(const ImportedBlocks&) = delete;
  ImportedBlocks& operator=(const ImportedBlocks&) = delete;

  /// A block of the segment that is exported at `path`. One that is added twice is freed twice.
  /// Throws: what `import` throws, which is called unless the segment is imported; Error
  /// {invalid_argument} for a block that is not within it. Blocks: for `import`, on any thread.
  Address add(const std::string& path, std::uint64_t offset, std::uint64_t size_bytes,
              const std::function<std::shared_ptr<Allocation>()>& import);
  /// Whether the address lies in an imported segment.
  bool owns(Address address) const;

  /// Requires: no work uses the block. The last one of its segment waits for all work, as
  /// `Memory::free`, and returns the contexts. Throws: Error{unknown_pointer} if none begins there;
  /// {pinned}; then nothing has changed. Likewise below.
  std::vector<ContextHandle> free(Address block);
  /// After the work that is now enqueued on the stream. Does not block.
  void free_async(Address block, BoundStream stream);

 private:
  struct Segment {
    Mutex importing;
    // Guarded by the mutex of the whole.
    std::shared_ptr<Allocation> memory;  // Null until it is imported.
    std::string path;
    std::size_t blocks = 0;
    std::vector<WorkMark> marks;      // Of blocks that were freed.
    std::size_t marks_looked_at = 0;  // With so many, those that have ended are forgotten.
  };
  struct Block {
    std::shared_ptr<Segment> segment;
    std::size_t count = 0;
  };
  using SegmentPointer = std::shared_ptr<Segment>;

  SegmentPointer segment_at(const std::string& path) VMART_REQUIRES(mutex_);
  Address enter(const SegmentPointer& segment, std::uint64_t offset, std::uint64_t size_bytes)
      VMART_REQUIRES(mutex_);
  Block& require(Address address, const char* call) VMART_REQUIRES(mutex_);
  void let_go(Address address, const char* call) VMART_REQUIRES(mutex_);
  void end(Segment& segment) VMART_REQUIRES(mutex_);
  void forget_ended(Segment& segment) noexcept VMART_REQUIRES(mutex_);

  Memory& memory_;
  mutable Mutex mutex_;  // Never held while a segment is imported.
  std::map<std::string, SegmentPointer> by_path_ VMART_GUARDED_BY(mutex_);
  std::map<Address, SegmentPointer> by_begin_ VMART_GUARDED_BY(mutex_);
  std::map<Address, Block> blocks_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
