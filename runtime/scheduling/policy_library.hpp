#pragma once

#include "placement/policies/policy_registry.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vma {

/// What the shared object at `path` exports with `VMART_EXPORT_POLICY`. Version, compiler and
/// layout are checked before anything of it is called; its static constructors run before, as the
/// loader of the system has it. It is never unloaded: a policy that was abandoned may still run in
/// it. Throws: Error{invalid_argument} that says what does not fit. Blocks: on the file system.
PolicyKind load_policy_kind(const std::string& path);

/// The built-in policies and these. Throws: Error{invalid_argument} for a kind that is none, or
/// whose name another has.
PolicyRegistry known_policies(const std::vector<PolicyKind>& own);

/// A known policy or one of a library: `name:parameters`, `/path/to/library.so:parameters` or
/// `name@/path/to/library.so:parameters`, where the name is that of the library's policy.
/// Throws: Error{invalid_argument}. Blocks: as above.
std::unique_ptr<Policy> load_policy(const std::string& text, const PolicyRegistry& known);
/// The same of the built-in ones.
std::unique_ptr<Policy> load_policy(const std::string& text);
/// That of the library at `text.path`. Throws, blocks: as above.
std::unique_ptr<Policy> load_library_policy(const PolicyText& text);

}  // namespace vma
