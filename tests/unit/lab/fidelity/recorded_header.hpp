#pragma once

#include "recording/recording_format.hpp"

namespace vma {

/// Two GPUs with round numbers and their host, as the runtime would record them: 8 GiB of HBM that
/// a GPU reads at 4 TB/s, 400 GB/s between GPUs, and 50 GB/s to the host.
RecordingHeader recorded_header();

}  // namespace vma
