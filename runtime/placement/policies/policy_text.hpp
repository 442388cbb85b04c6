#pragma once

#include <vma/policy.hpp>

#include <string>
#include <vector>

namespace vma {

/// `name:parameters`, `/path/to/library.so:parameters` or `name@/path/to/library.so:parameters`;
/// before each of them any number of `around+`, names of policies that are put around it.
struct PolicyText {
  std::vector<std::string> arounds;  ///< "guarded", "repeating"; the outermost first.
  std::string name;                  ///< Empty: the policy of the library.
  std::string path;                  ///< Empty: a built-in policy.
  std::string parameters;            ///< "margin=1.25,horizon=2s".
};

/// Text with a slash names a library. Throws: Error{invalid_argument} if there is neither a name
/// nor a path, or nothing before a plus sign that is not in a path.
PolicyText split_policy_text(const std::string& text);

/// Uses defaults for parameters that `parameters` does not name. Durations are written 2s, 10ms,
/// 500us, 100ns, sizes 64MiB or 4096, flags true or false, counts and numbers as they are. Throws:
/// Error{invalid_argument} that names the fault and lists the parameters, with types, bounds and
/// defaults.
PolicyValues parse_policy_values(const PolicyKind& kind, const std::string& parameters);

/// A parameter's type, bounds and default, as `parse_policy_values` reads them.
struct ParameterWords {
  std::string type, min, max, default_value;
};
ParameterWords words_of(const PolicyParameter& parameter);

/// "horizon: duration, 100ms to 60s, default 2s: how far ahead it looks", one line each.
std::string describe_parameters(const PolicyKind& kind);

}  // namespace vma
