#include <vma/error.hpp>
#include <vma/group.hpp>

#include <fmt/format.h>

#include <utility>

namespace vma::inline v1 {

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::unknown_pointer: return "unknown_pointer";
    case ErrorKind::unreachable: return "unreachable";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::busy: return "busy";
    case ErrorKind::pinned: return "pinned";
    case ErrorKind::cancelled: return "cancelled";
    case ErrorKind::poisoned: return "poisoned";
    case ErrorKind::no_driver: return "no_driver";
    case ErrorKind::driver_gone: return "driver_gone";
    case ErrorKind::driver_failure: return "driver_failure";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::dropped: return "dropped";
    case ErrorKind::peer_failure: return "peer_failure";
    case ErrorKind::not_permitted: return "not_permitted";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string call, const std::string& detail, int native)
    : std::runtime_error(fmt::format("{}: {}: {}", call, to_string(kind), detail)),
      kind_(kind),
      native_(native),
      call_(std::make_shared<const std::string>(std::move(call))) {}

// Constructed from the text, because copies of a std::runtime_error share their text and count
// references in a way that race checkers do not see.
Error::Error(const Error& other, std::shared_ptr<const MigrationReport> report,
             std::shared_ptr<const GroupReport> group)
    : std::runtime_error(std::string(other.what())),
      kind_(other.kind_),
      native_(other.native_),
      call_(other.call_),
      report_(std::move(report)),
      group_(std::move(group)) {}

Error Error::with_report(MigrationReport report) const {
  return Error(*this, std::make_shared<const MigrationReport>(std::move(report)), nullptr);
}

Error Error::with_group(GroupReport group) const {
  const auto whole = std::make_shared<const GroupReport>(std::move(group));
  return Error(*this, std::shared_ptr<const MigrationReport>(whole, &whole->total), whole);
}

}  // namespace vma::inline v1
