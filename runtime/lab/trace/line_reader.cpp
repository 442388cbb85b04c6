#include "lab/trace/line_reader.hpp"

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

BadLines::BadLines(std::string file, std::uint64_t most) : file_(std::move(file)), most_(most) {}

void BadLines::add(std::uint64_t line, std::string reason) {
  ++count_;
  if (count_ > most_) {
    std::string text = fmt::format("{}: line {}: {}", file_, line, reason);
    if (count_ > 1) text += fmt::format("; {} bad lines, at most {}", count_, most_);
    if (!kept_.empty()) {
      text += fmt::format("; the first is line {}: {}", kept_.front().line, kept_.front().reason);
    }
    throw Error(ErrorKind::invalid_argument, "read_lines", text);
  }
  if (kept_.size() < kept_max) kept_.push_back({line, std::move(reason)});
}

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

// Twice the limit: a line of maximum length fits wherever it begins in the window.
LineReader::LineReader(const std::string& path) : source_(path), window_(2 * line_bytes_max) {}

/// Moves the unread bytes to the front and reads more after them. Returns false at the end of the
/// file.
bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t bytes = source_.read({window_.data() + end_, window_.size() - end_});
  end_ += bytes;
  return bytes > 0;
}

std::string_view LineReader::give(std::size_t end) {
  std::string_view line(window_.data() + begin_, end - begin_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++line_;
  begin_ = end;
  return line;
}

/// Skips the rest of a truncated line, including its line ending.
void LineReader::skip_line() {
  for (;;) {
    const char* const from = window_.data() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    if (found != nullptr) {
      begin_ += static_cast<std::size_t>(static_cast<const char*>(found) - from) + 1;
      return;
    }
    begin_ = end_;
    if (!fill()) return;
  }
}

std::optional<std::string_view> LineReader::next() {
  if (cut_) skip_line();
  cut_ = false;
  // Each pass searches only the bytes that the last read added.
  for (std::size_t seen = 0;;) {
    const char* const from = window_.data() + begin_ + seen;
    const void* const found = std::memchr(from, '\n', end_ - begin_ - seen);
    if (found != nullptr) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - window_.data());
      if (end - begin_ > line_bytes_max) break;
      const std::string_view line = give(end);
      ++begin_;
      return line;
    }
    seen = end_ - begin_;
    if (seen > line_bytes_max) break;
    if (fill()) continue;
    if (begin_ == end_) return std::nullopt;
    return give(end_);
  }
  cut_ = true;
  return give(begin_ + line_bytes_max);
}

}  // namespace vma
