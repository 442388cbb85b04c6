#include "simcuda/ioctl.hpp"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace {

std::atomic<vma::Ioctl> answering{nullptr};

}  // namespace

extern "C" void simcuda_answer_ioctl(vma::Ioctl answer) noexcept {
  answering = answer;
}

extern "C" int ioctl(int descriptor, unsigned long request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  if (const vma::Ioctl answer = answering) {
    const int result = answer(descriptor, request, argument);
    if (result >= 0 || errno != EBADF) return result;
  }
  return static_cast<int>(syscall(SYS_ioctl, descriptor, request, argument));
}
