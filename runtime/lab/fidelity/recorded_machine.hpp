#pragma once

#include "lab/replay/replay_machine.hpp"
#include "recording/recording_header.hpp"

#include <vma/calibration.hpp>

#include <optional>

namespace vma {

/// The machine of a recording: its places with their capacities, and the costs of `calibration`, or
/// without one those that its runtime went by. How GPUs are linked is what the calibration says, or
/// the recording. Where both are of before and say nothing, GPUs that reach each other faster than
/// host memory are taken to do so by NVLink, others by their ways to the host. Throws:
/// Error{invalid_argument} for a calibration of other places, and for a header that makes no
/// machine.
ReplayMachine recorded_machine(const RecordingHeader& header,
                               const std::optional<Calibration>& calibration);

/// `machine` with the costs of a calibration, its gaps, and the links that follow from it; how GPUs
/// are linked stays as it is where a calibration of before does not say it. Throws:
/// Error{invalid_argument} for a calibration of other places.
ReplayMachine calibrated_machine(ReplayMachine machine, const Calibration& calibration);

}  // namespace vma
