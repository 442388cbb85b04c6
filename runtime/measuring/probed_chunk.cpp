#include "measuring/probed_chunk.hpp"

#include "base/log.hpp"

#include <exception>

namespace vma {

ProbedChunk::~ProbedChunk() {
  try {
    if (mapped_) unmap();
    if (created_) release();
    if (size_bytes_ > 0) unreserve();
  } catch (const std::exception& error) {
    log(LogLevel::warn, "a probe could not release a chunk: {}", error.what());
  }
}

void ProbedChunk::reserve(std::uint64_t size_bytes) {
  begin_ = driver_.reserve(size_bytes, 0);
  size_bytes_ = size_bytes;
}

void ProbedChunk::create(Location at) {
  chunk_ = driver_.create(at, size_bytes_);
  created_ = true;
}

void ProbedChunk::show(const ProbedChunk& other) {
  driver_.map(begin_, size_bytes_, other.chunk_);
  mapped_ = true;
}

void ProbedChunk::unmap() {
  driver_.unmap(begin_, size_bytes_);
  mapped_ = false;
}

void ProbedChunk::release() {
  driver_.release(chunk_);
  created_ = false;
}

void ProbedChunk::unreserve() {
  driver_.unreserve(begin_, size_bytes_);
  size_bytes_ = 0;
}

}  // namespace vma
