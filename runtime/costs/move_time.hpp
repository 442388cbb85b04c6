#pragma once

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

namespace vma {

/// What a migration took by itself, which is what `MachineCosts::move_time` foretells of one chunk:
/// target, copy, settling, switch, retiring. Neither the time until the application's streams stood
/// nor that until a budget allowed the stop is in it: the application runs meanwhile. Calibration
/// and `PredictionLog` both take it from here.
///
/// Of several chunks phases overlap, and one's copy goes on while another waits: then it is no more
/// than the wall time without the waits.
Time move_time(const MigrationReport& report);

}  // namespace vma
