#pragma once

namespace vma {

/// Runs the last words (see below), prints the condition, and aborts.
[[noreturn]] void check_failed(const char* condition, const char* reason, const char* file,
                               int line) noexcept;

/// Called once, before the process aborts on a failed check, to release stops that would otherwise
/// last forever. May only store to host memory.
using LastWords = void (*)() noexcept;
void set_last_words(LastWords last_words) noexcept;

}  // namespace vma

/// States what must hold, and why. Stays on in release builds: it costs nanoseconds beside a driver
/// call.
#define VMART_CHECK(condition, reason) \
  ((condition) ? void(0) : ::vma::check_failed(#condition, reason, __FILE__, __LINE__))
