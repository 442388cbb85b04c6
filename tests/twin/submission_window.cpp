#include "twin/submission_window.hpp"

namespace vma {
namespace {
thread_local bool inside = false;
}

void SubmissionWindow::enter() {
  submissions_.lock();
  inside = true;
}

void SubmissionWindow::leave() noexcept {
  if (!inside) return;
  inside = false;
  submissions_.unlock();
}

void SubmissionWindow::around(Call call, const std::function<void()>& body) {
  // Not followed by a hold, `record_context` only marked the work.
  if (call != Call::hold_context) leave();
  if (call == Call::record_context) enter();
  try {
    body();
  } catch (...) {
    leave();
    throw;
  }
  if (call == Call::hold_context) leave();
}

}  // namespace vma
