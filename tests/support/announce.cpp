#include "support/announce.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace vma {
namespace {

char text_now[512];

void print_text(int) {
  static_cast<void>(!write(STDERR_FILENO, text_now, std::strlen(text_now)));
  std::signal(SIGABRT, SIG_DFL);
}

}  // namespace

void announce(const std::string& text) {
  const std::size_t length = std::min(text.size(), sizeof text_now - 2);
  std::memcpy(text_now, text.data(), length);
  std::memcpy(text_now + length, "\n", 2);
  std::signal(SIGABRT, print_text);
}

}  // namespace vma
