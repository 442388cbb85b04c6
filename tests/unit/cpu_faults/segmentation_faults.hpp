#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace vma {

/// Whether `body` ends in a SIGSEGV or SIGBUS, which this thread then survives. What it says on
/// standard error goes to `text`, if it is not null. The handler is installed before main, so that
/// a runtime finds it as the former one.
bool is_segmentation_fault(const std::function<void()>& body, std::string* text = nullptr);

/// Accesses a word. ThreadSanitizer would take the mapping of memory, which nothing orders before
/// the access, for a write to it.
__attribute__((noinline, no_sanitize("thread"))) inline std::uint64_t load(
    const std::uint64_t* word) {
  return *static_cast<const volatile std::uint64_t*>(word);
}
__attribute__((noinline, no_sanitize("thread"))) inline void store(std::uint64_t* word,
                                                                   std::uint64_t value) {
  *static_cast<volatile std::uint64_t*>(word) = value;
}

}  // namespace vma
