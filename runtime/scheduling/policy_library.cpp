#include "scheduling/policy_library.hpp"

#include "placement/policies/built_in_policies.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

#include <cstring>
#include <string_view>
#include <utility>

namespace vma {
namespace {

static_assert(std::string_view(policy_interface_version) == VMART_MINOR_VERSION,
              "the header's version equals the project's");

constexpr std::string_view link_line = "g++ -std=c++20 -shared -fPIC policy.cc -o policy.so";

/// Closes a library that turns out not to fit.
class OpenLibrary {
 public:
  explicit OpenLibrary(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW)) {
    if (handle_ != nullptr) return;
    const char* why = dlerror();
    throw Error(ErrorKind::invalid_argument, "dlopen",
                fmt::format("{}; a policy becomes a library by: {}", why == nullptr ? path : why,
                            link_line));
  }
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  ~OpenLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  const void* find(const char* symbol) const { return dlsym(handle_, symbol); }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

/// Text from another compilation, which may lack its terminator.
template <std::size_t Size>
std::string_view text_of(const char (&text)[Size]) {
  return {text, strnlen(text, Size)};
}

template <typename Mine, typename Its>
void must_be(const std::string& path, std::string_view what, const Mine& mine, const Its& its) {
  if (mine == its) return;
  throw Error(ErrorKind::invalid_argument, "policy library",
              fmt::format("{}: its {} is '{}', vmart's is '{}'", path, what, its, mine));
}

/// In the order in which the members can be trusted.
void check_library(const std::string& path, const PolicyLibrary& library) {
  must_be(path, "size", sizeof(PolicyLibrary), library.size);
  must_be(path, "interface", policy_api_version, library.api_version);
  must_be(path, "version", text_of(policy_interface_version), text_of(library.version));
  must_be(path, "compiler", text_of(policy_compiler), text_of(library.compiler));
  must_be(path, "alignment", alignof(std::max_align_t), library.alignment);
  must_be(path, "layout", policy_layout(), library.layout);
  if (library.kinds == nullptr)
    throw Error(ErrorKind::invalid_argument, "policy library", path + ": it has no policy");
}

/// Null if there is none, or if `name` is empty and there are several.
const PolicyKind* kind_in(const PolicyRegistry& kinds, const std::string& name) {
  if (!name.empty()) return kinds.find(name);
  return kinds.kinds().size() == 1 ? &kinds.kinds().front() : nullptr;
}

}  // namespace

PolicyRegistry load_policies(const std::string& path) {
  OpenLibrary library(path);
  const void* symbol = library.find("vmart_policies");
  if (symbol == nullptr) {
    const bool older = library.find("vmart_policy_v1") != nullptr;
    throw Error(
        ErrorKind::invalid_argument, "policy library",
        path + (older ? std::string(": it was built for an older vmart; build it anew")
                      : fmt::format(": no vmart_policies; a library has it that says "
                                    "VMART_EXPORT_POLICY(kind_function) (<vma/policy.hpp>) and is "
                                    "made by: {}",
                                    link_line)));
  }
  const auto* shown = static_cast<const PolicyLibrary*>(symbol);
  check_library(path, *shown);
  library.keep();  // From here its code may be in use.
  PolicyRegistry kinds;
  try {
    for (PolicyKind& kind : shown->kinds()) kinds.add(std::move(kind));
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid_argument, "policy library",
                fmt::format("{}: {}", path, error.what()));
  }
  if (kinds.kinds().empty())
    throw Error(ErrorKind::invalid_argument, "policy library", path + ": it has no policy");
  return kinds;
}

std::unique_ptr<Policy> load_policy(const std::string& text, const PolicyRegistry& known) {
  const PolicyText split = split_policy_text(text);
  return split.path.empty() ? known.make(text)
                            : make_library_policy(split, load_policies(split.path));
}

std::unique_ptr<Policy> make_library_policy(const PolicyText& text, const PolicyRegistry& kinds) {
  const PolicyKind* const kind = kind_in(kinds, text.name);
  if (kind == nullptr) {
    const std::string known = fmt::format("{}", fmt::join(kinds.names(), ", "));
    const std::string wanted =
        text.name.empty() ? "it has several" : fmt::format("it has no policy '{}'", text.name);
    throw Error(ErrorKind::invalid_argument, "policy library",
                fmt::format("{0}: {1}; name one of {2} as NAME@{0}", text.path, wanted, known));
  }
  return make_policy(built_in_policies().put_around(text.arounds, *kind), text.parameters);
}

}  // namespace vma
