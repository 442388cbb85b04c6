#pragma once

#include <csignal>

namespace vma {

/// What a process did about SIGSEGV and SIGBUS before the runtime took them, and still does about
/// those that are none of the runtime's.
class FormerHandlers {
 public:
  /// Installs `handler` for both signals and remembers what was there. Once a process, and
  /// again if that has failed; never undone, since others may have saved `handler` to call it.
  /// Throws: Error{driver_failure}.
  static void replace_by(void (*handler)(int, siginfo_t*, void*));
  /// Does with the signal what would have happened without the runtime: calls the former handler
  /// with its mask and flags, or takes the default action: then this returns, and the access
  /// faults again. Async-signal-safe, as far as the former handler is.
  static void call(int signal, siginfo_t* info, void* context) noexcept;
};

}  // namespace vma
