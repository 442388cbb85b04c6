#pragma once

namespace vma::interpose {

/// From now on, a crash inside vmart says what to report before the process ends as it would
/// otherwise. Signals that the program handles stay the program's. `inside` is an address of
/// libvmart. Called once.
void report_crashes(const void* inside) noexcept;

}  // namespace vma::interpose
