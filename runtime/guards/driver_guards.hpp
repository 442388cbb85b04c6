#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace vma {

/// The guards, by the functions of the driver that they stand for. Made once, never destroyed.
class DriverGuards {
 public:
  /// The driver's library, and its `cuGetProcAddress_v2`.
  DriverGuards(void* library, void* resolve);
  DriverGuards(const DriverGuards&) = delete;
  DriverGuards& operator=(const DriverGuards&) = delete;

  /// From now on, guards may be called. Only the first one made counts.
  void publish() const noexcept;

  /// The guard of a function of the driver; null if it has none.
  const void* guard_of(const void* function) const noexcept;
  /// The same, for one that was looked up by a name: also if nothing is known of it.
  const void* guard_of(const void* function, std::string_view symbol) const noexcept;
  /// The guard of the symbol, if that is what the program is linked with; null if it has none.
  const void* guard_named(std::string_view symbol) const noexcept;
  /// Some address inside the driver's library.
  const void* inside() const noexcept;

 private:
  struct Known {
    const void* function;
    const void* guard;  // Null if it needs none.
  };
  void add(const void* function, std::size_t row);

  std::vector<void*> functions_;     // By row: what its guard calls; null if the driver lacks it.
  std::vector<const void*> linked_;  // By row: what a program finds by the symbol.
  std::vector<Known> known_;         // In the order of the functions.
};

}  // namespace vma
