#include "placement/policies/policy_registry.hpp"

#include "base/nearest_name.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace vma {
namespace {

bool is_word(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_argument, "policy", what);
}

}  // namespace

void check_policy_kind(const PolicyKind& kind) {
  if (!is_word(kind.name)) refuse(fmt::format("'{}' is not a policy name", kind.name));
  if (kind.make == nullptr) refuse(fmt::format("{} cannot be made", kind.name));
  for (auto each = kind.parameters.begin(); each != kind.parameters.end(); ++each) {
    if (!is_word(each->name)) refuse(fmt::format("{}: '{}' is not a name", kind.name, each->name));
    const bool known = std::any_of(kind.parameters.begin(), each,
                                   [&](const auto& other) { return other.name == each->name; });
    if (known) refuse(fmt::format("{} has two parameters {}", kind.name, each->name));
    const bool within = each->type == PolicyParameter::Type::flag
                            ? each->otherwise == 0 || each->otherwise == 1
                            : each->otherwise >= each->least && each->otherwise <= each->most;
    if (!within) refuse(fmt::format("{}: {} is out of its own bounds", kind.name, each->name));
  }
}

void PolicyRegistry::add(PolicyKind kind) {
  check_policy_kind(kind);
  if (find(kind.name) != nullptr) refuse(fmt::format("there are two policies {}", kind.name));
  const auto after = std::ranges::upper_bound(kinds_, kind.name, {}, &PolicyKind::name);
  kinds_.insert(after, std::move(kind));
}

const PolicyKind* PolicyRegistry::find(std::string_view name) const {
  const auto found = std::ranges::find(kinds_, name, &PolicyKind::name);
  return found == kinds_.end() ? nullptr : &*found;
}

std::vector<std::string_view> PolicyRegistry::names() const {
  std::vector<std::string_view> names;
  for (const PolicyKind& each : kinds_) names.push_back(each.name);
  return names;
}

const PolicyKind& PolicyRegistry::require(std::string_view name) const {
  if (const PolicyKind* kind = find(name)) return *kind;
  const std::vector<std::string_view> names = this->names();
  const std::string_view near = nearest_name(name, names);
  refuse(
      fmt::format("there is no policy '{}'; {}known are {}", name,
                  near.empty() ? "" : fmt::format("did you mean {}? ", near),
                  names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "))));
}

void PolicyRegistry::add_around(const std::string& name, Around around) {
  if (!is_word(name)) refuse(fmt::format("'{}' is not a policy name", name));
  if (!arounds_.emplace(name, std::move(around)).second)
    refuse(fmt::format("there are two policies {}+", name));
}

PolicyKind PolicyRegistry::put_around(std::span<const std::string> arounds, PolicyKind kind) const {
  for (const std::string& around : arounds | std::views::reverse) {
    if (const auto found = arounds_.find(around); found != arounds_.end()) {
      kind = found->second(std::move(kind));
      continue;
    }
    std::string known;
    for (const auto& [name, maker] : arounds_) known += (known.empty() ? "" : ", ") + name;
    refuse(fmt::format("no policy '{}' goes around another; known are {}", around,
                       known.empty() ? std::string("none") : known));
  }
  return kind;
}

std::unique_ptr<Policy> PolicyRegistry::make(const std::string& text) const {
  PolicyText split = split_policy_text(text);
  if (!split.path.empty()) split.name = split.path;  // No policy has such a name.
  return make(split);
}

std::unique_ptr<Policy> PolicyRegistry::make(const PolicyText& text) const {
  return make_policy(put_around(text.arounds, require(text.name)), text.parameters);
}

std::unique_ptr<Policy> make_policy(const PolicyKind& kind, const std::string& parameters) {
  auto policy = kind.make(parse_policy_values(kind, parameters));
  if (policy == nullptr)
    refuse(fmt::format("{} could not be created from its parameters", kind.name));
  return policy;
}

}  // namespace vma
