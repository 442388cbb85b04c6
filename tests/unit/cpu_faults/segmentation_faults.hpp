#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace vma {

/// Whether `body` ends in a SIGSEGV or SIGBUS, which this thread then survives. What it says on
/// standard error goes to `text`, if it is not null. The handler is installed before main, so that
/// a runtime finds it as the former one.
bool is_segmentation_fault(const std::function<void()>& body, std::string* text = nullptr);

/// Reads a word, which the compiler does not know.
inline std::uint64_t load(const std::uint64_t* word) {
  return *static_cast<const volatile std::uint64_t*>(word);
}
inline void store(std::uint64_t* word, std::uint64_t value) {
  *static_cast<volatile std::uint64_t*>(word) = value;
}

}  // namespace vma
