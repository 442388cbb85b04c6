#pragma once

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

namespace vma {

/// The duration of a migration itself, which `MachineCosts::move_time` predicts for one chunk:
/// target, copy, settling, switch, retiring. Excludes the time until the application's streams were
/// stopped and the time until a budget allowed the stop, because the application runs meanwhile.
/// Calibration and `PredictionLog` both use it.
///
/// With several chunks, phases overlap, because one chunk is copied while another waits. The result
/// is then at most the wall time without the waits.
Time move_time(const MigrationReport& report);

}  // namespace vma
