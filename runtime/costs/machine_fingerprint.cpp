#include "costs/machine_fingerprint.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace vma {

std::string machine_fingerprint(Driver& driver, const Topology& topology) {
  std::string text = driver.description();
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    text += fmt::format("; {} {} {}", to_string(gpu(index(device))), info.name, info.uuid);
  }
  text += "; links";
  for (const DeviceId from : topology.devices()) {
    text += ' ';
    for (const DeviceId to : topology.devices()) {
      const bool reaches = topology.reaches(from, gpu(index(to)));
      text += fmt::format("{}", reaches ? static_cast<int>(topology.link(from, to).kind) : 9);
    }
  }
  return text +
         fmt::format("; {} host nodes", topology.locations().size() - topology.devices().size());
}

std::string calibration_file_name(const std::string& fingerprint) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a. The file also contains the full text.
  for (const char letter : fingerprint) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return fmt::format("calibration-{:016x}.json", hash);
}

}  // namespace vma
