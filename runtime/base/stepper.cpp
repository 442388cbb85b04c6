#include "base/stepper.hpp"

namespace vma {
namespace {
thread_local Stepper* current_stepper = nullptr;
}

Stepper* Stepper::current() noexcept {
  return current_stepper;
}
void Stepper::set_current(Stepper* stepper) noexcept {
  current_stepper = stepper;
}

}  // namespace vma
