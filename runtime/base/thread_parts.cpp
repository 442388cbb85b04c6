#include "base/thread_parts.hpp"

#include <atomic>

namespace vma {
namespace {

std::atomic<unsigned> threads{0};
constinit thread_local unsigned number = 0;  // Zero before its first call.

}  // namespace

unsigned thread_number() noexcept {
  if (number == 0) number = ++threads;
  return number;
}

}  // namespace vma
