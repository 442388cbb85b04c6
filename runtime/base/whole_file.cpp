#include "base/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace vma {
namespace {

/// The type bits of the file's mode; 0 if it does not exist.
mode_t type_of(const std::string& file) {
  struct stat found {};
  return stat(file.c_str(), &found) == 0 ? found.st_mode & S_IFMT : 0;
}

/// Resolves links, because renaming onto a link would replace the link.
std::string without_links(const std::string& file) {
  std::error_code failed;
  if (!std::filesystem::is_symlink(file, failed)) return file;
  const std::filesystem::path real = std::filesystem::canonical(file, failed);
  return failed ? file : real.string();
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Peeks first, because copying zero bytes sets a failure. For a folder, peeking fails.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || !text) return std::nullopt;
  return std::move(text).str();
}

WholeFile::WholeFile(const std::string& beside, Terms terms)
    : terms_(std::move(terms)), beside_(beside) {
  const mode_t type = type_of(beside);
  if (type == S_IFDIR) {
    errno = EISDIR;
    refuse(beside, terms_.kind);
  }
  if (type != 0 && type != S_IFREG) {
    descriptor_ = open(beside.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) refuse(beside, terms_.kind);
    return;
  }
  path_ = without_links(beside) + ".XXXXXX";
  descriptor_ = mkostemp(path_.data(), O_CLOEXEC);  // Creates the file with mode 0600.
  if (descriptor_ < 0) refuse(beside, terms_.kind);
  static_cast<void>(fchmod(descriptor_, terms_.mode));  // Fails on file systems without modes.
}

void WholeFile::require_possible(const std::string& file, const Terms& terms) {
  static_cast<void>(WholeFile(file, terms));
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!path_.empty()) unlink(path_.c_str());
}

void WholeFile::refuse(const std::string& file, ErrorKind kind) const {
  throw Error(kind, terms_.call, fmt::format("{}: {}", file, std::strerror(errno)));
}

void WholeFile::refuse_write(const std::string& file) const {
  refuse(file, terms_.write_kind.value_or(terms_.kind));
}

void WholeFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse_write(beside_);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

bool WholeFile::rewrite_begin(std::string_view text) {
  if (path_.empty()) return false;
  if (::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    refuse_write(beside_);
  }
  return true;
}

/// Without this, the name may show an empty file after a power failure.
void WholeFile::sync() {
  if (fsync(descriptor_) != 0) refuse_write(beside_);
}

void WholeFile::become(const std::string& file) {
  if (path_.empty()) return;  // Pipes and devices are written directly.
  sync();
  if (std::rename(path_.c_str(), without_links(file).c_str()) != 0) refuse_write(file);
  path_.clear();
}

bool WholeFile::become_first(const std::string& file) {
  sync();
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) {
    path_.clear();
    return true;
  }
  if (errno == EEXIST) return false;
  // NFS does not support renameat2 with this flag, but it supports links.
  if (errno != EINVAL && errno != ENOSYS) refuse_write(file);
  if (link(path_.c_str(), file.c_str()) == 0) return true;
  if (errno != EEXIST) refuse_write(file);
  return false;
}

}  // namespace vma
