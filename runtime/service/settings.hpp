#pragma once

#include "migrate/live_copier.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma {

/// `RuntimeOptions` with the environment read and every default filled in.
struct Settings {
  std::string driver;
  std::vector<int> devices;
  std::map<Location, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes_per_gpu = 0;
  std::uint64_t host_cache_bytes = 0;
  std::chrono::milliseconds hold_limit{0};
  std::chrono::microseconds gate_limit{5'000};
  int gate_retries = 8;
  std::chrono::microseconds stall_budget{60'000};  ///< Of each second; 0 is no limit.
  std::uint64_t copy_budget_bytes = 0;             ///< In each second; 0 is no limit.
  LiveTuning tuning{};  ///< No option names it: benchmarks compare others.
};

/// Throws: Error{invalid_argument} that names the variable and its value.
Settings settle(const RuntimeOptions& options);

/// "4096", "64MiB", "4G"; the suffixes are binary. Throws: Error{invalid_argument} that names
/// `what`.
std::uint64_t parse_size(const std::string& text, const std::string& what);

}  // namespace vma
