#include "lab/trace/byte_source.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#ifdef VMART_LAB_ZLIB
#include <zlib.h>
#else
#include <cstdio>
#endif

namespace vma {

void ByteSource::refuse(const std::string& why) const {
  throw Error(ErrorKind::invalid_argument, "open", fmt::format("{}: {}", path_, why));
}

#ifdef VMART_LAB_ZLIB

struct ByteSource::Handle {
  gzFile file = nullptr;
  ~Handle() {
    if (file != nullptr) gzclose_r(file);
  }
};

// zlib passes files that are not compressed through unchanged.
ByteSource::ByteSource(std::string path)
    : path_(std::move(path)), handle_(std::make_unique<Handle>()) {
  errno = 0;
  handle_->file = path_ == "-" ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path_.c_str(), "rb");
  if (handle_->file == nullptr) refuse(errno != 0 ? std::strerror(errno) : "cannot be read");
  gzbuffer(handle_->file, 256 * 1024);
}

std::size_t ByteSource::read(std::span<char> bytes) {
  const auto wanted = static_cast<unsigned>(std::min<std::size_t>(bytes.size(), INT_MAX));
  const int got = gzread(handle_->file, bytes.data(), wanted);
  int code = Z_OK;
  const char* const why = gzerror(handle_->file, &code);
  // For a truncated file zlib first returns its last bytes, and reports the error with the next
  // call.
  if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) {
    refuse(code == Z_ERRNO ? std::strerror(errno) : why);
  }
  return static_cast<std::size_t>(got);
}

bool reads_compressed() noexcept {
  return true;
}

#else

struct ByteSource::Handle {
  std::FILE* file = nullptr;
  ~Handle() {
    if (file != nullptr && file != stdin) std::fclose(file);
  }
};

ByteSource::ByteSource(std::string path)
    : path_(std::move(path)), handle_(std::make_unique<Handle>()) {
  handle_->file = path_ == "-" ? stdin : std::fopen(path_.c_str(), "rb");
  if (handle_->file == nullptr) refuse(std::strerror(errno));
  if (path_.ends_with(".gz"))
    refuse("is compressed, and this build has no zlib; decompress it with zcat and read it from -");
}

std::size_t ByteSource::read(std::span<char> bytes) {
  const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), handle_->file);
  if (got == 0 && std::ferror(handle_->file) != 0) refuse(std::strerror(errno));
  return got;
}

bool reads_compressed() noexcept {
  return false;
}

#endif

ByteSource::~ByteSource() = default;

}  // namespace vma
