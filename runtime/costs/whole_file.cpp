#include "costs/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace vma {

WholeFile::WholeFile(const std::string& beside, Terms terms)
    : terms_(std::move(terms)), path_(beside + ".XXXXXX") {
  descriptor_ = mkstemp(path_.data());  // 0600.
  if (descriptor_ < 0) refuse(beside);
  static_cast<void>(fchmod(descriptor_, terms_.mode));  // Where modes mean nothing it fails.
}

void WholeFile::require_possible(const std::string& file, const Terms& terms) {
  const WholeFile tried(file, terms);
  struct stat found {};
  if (stat(file.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return;
  errno = EISDIR;
  tried.refuse(file);
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!path_.empty()) unlink(path_.c_str());
}

void WholeFile::refuse(const std::string& file) const {
  throw Error(terms_.kind, terms_.call, fmt::format("{}: {}", file, std::strerror(errno)));
}

void WholeFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse(path_);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A name that outlives a power cut shall not be of an empty file.
void WholeFile::sync() {
  if (fsync(descriptor_) != 0) refuse(path_);
}

void WholeFile::become(const std::string& file) {
  sync();
  if (std::rename(path_.c_str(), file.c_str()) != 0) refuse(file);
  path_.clear();
}

bool WholeFile::become_first(const std::string& file) {
  sync();
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) {
    path_.clear();
    return true;
  }
  if (errno == EEXIST) return false;
  // NFS cannot do that, but it has links.
  if (errno != EINVAL && errno != ENOSYS) refuse(file);
  if (link(path_.c_str(), file.c_str()) == 0) return true;
  if (errno != EEXIST) refuse(file);
  return false;
}

}  // namespace vma
