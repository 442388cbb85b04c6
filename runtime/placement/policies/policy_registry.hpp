#pragma once

#include "placement/policies/policy_text.hpp"

#include <vma/policy.hpp>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Kinds of policies by name. Not thread-safe; it is filled before it is queried.
class PolicyRegistry {
 public:
  /// Requires: a name of letters, digits and '_' that no other kind has, a maker, and defaults
  /// within their bounds. Throws: Error{invalid_argument} otherwise.
  void add(PolicyKind kind);
  /// Makes of a kind that of a policy around it, for texts like `name+inner`. Requires: the name is
  /// that of no other. Throws: Error{invalid_argument} otherwise.
  using Around = std::function<PolicyKind(PolicyKind inner)>;
  void add_around(const std::string& name, Around around);
  /// Null if the name is unknown.
  const PolicyKind* find(std::string_view name) const;
  /// Throws: Error{invalid_argument} that lists the known ones and suggests the nearest.
  const PolicyKind& require(std::string_view name) const;
  /// In the order of their names.
  const std::vector<PolicyKind>& kinds() const noexcept { return kinds_; }
  /// In the same order; valid as long as the registry, until something is added.
  std::vector<std::string_view> names() const;

  /// The kind itself, with those of the policies called `arounds` around it, the outermost first.
  /// Throws: Error{invalid_argument} that lists the known ones; what the makers throw.
  PolicyKind put_around(std::span<const std::string> arounds, PolicyKind kind) const;

  /// From `name` or `name:parameter=value,parameter=value`, either after `around+`. Throws:
  /// Error{invalid_argument} that lists the known policies, or the policy's parameters.
  std::unique_ptr<Policy> make(const std::string& text) const;
  /// The kind of this registry that is called `text.name`. Throws: the same.
  std::unique_ptr<Policy> make(const PolicyText& text) const;

 private:
  std::vector<PolicyKind> kinds_;
  std::map<std::string, Around> arounds_;
};

/// Throws: Error{invalid_argument} that says what is wrong with the kind.
void check_policy_kind(const PolicyKind& kind);

/// With `parameters` as in `parse_policy_values`. Throws: what that throws; Error{invalid_argument}
/// if the kind returns no policy.
std::unique_ptr<Policy> make_policy(const PolicyKind& kind, const std::string& parameters);

}  // namespace vma
