#pragma once

#include "base/mutex.hpp"
#include "driver/rm/objects.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vma::rm {

/// The kernel module as far as channels go: a tree of objects for each client, and which channels
/// are off. One at a time: `call` is a plain function.
class KernelModule {
 public:
  static inline int descriptor = 1'000;  ///< The open control device.
  static constexpr std::uint32_t no_such_object = 0x57, refused_status = 0x1b;

  KernelModule();
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// As `ioctl`.
  static int call(int descriptor, unsigned long request, void* argument);

  /// The status that a control gets in the place of an answer; 0: an answer. Called without a lock.
  std::function<std::uint32_t(const Control&)> refuse;
  /// Called inside each allocation and free.
  std::function<void()> inside_change;
  /// These channels go off their GPU, or on again, before the control returns. Called without a
  /// lock.
  std::function<void(std::span<const Handle>, bool off)> switched;

  bool is_off(Handle channel) const;
  std::set<Handle> off() const;
  /// How many controls of this command were made.
  int controls(std::uint32_t command) const;
  std::vector<std::vector<Handle>> named() const;  ///< The channels of each disabling control.

 private:
  struct Object {
    Handle parent = 0;
    std::uint32_t class_id = 0, gpu_id = 0;
  };
  int alloc(Alloc& asked, std::uint32_t& status);
  int free(Free& asked);
  int control(Control& asked);
  std::uint32_t answer(Control& asked);

  mutable Mutex mutex_;
  std::map<std::pair<Handle, Handle>, Object> objects_ VMART_GUARDED_BY(mutex_);
  std::set<Handle> off_ VMART_GUARDED_BY(mutex_);
  std::map<std::uint32_t, int> controls_ VMART_GUARDED_BY(mutex_);
  std::vector<std::vector<Handle>> named_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma::rm
