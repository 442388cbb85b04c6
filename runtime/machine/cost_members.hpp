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

/// All of them, each in one of the three.
std::span<const CostMember<CostTable>> cost_tables();
/// The end of a key is its unit: "_us", "_us_per_mib", "_gb_s".
std::span<const CostMember<double>> cost_numbers();
/// Bytes, which a file has in MiB.
std::span<const CostMember<std::uint64_t>> cost_sizes();

/// Copies what has this key. Requires: there is one.
void copy_cost(std::string_view key, const CostParameters& from, CostParameters& to);

}  // namespace vma
