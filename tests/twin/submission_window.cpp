#include "twin/submission_window.hpp"

namespace vma {
namespace {
thread_local bool inside = false;
thread_local int recorded = 0;  // Contexts that are not held yet.

/// What a hold may enqueue between its calls for contexts.
bool belongs_to_a_hold(Call call) {
  switch (call) {
    case Call::record_context:
    case Call::hold_context:
    case Call::stream_wait_event:
    case Call::copy:
    case Call::record:
    case Call::batch: return true;
    default: return false;
  }
}
}  // namespace

void SubmissionWindow::enter() {
  ++recorded;
  if (inside) return;
  submissions_.lock();
  inside = true;
}

void SubmissionWindow::leave() noexcept {
  recorded = 0;
  if (!inside) return;
  inside = false;
  submissions_.unlock();
}

void SubmissionWindow::around(Call call, const std::function<void()>& body) {
  // Not followed by a hold, `record_context` only marked the work.
  if (!belongs_to_a_hold(call)) leave();
  if (call == Call::record_context) enter();
  try {
    body();
  } catch (...) {
    leave();
    throw;
  }
  if (call == Call::hold_context && --recorded <= 0) leave();
}

}  // namespace vma
