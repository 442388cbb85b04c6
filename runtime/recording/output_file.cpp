#include "recording/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>

namespace vma {
namespace {

constexpr int pipe_wait_ms = 200;  // How long to wait for a slow reader before dropping bytes.

/// Protects a program from the signals of a failed write, which could terminate it. They are sent
/// to the writing thread, so they are blocked there, and consumed before they are unblocked again.
class WriteSignals {
 public:
  WriteSignals() noexcept {
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGPIPE);
    sigaddset(&ours_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    had_pipe_ = sigismember(&pending, SIGPIPE) == 1;
    had_limit_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  }
  ~WriteSignals() {
    sigset_t raised = ours_;  // Signals that were pending before belong to the program.
    if (had_pipe_) sigdelset(&raised, SIGPIPE);
    if (had_limit_) sigdelset(&raised, SIGXFSZ);
    const timespec at_once{};
    while (sigtimedwait(&raised, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

 private:
  sigset_t ours_{}, before_{};
  bool had_pipe_ = false, had_limit_ = false;
};

}  // namespace

OutputFile::~OutputFile() {
  close();
}

/// Uses O_NONBLOCK, so that opening a pipe without a reader fails at once instead of waiting for
/// one. Disks ignore the flag.
int OutputFile::open(const std::string& path, Existing existing) noexcept {
  close();
  try {
    path_ = path;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  const int how = existing == Existing::append ? O_APPEND : O_EXCL;
  do {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | how, 0644);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) return errno;
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    const int failed = errno;
    close();
    return failed;
  }
  regular_ = S_ISREG(status.st_mode);
  size_bytes_ = regular_ ? static_cast<std::uint64_t>(status.st_size) : 0;
  return 0;
}

int OutputFile::write_all(std::span<const std::uint8_t> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd writable{fd_, POLLOUT, 0};
      if (::poll(&writable, 1, pipe_wait_ms) == 0) return EAGAIN;
    } else if (written == 0 || errno != EINTR) {
      return written == 0 ? EIO : errno;
    }
  }
  return 0;
}

int OutputFile::write(std::span<const std::uint8_t> bytes) noexcept {
  if (fd_ < 0) return EBADF;
  int failed = 0;
  {
    const WriteSignals signals;
    failed = write_all(bytes);
  }
  if (failed == 0) {
    size_bytes_ += bytes.size();
  } else if (regular_) {
    const auto end = static_cast<off_t>(size_bytes_);
    if (::ftruncate(fd_, end) != 0 || ::lseek(fd_, end, SEEK_SET) < 0) close();
  }
  return failed;
}

void OutputFile::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  regular_ = false;
  size_bytes_ = 0;
}

bool OutputFile::is_gone() const noexcept {
  struct stat status {};
  return fd_ >= 0 && ::fstat(fd_, &status) == 0 && status.st_nlink == 0;
}

}  // namespace vma
