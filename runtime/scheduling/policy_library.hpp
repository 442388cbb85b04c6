#pragma once

#include "placement/policies/policy_registry.hpp"
#include "placement/policies/policy_text.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>

namespace vma {

/// What the shared object at `path` exports with `VMART_EXPORT_POLICIES`. Version, compiler and
/// layout are checked before any of its functions is called; the system's loader runs its static
/// constructors earlier. It is never unloaded: an abandoned policy may still run in it. Throws:
/// Error{invalid_argument} that says what does not fit. Blocks: on the file system.
PolicyRegistry load_policies(const std::string& path);

/// A known policy or one of a library: `name:parameters`, `/path/to/library.so:parameters` or
/// `name@/path/to/library.so:parameters`; a library of several policies needs the name. Throws:
/// Error{invalid_argument}. Blocks: as above.
std::unique_ptr<Policy> load_policy(const std::string& text, const PolicyRegistry& known);
/// A policy of the library at `text.path`, which has `kinds`. Throws: Error{invalid_argument}.
std::unique_ptr<Policy> make_library_policy(const PolicyText& text, const PolicyRegistry& kinds);

}  // namespace vma
