#pragma once

#include <unistd.h>

#include <utility>

namespace vma {

/// Owns a file descriptor; closes it on destruction. Movable; -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(-1); }

  explicit operator bool() const noexcept { return value_ >= 0; }
  int get() const noexcept { return value_; }
  int release() noexcept { return std::exchange(value_, -1); }

 private:
  void reset(int value) noexcept {
    const int old = std::exchange(value_, value);
    if (old >= 0) ::close(old);
  }
  int value_ = -1;
};

}  // namespace vma
