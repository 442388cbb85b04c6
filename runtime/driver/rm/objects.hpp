#pragma once

#include "base/mutex.hpp"
#include "driver/rm/abi.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace vma::rm {

/// The objects of the resource manager that a suspension needs: channels, the groups and devices
/// that they belong to, and subdevices, which stand for GPUs. Any thread.
class Objects {
 public:
  struct Object {
    int descriptor = -1;  ///< Of /dev/nvidiactl, through which it was made.
    Handle client = 0, parent = 0, self = 0;
    std::uint32_t class_id = 0;
    bool own = false;  ///< Made for a context of the runtime's own.
  };
  /// Channels of one device of one client. Those of a group are neighbours: a group is not to be
  /// split over two calls.
  struct DeviceChannels {
    int descriptor = -1;
    Handle client = 0;
    Handle subdevice = 0;  ///< 0: none is known.
    std::vector<std::vector<Handle>> groups;
  };

  enum class Whose { program, process };

  static bool are_followed(std::uint32_t class_id) noexcept;

  /// Throws: std::bad_alloc.
  void add(const Object& object);
  bool contains(Handle client, Handle object) const;
  /// A handle of the client is in use, of whatever class. Throws: std::bad_alloc.
  void saw(Handle client, Handle object);
  /// The highest one; 0: none.
  Handle highest(Handle client) const;
  /// The object is about to be freed, with everything below it. `put_back` undoes that. A client is
  /// an object of itself.
  std::vector<Object> take_out(Handle client, Handle object);
  void put_back(const std::vector<Object>& objects);
  /// Those of the program are all but own ones.
  std::vector<DeviceChannels> channels(Whose whose) const;

 private:
  using Key = std::pair<Handle, Handle>;  // Client and object.
  const Object* find(Handle client, Handle object) const VMART_REQUIRES(mutex_);
  const Object* device_of(const Object& object) const VMART_REQUIRES(mutex_);
  bool is_below(const Object& object, Handle ancestor) const VMART_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<Key, Object> objects_ VMART_GUARDED_BY(mutex_);
  std::map<Handle, Handle> highest_ VMART_GUARDED_BY(mutex_);  // By client.
};

}  // namespace vma::rm
