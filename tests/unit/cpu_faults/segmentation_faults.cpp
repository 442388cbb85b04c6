#include "unit/cpu_faults/segmentation_faults.hpp"

#include <gtest/gtest.h>

#include <csetjmp>
#include <csignal>

namespace vma {
namespace {

thread_local sigjmp_buf* return_point = nullptr;

void handle(int signal, siginfo_t*, void*) {
  if (return_point != nullptr) siglongjmp(*return_point, 1);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;  // The access faults again, and ends the process.
  sigaction(signal, &action, nullptr);
}

const bool installed = [] {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGSEGV, &action, nullptr) == 0 && sigaction(SIGBUS, &action, nullptr) == 0;
}();

bool survives(const std::function<void()>& body) {
  sigjmp_buf point;
  if (sigsetjmp(point, 1) != 0) {
    return_point = nullptr;
    return false;
  }
  return_point = &point;
  body();
  return_point = nullptr;
  return true;
}

}  // namespace

bool is_segmentation_fault(const std::function<void()>& body, std::string* text) {
  EXPECT_TRUE(installed);
  if (text != nullptr) testing::internal::CaptureStderr();
  const bool survived = survives(body);
  if (text != nullptr) *text = testing::internal::GetCapturedStderr();
  return !survived;
}

}  // namespace vma
