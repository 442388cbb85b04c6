// The first and the last moment of this library.
#include "interpose/process.hpp"
#include "interpose/hooks/program.hpp"
#include "interpose/settings.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace vma::interpose {
namespace {

/// `vmart run --no-children`: programs that this one starts are left alone.
void hide_from_children() {
  const char* const preload = secure_getenv("LD_PRELOAD");
  if (Settings::get().children || preload == nullptr) return;
  std::string rest;
  for (std::string_view left = preload; !left.empty();) {
    const std::size_t end = left.find_first_of(": ");
    const std::string_view library = left.substr(0, end);
    left = end == std::string_view::npos ? "" : left.substr(end + 1);
    if (library.empty() || library.ends_with("libvmart-run.so")) continue;
    rest += rest.empty() ? "" : ":";
    rest += library;
  }
  if (rest.empty()) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", rest.c_str(), 1);
  }
}

/// Another preloaded library may have a `free` that looks the next one up at its first call. The
/// loader frees the message of a look-up that has failed during the next one, which would be that
/// of `free`, and so on. So the first call is made while there is no message.
void let_free_be_found() {
  void* volatile const memory = std::malloc(1);
  std::free(memory);
}

/// The process that `vmart run` has become; those that it starts have other ids.
bool is_the_program() noexcept {
  const char* const id = secure_getenv("VMART_RUN_PROGRAM");
  return id != nullptr && std::strtol(id, nullptr, 10) == getpid();
}

/// Tells a person why nothing could move, which would otherwise look like success; a file or
/// another program gets what the program itself writes. Silent about a program that has waited for
/// others: they may have used a GPU.
__attribute__((destructor)) void left() {
  if (isatty(STDERR_FILENO) == 0 || !is_the_program() || !takes_part() || program().streams.begun())
    return;
  rusage children{};
  if (getrusage(RUSAGE_CHILDREN, &children) != 0 || children.ru_maxrss > 0) return;
  if (driver_is_used()) {
    say("all memory of the program was left to the driver: only allocations of at least --min "
        "move, memory of pools only with --pools, and what is mapped with cuMemMap only with "
        "--vmm");
  } else {
    say("the program never used a GPU");
  }
}

__attribute__((constructor)) void loaded() {
  let_free_be_found();
  hide_from_children();
  watch_forks();
}

}  // namespace
}  // namespace vma::interpose
