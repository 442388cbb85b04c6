#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

// Where the processes of a user find each other: the folder in which their sockets lie, and the
// names of the sockets.

/// Whether it is a directory of the user that no other user may write to.
bool is_private(const struct stat& status, uid_t user) noexcept;

/// The folder for the sockets of this user; creates it with mode 0700. It is `vmart` in
/// XDG_RUNTIME_DIR if that is a private directory of this user with a short path. Otherwise it is
/// /tmp/vmart-UID, or /tmp/vmart-UID-XXXXXX if something else has that name. Throws:
/// Error{invalid_argument} if the system refuses all of them.
std::string own_folder();
/// All such folders that exist and belong to the user: processes may run with different
/// environments. That of this process comes first.
std::vector<std::string> folders_of(uid_t user);

/// The folder's path without links, if only the user and root can change what that path names, now
/// and later: each folder on the way belongs to one of the two, and nobody else may write to it.
/// None for a folder in /tmp: whoever cleans up there removes it, and anyone may create it again.
std::optional<std::string> out_of_reach(const std::string& folder, uid_t user);

/// The name of a socket in such a folder: `PID.sock` of a control socket and `PID-KEY.sock` of an
/// export. A process of another PID namespace than the machine's first has `PID.NAMESPACE` for
/// `PID`, because containers may share the folder.
struct SocketName {
  pid_t process = 0;
  std::uint32_t pid_namespace = 0;  ///< 0: the first one, or unknown.
  std::string key;                  ///< Hexadecimal digits, and hyphens; empty: a control socket.

  std::string text() const;
  /// Without ".sock".
  std::string stem() const;
  /// None for other names.
  static std::optional<SocketName> parse(std::string_view file);
  /// Of this process.
  static SocketName own(std::string key = {});
};

/// A random key of 64 bits. Throws: Error{driver_failure} for `call`.
std::uint64_t random_key(const char* call);
/// As it is in a name.
std::string key_text(std::uint64_t key);

}  // namespace vma
