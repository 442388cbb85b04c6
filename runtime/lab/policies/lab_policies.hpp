#pragma once

#include "placement/policies/policy_registry.hpp"

#include <vma/policy.hpp>

#include <vector>

namespace vma {

/// The policies of research: rules from the literature that the study compares with `auto`. The lab
/// knows them by name; a program loads them from the shared object that this folder becomes
/// (`VMART_POLICY=two_touch@/usr/lib/vmart/lab_policies.so`).
std::vector<PolicyKind> research_policies();

/// Those and the built-in ones: what the lab knows by name.
const PolicyRegistry& lab_policies();

}  // namespace vma

namespace vma::inline v1 {

// One a file; its class states the rule and its source.
PolicyKind coin_flip_kind();
PolicyKind histogram_fill_kind();
PolicyKind latency_balance_kind();
PolicyKind lifetime_class_kind();
PolicyKind size_threshold_kind();
PolicyKind two_touch_kind();
PolicyKind watermark_age_kind();

/// The table of them, a row each: the lab and the shared object are made from it. clang-format
/// would repack the rows.
// clang-format off
inline constexpr PolicyKind (*research_kinds[])() = {
    coin_flip_kind,
    histogram_fill_kind,
    latency_balance_kind,
    lifetime_class_kind,
    size_threshold_kind,
    two_touch_kind,
    watermark_age_kind,
};
// clang-format on

}  // namespace vma::inline v1
