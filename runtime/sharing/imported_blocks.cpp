#include "sharing/imported_blocks.hpp"

#include "base/log.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t marks_at_least = 16;

constexpr const char* add_call = "vma::import_pointer";

}  // namespace

ImportedBlocks::~ImportedBlocks() {
  const MutexLock lock(mutex_);
  for (const auto& [begin, segment] : by_begin_) {
    for (const WorkMark& mark : segment->marks) memory_.give_back(mark);
  }
}

// --- Import

ImportedBlocks::SegmentPointer ImportedBlocks::segment_at(const std::string& path) {
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) return found->second;
  auto segment = std::make_shared<Segment>();
  segment->path = path;
  by_path_.emplace(path, segment);
  return segment;
}

Address ImportedBlocks::add(const std::string& path, std::uint64_t offset, std::uint64_t size_bytes,
                            const std::function<std::shared_ptr<Allocation>()>& import) {
  while (true) {
    SegmentPointer segment;
    {
      const MutexLock lock(mutex_);
      segment = segment_at(path);
      if (segment->memory) return enter(segment, offset, size_bytes);
    }
    const MutexLock turn(segment->importing);
    {
      const MutexLock lock(mutex_);
      // Another thread has imported it, has failed to, or has even freed it since.
      if (segment->memory || segment_at(path) != segment) continue;
    }
    std::shared_ptr<Allocation> memory;
    try {
      memory = import();
    } catch (...) {
      const MutexLock lock(mutex_);
      by_path_.erase(path);
      throw;
    }
    const MutexLock lock(mutex_);
    segment->memory = std::move(memory);
    try {
      by_begin_.emplace(segment->memory->begin(), segment);
      return enter(segment, offset, size_bytes);
    } catch (...) {
      if (segment->blocks == 0) end(*segment);
      throw;
    }
  }
}

Address ImportedBlocks::enter(const SegmentPointer& segment, std::uint64_t offset,
                              std::uint64_t size_bytes) {
  const std::uint64_t whole = segment->memory->size_bytes();
  if (size_bytes == 0 || offset > whole || size_bytes > whole - offset) {
    throw Error(ErrorKind::invalid_argument, add_call,
                fmt::format("{} bytes from {} are no block of a segment of {} bytes", size_bytes,
                            offset, whole));
  }
  const Address begin = segment->memory->begin() + offset;
  Block& block = blocks_[begin];
  block.segment = segment;
  ++block.count;
  ++segment->blocks;
  return begin;
}

bool ImportedBlocks::owns(Address address) const {
  const MutexLock lock(mutex_);
  auto after = by_begin_.upper_bound(address);
  if (after == by_begin_.begin()) return false;
  const auto& [begin, segment] = *--after;
  return address < begin + segment->memory->size_bytes();
}

// --- Free

ImportedBlocks::Block& ImportedBlocks::require(Address address, const char* call) {
  const auto found = blocks_.find(address);
  if (found != blocks_.end()) return found->second;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("no imported block begins at {:#x}", to_integer(address)));
}

std::vector<ContextHandle> ImportedBlocks::free(Address block) {
  constexpr const char* call = "vma::free";
  bool last = false;
  {
    const MutexLock lock(mutex_);
    last = require(block, call).segment->blocks == 1;
  }
  std::vector<ContextHandle> waited;
  if (last) waited = memory_.contexts().await_work();
  const MutexLock lock(mutex_);
  let_go(block, call);
  return waited;
}

void ImportedBlocks::free_async(Address block, BoundStream stream) {
  constexpr const char* call = "vma::free_async";
  {
    const MutexLock lock(mutex_);
    require(block, call);
  }
  const WorkMark mark = memory_.mark(stream, call);
  const MutexLock lock(mutex_);
  SegmentPointer segment;
  try {
    segment = require(block, call).segment;
    if (segment->marks.size() >= segment->marks_looked_at) {
      forget_ended(*segment);
      segment->marks_looked_at = std::max(marks_at_least, 2 * segment->marks.size());
    }
    segment->marks.push_back(mark);
  } catch (...) {
    memory_.give_back(mark);
    throw;
  }
  try {
    let_go(block, call);
  } catch (...) {
    segment->marks.pop_back();
    memory_.give_back(mark);
    throw;
  }
}

void ImportedBlocks::let_go(Address address, const char* call) {
  Block& block = require(address, call);
  const SegmentPointer segment = block.segment;
  if (segment->blocks == 1) end(*segment);
  --segment->blocks;
  if (--block.count == 0) blocks_.erase(address);
}

/// Requires: at most one block is left. Throws: what `free_after` throws; then it stays.
void ImportedBlocks::end(Segment& segment) {
  const Address begin = segment.memory->begin();
  memory_.free_after(begin, segment.marks);
  by_begin_.erase(begin);
  const auto found = by_path_.find(segment.path);
  if (found != by_path_.end() && found->second.get() == &segment) by_path_.erase(found);
}

void ImportedBlocks::forget_ended(Segment& segment) noexcept {
  std::erase_if(segment.marks, [this](WorkMark& mark) {
    const bool ended = memory_.has_ended(mark);
    if (ended) memory_.give_back(mark);
    return ended;
  });
}

}  // namespace vma
