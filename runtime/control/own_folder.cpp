#include "control/own_folder.hpp"

#include "base/environment.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

/// So that the longest name of a socket fits into an address.
constexpr std::size_t runtime_folder_max = 48;

/// Whether the user owns it and nobody else may look into it. Links do not count.
bool is_own(const std::string& folder, uid_t user) noexcept {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && is_private(status, user) &&
         (status.st_mode & 0077) == 0;
}

/// Creates the folder unless it exists.
bool make_own(const std::string& folder) noexcept {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  if (is_own(folder, geteuid())) return true;
  errno = EEXIST;  // Another user may have created it first, or placed a link there.
  return false;
}

/// In XDG_RUNTIME_DIR; empty if that is of no use. Under sudo, the variable may name a directory of
/// the user who called it.
std::string in_runtime_folder() {
  const char* const runtime = environment_variable("XDG_RUNTIME_DIR");
  if (runtime == nullptr || runtime[0] != '/' || std::strlen(runtime) > runtime_folder_max) {
    return "";
  }
  struct stat status {};
  if (lstat(runtime, &status) != 0 || !is_private(status, geteuid())) return "";
  return fmt::format("{}/vmart", runtime);
}

std::string in_tmp(uid_t user) {
  return fmt::format("/tmp/vmart-{}", user);
}

/// Those that this user's processes made because the first name was taken.
std::vector<std::string> others_in_tmp(uid_t user) {
  std::vector<std::string> folders;
  const std::string begin = in_tmp(user) + "-";
  std::error_code ended;  // An entry may disappear meanwhile.
  for (fs::directory_iterator entry("/tmp", ended), end; !ended && entry != end;
       entry.increment(ended)) {
    const std::string path = entry->path();
    if (path.starts_with(begin) && is_own(path, user)) folders.push_back(path);
  }
  std::ranges::sort(folders);
  return folders;
}

template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// 0 for the machine's first one, whose number never changes, and if it is unknown.
std::uint32_t pid_namespace_of_process() noexcept {
  constexpr ino_t first = 0xEFFFFFFC;
  struct stat status {};
  if (stat("/proc/self/ns/pid", &status) != 0 || status.st_ino == first) return 0;
  return static_cast<std::uint32_t>(status.st_ino);
}

}  // namespace

bool is_private(const struct stat& status, uid_t user) noexcept {
  return S_ISDIR(status.st_mode) && status.st_uid == user &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string own_folder() {
  std::string folder = in_runtime_folder();
  if (!folder.empty() && make_own(folder)) return folder;
  folder = in_tmp(geteuid());
  if (make_own(folder)) return folder;
  if (errno == EEXIST) {
    if (const auto others = others_in_tmp(geteuid()); !others.empty()) return others.front();
    std::string free_name = folder + "-XXXXXX";
    if (mkdtemp(free_name.data()) != nullptr) return free_name;
  }
  throw Error(ErrorKind::invalid_argument, "vma::control",
              fmt::format("cannot create the folder {}: {}; set XDG_RUNTIME_DIR to a folder of "
                          "this user with mode 0700",
                          folder, std::strerror(errno)));
}

std::vector<std::string> folders_of(uid_t user) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    if (is_own(folder, user) && std::ranges::count(folders, folder) == 0) folders.push_back(folder);
  };
  if (user == geteuid()) add(in_runtime_folder());
  add(fmt::format("/run/user/{}/vmart", user));
  add(in_tmp(user));
  for (const std::string& folder : others_in_tmp(user)) add(folder);
  return folders;
}

std::optional<std::string> out_of_reach(const std::string& folder, uid_t user) {
  std::error_code failed;
  const fs::path real = fs::canonical(folder, failed);
  if (failed) return std::nullopt;
  for (fs::path each = real;; each = each.parent_path()) {
    struct stat status {};
    if (lstat(each.c_str(), &status) != 0) return std::nullopt;
    if (!is_private(status, user) && !is_private(status, 0)) return std::nullopt;
    if (each == each.root_path()) return real.string();
  }
}

std::string SocketName::text() const {
  return stem() + ".sock";
}

std::string SocketName::stem() const {
  const std::string space = pid_namespace == 0 ? "" : fmt::format(".{}", pid_namespace);
  return fmt::format("{}{}{}{}", process, space, key.empty() ? "" : "-", key);
}

std::optional<SocketName> SocketName::parse(std::string_view file) {
  constexpr std::string_view end = ".sock";
  SocketName name;
  if (!file.ends_with(end)) return std::nullopt;
  file.remove_suffix(end.size());
  if (!take_number(file, name.process) || name.process <= 0) return std::nullopt;
  if (file.starts_with('.')) {
    file.remove_prefix(1);
    if (!take_number(file, name.pid_namespace)) return std::nullopt;
  }
  if (file.empty()) return name;
  if (!file.starts_with('-') || file.size() == 1 ||
      file.find_first_not_of("0123456789abcdef-") != std::string_view::npos) {
    return std::nullopt;
  }
  name.key = file.substr(1);
  return name;
}

SocketName SocketName::own(std::string key) {
  return {ProcessExit::process(), pid_namespace_of_process(), std::move(key)};
}

std::uint64_t random_key(const char* call) {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) == sizeof key) return key;
  throw Error(ErrorKind::driver_failure, call, "the system gives no random numbers");
}

std::string key_text(std::uint64_t key) {
  return fmt::format("{:016x}", key);
}

}  // namespace vma
