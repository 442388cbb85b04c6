#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// I/O of a virtual disk, as libCacheSim has CloudPhysics' VSCSI traces in CSV:
/// version,time,op,size,lbn, with times in seconds, SCSI operation codes in hexadecimal, sizes in
/// bytes, and block numbers of 512 bytes.
///
/// The file says nothing of GPUs; the parameters do. The disk is cut into regions of
/// "region_bytes". A region is an object of that size, tagged "disk", which is allocated at its
/// first I/O. Objects belong to "gpus" GPUs by turns, which use them by kernels: each I/O reads or
/// writes the objects that it touches, in full, or with "whole" 0 only its bytes. The I/Os of a
/// second are spread evenly over it, and time passes "speed" times as fast. An I/O earlier than the
/// previous one is a bad line.
void convert_vscsi(const ConvertInput& input, EventOrder& order);

inline constexpr std::array vscsi_parameters{
    TraceParameter{"region_bytes", 2 << 20, 1 << 12, 1e12, "size of a part of the disk"},
    TraceParameter{"gpus", 4, 1, 64, "GPUs that use the parts by turns"},
    TraceParameter{"speed", 1000, 1e-3, 1e9, "seconds of the file a second", false},
    TraceParameter{"whole", 1, 0, 1, "1: an I/O uses whole parts; 0: only its bytes"}};

}  // namespace vma
