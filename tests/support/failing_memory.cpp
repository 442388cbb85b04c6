#include "support/failing_memory.hpp"

#include <cstdlib>
#include <new>

namespace vma {
namespace {

thread_local int spared = 0;

bool refused() {
  bool (*const fails)() = allocation_fails;
  return fails != nullptr && spared == 0 && fails();
}

}  // namespace

Spared::Spared() noexcept {
  ++spared;
}
Spared::~Spared() {
  --spared;
}

}  // namespace vma

[[gnu::noinline]] void* operator new(std::size_t size_bytes) {
  void* memory = vma::refused() ? nullptr : std::malloc(size_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
