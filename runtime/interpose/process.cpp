// What happens when this library is loaded into a process.
#include "interpose/settings.hpp"
#include "interpose/standing.hpp"

#include <pthread.h>

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

__attribute__((constructor)) void loaded() {
  let_free_be_found();
  hide_from_children();
  pthread_atfork(nullptr, nullptr, [] { note_fork(); });
}

}  // namespace
}  // namespace vma::interpose
