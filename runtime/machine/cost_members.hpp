#pragma once

#include "machine/machine_description.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace vma {

/// A member of `CostParameters` and its key in a machine file.
template <typename Value>
struct CostMember {
  const char* key;
  Value CostParameters::*member;
};

/// All members, each in one of the three lists.
std::span<const CostMember<CostTable>> cost_tables();
/// A key ends in its unit: "_us", "_us_per_mib", "_gb_s".
std::span<const CostMember<double>> cost_numbers();
/// Bytes; a file gives them in MiB.
std::span<const CostMember<std::uint64_t>> cost_sizes();

/// Copies the value with this key. Requires: the key exists.
void copy_cost(std::string_view key, const CostParameters& from, CostParameters& to);

}  // namespace vma
