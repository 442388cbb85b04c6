#include "support/test_mapping.hpp"

#include <vma/error.hpp>

namespace vma {
namespace {

void quietly(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {  // A test that broke the driver on purpose cannot clean up.
  }
}

}  // namespace

std::vector<Accessor> all_gpus(Driver& driver) {
  std::vector<Accessor> accessors;
  for (int ordinal = 0; ordinal < driver.device_count(); ++ordinal) {
    accessors.push_back({gpu(ordinal), Access::read_write});
  }
  return accessors;
}

int native_of(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return error.native();
  }
}

TestMapping::TestMapping(Driver& driver, Place at, std::uint64_t size_bytes,
                         const std::vector<Accessor>& accessors)
    : driver_(driver), size_bytes_(size_bytes) {
  address_ = driver_.reserve(size_bytes_, 0);
  chunk_ = driver_.create(at, size_bytes_);
  map();
  if (!accessors.empty()) grant(accessors);
}

TestMapping::~TestMapping() {
  quietly([&] { driver_.unmap(address_, size_bytes_); });
  if (!is_none(chunk_)) quietly([&] { driver_.release(chunk_); });
  quietly([&] { driver_.unreserve(address_, size_bytes_); });
}

void TestMapping::unmap() {
  driver_.unmap(address_, size_bytes_);
}

void TestMapping::map() {
  driver_.map(address_, size_bytes_, chunk_);
}

void TestMapping::grant(const std::vector<Accessor>& accessors) {
  driver_.grant(address_, size_bytes_, accessors);
}

void TestMapping::replace(Place at, const std::vector<Accessor>& accessors) {
  const ChunkHandle other = driver_.create(at, size_bytes_);
  unmap();
  driver_.release(chunk_);
  chunk_ = other;
  map();
  grant(accessors);
}

void TestMapping::release() {
  driver_.release(chunk_);
  chunk_ = {};
}

}  // namespace vma
