#pragma once

#include "base/ids.hpp"
#include "driver/native_codes.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace vma {

/// A fault that makes a device unusable. Work on a stream throws it, and it becomes a sticky error.
/// Never leaves the simulator.
class DeviceFault : public std::runtime_error {
 public:
  DeviceFault(int native, const std::string& what) : std::runtime_error(what), native_(native) {}

  static DeviceFault illegal_address(int device, Address address, const char* why) {
    return {native_illegal_address,
            fmt::format("gpu({}) at {:#x}: {}", device, to_integer(address), why)};
  }

  int native() const noexcept { return native_; }

 private:
  int native_;
};

}  // namespace vma
