#pragma once

#include "lab/replay/replay_machine.hpp"
#include "recording/recording_header.hpp"

#include <vma/calibration.hpp>

#include <optional>

namespace vma {

/// The machine of a recording: its places with their capacities, and the costs of `calibration`, or
/// without one those that its runtime used. GPU links come from the calibration, or from the
/// recording. If both are too old to have them, GPUs that reach each other faster than host memory
/// are assumed to use NVLink, others their links to the host. Throws: Error{invalid_argument} for a
/// calibration of other places, and for an invalid header.
ReplayMachine recorded_machine(const RecordingHeader& header,
                               const std::optional<Calibration>& calibration);

/// `machine` with the costs of a calibration, its gaps, and the links that follow from it; GPU
/// links stay unchanged if an older calibration lacks them. Throws: Error{invalid_argument} for a
/// calibration of other places.
ReplayMachine calibrated_machine(ReplayMachine machine, const Calibration& calibration);

}  // namespace vma
