#include "base/check.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace vma {
namespace {
std::atomic<LastWords> last_words{nullptr};
}

void set_last_words(LastWords words) noexcept {
  last_words.store(words);
}

void check_failed(const char* condition, const char* reason, const char* file, int line) noexcept {
  if (LastWords words = last_words.exchange(nullptr)) words();
  std::fprintf(stderr, "vmart: %s:%d: check failed: %s (%s)\n", file, line, condition, reason);
  std::abort();
}

}  // namespace vma
