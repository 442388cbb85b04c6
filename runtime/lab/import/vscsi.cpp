#include "lab/import/trace_formats.hpp"

#include "lab/import/input_lines.hpp"
#include "lab/trace/event_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vma {
namespace {

constexpr std::array vscsi_parameters{
    TraceParameter{"region_bytes", 2 << 20, 1 << 12, 1e12, "size of a part of the disk"},
    TraceParameter{"gpus", 4, 1, 64, "GPUs that use the parts by turns"},
    TraceParameter{"speed", 1000, 1e-3, 1e9, "seconds of the file a second", false},
    TraceParameter{"whole", 1, 0, 1, "1: an I/O uses whole parts; 0: only its bytes"}};

constexpr std::string_view disk_header = "version,time,op,size,lbn";
constexpr std::uint64_t block_bytes = 512;
constexpr std::uint64_t seconds_max = 1ull << 33, bytes_max = 1ull << 32, block_max = 1ull << 48;
constexpr std::uint64_t regions_max = 10'000'000;

/// Of SCSI's READ(10), READ(16), WRITE(10) and WRITE(16).
UseKind use_of(std::string_view operation) {
  if (operation == "28" || operation == "88") return UseKind::read;
  if (operation == "2a" || operation == "8a") return UseKind::write;
  refuse_line(fmt::format("op: \"{}\" is neither a read nor a write", operation));
}

struct Io {
  UseKind use = UseKind::read;
  std::uint64_t begin = 0, bytes = 0;  // On the disk.
};

/// Turns the I/Os of one second after the other into accesses.
class Disk {
 public:
  Disk(const TraceValues& values, EventOrder& order)
      : order_(order),
        region_bytes_(values.whole("region_bytes")),
        gpus_(values.whole("gpus")),
        speed_(values["speed"]),
        whole_(values.whole("whole") != 0) {}

  void add(std::uint64_t second, const Io& io) {
    if (second != second_.value_or(second)) use_second();
    if (!first_) first_ = second;
    second_ = second;
    waiting_.push_back(io);
  }
  void use_second() {
    for (std::size_t which = 0; which < waiting_.size(); ++which) {
      const double part = static_cast<double>(which) / static_cast<double>(waiting_.size());
      use(waiting_[which], time_of(static_cast<double>(*second_ - *first_) + part));
    }
    waiting_.clear();
  }

 private:
  struct Region {
    std::uint64_t object = 0;
    TracePlace gpu;
  };

  Time time_of(double seconds) const {
    return Time(static_cast<std::int64_t>(seconds / speed_ * 1e9));
  }
  void use(const Io& io, Time now) {
    order_.advance(now);
    const std::uint64_t end = io.begin + io.bytes;
    for (std::uint64_t at = io.begin; at < end;) {
      const std::uint64_t number = at / region_bytes_;
      const std::uint64_t to = std::min(end, (number + 1) * region_bytes_);
      const Region region = allocated(number, now);
      TraceEvent access;
      access.kind = TraceEventKind::access;
      access.time = now;
      access.object = region.object;
      access.offset = whole_ ? 0 : at % region_bytes_;
      access.bytes = whole_ ? region_bytes_ : to - at;
      access.use = io.use;
      access.at = region.gpu;
      order_.add(access);
      at = to;
    }
  }
  Region allocated(std::uint64_t number, Time now) {
    const auto [found, is_new] = regions_.try_emplace(number);
    if (!is_new) return found->second;
    if (regions_.size() > regions_max) {
      throw Error(ErrorKind::invalid_argument, "convert", "more regions than there can be");
    }
    found->second.object = regions_.size() - 1;
    found->second.gpu = TracePlace(gpu(static_cast<int>(found->second.object % gpus_)));
    TraceEvent allocation;
    allocation.kind = TraceEventKind::allocation;
    allocation.time = now;
    allocation.object = found->second.object;
    allocation.bytes = region_bytes_;
    allocation.tag = order_.intern("disk");
    order_.add(allocation);
    return found->second;
  }

  EventOrder& order_;
  const std::uint64_t region_bytes_, gpus_;
  const double speed_;
  const bool whole_;
  std::unordered_map<std::uint64_t, Region> regions_;  // By number on the disk.
  std::optional<std::uint64_t> first_, second_;
  std::vector<Io> waiting_;  // Of `second_`.
};

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
void convert_vscsi(const ConvertInput& input, EventOrder& order) {
  Disk disk(input.values, order);
  std::uint64_t before = 0;
  for_each_csv_line(input.path, disk_header, input.bad, 0, [&](const CsvFields& fields) {
    const std::uint64_t second = whole_number(fields[1], "time", 0, seconds_max);
    Io io;
    io.use = use_of(fields[2]);
    io.bytes = whole_number(fields[3], "size", 1, bytes_max);
    io.begin = whole_number(fields[4], "lbn", 0, block_max) * block_bytes;
    if (second < before) refuse_line("is earlier than the I/O above it");
    before = second;
    disk.add(second, io);
  });
  disk.use_second();
}

}  // namespace

TraceFormat vscsi_format() {
  return {"vscsi",
          "I/O of a virtual disk: cloudPhysicsIO.csv",
          "CloudPhysics (Waldspurger et al., FAST 2015), as in 1a1a11a/libCacheSim",
          "",
          vscsi_parameters,
          convert_vscsi};
}

}  // namespace vma
