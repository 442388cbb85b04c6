#pragma once

#include "lab/replay/replay_machine.hpp"
#include "recording/recording_format.hpp"

#include <vma/calibration.hpp>

#include <optional>

namespace vma {

/// The machine of a recording: its places with their capacities, and the costs of `calibration`;
/// without one, the costs that its runtime used. GPU links come from the calibration, or from the
/// recording. If both are too old to have them, GPUs that reach each other faster than host memory
/// are assumed to use NVLink, others their links to the host. Throws: Error{invalid_argument} for a
/// calibration of other places, and for an invalid header.
ReplayMachine recorded_machine(const RecordingHeader& header,
                               const std::optional<Calibration>& calibration);

/// Returns `machine` with the costs and gaps of a calibration, and the links that result from it.
/// If an older calibration lacks GPU links, these stay unchanged. Throws: Error{invalid_argument}
/// for a calibration of other places.
ReplayMachine calibrated_machine(ReplayMachine machine, const Calibration& calibration);

}  // namespace vma
