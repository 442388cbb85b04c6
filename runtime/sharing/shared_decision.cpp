#include "sharing/shared_decision.hpp"

#include "sharing/share_protocol.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

namespace vma {
namespace {

constexpr std::size_t decision_bytes = 4096;
/// Without it, a process that makes the file shorter would end all that read it.
constexpr int decision_seals = F_SEAL_SHRINK;

Error no_decision(const char* call) {
  return Error(ErrorKind::out_of_memory, export_call,
               fmt::format("{}: {}", call, std::strerror(errno)));
}

}  // namespace

SharedDecision::SharedDecision()
    : descriptor_(memfd_create("vmart-decision", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!descriptor_) throw no_decision("memfd_create");
  if (ftruncate(descriptor_.get(), decision_bytes) != 0) throw no_decision("ftruncate");
  if (fcntl(descriptor_.get(), F_ADD_SEALS, decision_seals) != 0) throw no_decision("fcntl");
  map();
}

SharedDecision::SharedDecision(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  struct stat status {};
  const int seals = fcntl(descriptor_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & decision_seals) != decision_seals ||
      fstat(descriptor_.get(), &status) != 0 ||
      status.st_size < static_cast<off_t>(decision_bytes)) {
    throw Error(ErrorKind::peer_failure, import_call,
                "the exporter sent a descriptor that is no decision of a move");
  }
  map();
}

void SharedDecision::map() {
  static_assert(Word::is_always_lock_free, "processes share no locks");
  void* const begin =
      mmap(nullptr, decision_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (begin == MAP_FAILED) throw no_decision("mmap");
  word_ = static_cast<Word*>(begin);
}

SharedDecision::~SharedDecision() {
  munmap(word_, decision_bytes);
}

Descriptor SharedDecision::pass_on() const {
  Descriptor passed(fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0));
  if (!passed) throw no_decision("fcntl");
  return passed;
}

/// Whatever another process has written besides means that the memory stays.
SharedDecision::Value SharedDecision::value() const noexcept {
  const std::uint32_t value = *word_;
  return value > static_cast<std::uint32_t>(Value::stay) ? Value::stay : Value{value};
}

SharedDecision::Value SharedDecision::decide(Value wanted) noexcept {
  auto expected = static_cast<std::uint32_t>(Value::open);
  if (!word_->compare_exchange_strong(expected, static_cast<std::uint32_t>(wanted))) return value();
  syscall(SYS_futex, word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return wanted;
}

SharedDecision::Value SharedDecision::await(std::chrono::milliseconds limit) const noexcept {
  constexpr std::int64_t ms_per_s = 1000, ns_per_ms = 1'000'000;
  const timespec most{static_cast<time_t>(limit.count() / ms_per_s),
                      static_cast<long>(limit.count() % ms_per_s * ns_per_ms)};
  if (value() == Value::open) {
    syscall(SYS_futex, word_, FUTEX_WAIT, static_cast<std::uint32_t>(Value::open), &most, nullptr,
            0);
  }
  return value();
}

}  // namespace vma
