#pragma once

#include "base/mutex.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

/// What libcuda and NVIDIA's kernel module say to each other by `ioctl`, as far as a suspension
/// needs it. Restated from NVIDIA/open-gpu-kernel-modules, where these have been the same in all
/// releases from 535.43.02 to 595.45.04: src/nvidia/arch/nvalloc/unix/include/nv_escape.h
/// (numbers), src/common/sdk/nvidia/inc/nvos.h (envelopes), its folders class/ and ctrl/ (classes,
/// controls).

namespace vma::rm {

/// An object is named by its client's handle and its own.
using Handle = std::uint32_t;

enum Escape : unsigned { escape_free = 0x29, escape_control = 0x2A, escape_alloc = 0x2B };

constexpr unsigned escape_of(unsigned long request) {
  constexpr unsigned magic = 'F';
  return ((request >> 8) & 0xff) == magic ? request & 0xff : 0;
}
constexpr std::size_t size_of(unsigned long request) {
  return (request >> 16) & 0x3fff;
}
constexpr unsigned long request_of(Escape escape, std::size_t size) {
  constexpr unsigned long reads_and_writes = 3;
  return reads_and_writes << 30 | size << 16 | static_cast<unsigned>('F') << 8 | escape;
}

enum Class : std::uint32_t {
  class_client = 0x41,
  class_device = 0x80,
  class_subdevice = 0x2080,
  class_channel_group = 0xa06c,
};
/// KEPLER_CHANNEL_GPFIFO_A (a06f) and its successors: c86f on Hopper, c96f on Blackwell.
constexpr bool is_channel(std::uint32_t class_id) {
  return (class_id & 0xff) == 0x6f && class_id >= 0xa06f;
}

/// NVOS00_PARAMETERS.
struct Free {
  Handle client, parent, object;
  std::uint32_t status;
};
static_assert(sizeof(Free) == 16);

/// NVOS64_PARAMETERS. NVOS21_PARAMETERS, which are 32 bytes, have neither `rights` nor `flags`.
struct Alloc {
  Handle client, parent, object;  ///< The kernel chooses a handle for an object of zero.
  std::uint32_t class_id;
  std::uint64_t parameters, rights;
  std::uint32_t size, flags, status, padding;
};
static_assert(sizeof(Alloc) == 48 && offsetof(Alloc, status) == 40);
struct AllocWithoutRights {
  Handle client, parent, object;
  std::uint32_t class_id;
  std::uint64_t parameters;
  std::uint32_t size, status;
};
static_assert(sizeof(AllocWithoutRights) == 32);

/// NVOS54_PARAMETERS.
struct Control {
  Handle client, object;
  std::uint32_t command, flags;
  std::uint64_t parameters;
  std::uint32_t size, status;
};
static_assert(sizeof(Control) == 32);

enum Command : std::uint32_t {
  command_handle_info = 0xd02,            ///< NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO
  command_gpu_id = 0x20800142,            ///< NV2080_CTRL_CMD_GPU_GET_ID
  command_disable_channels = 0x2080110b,  ///< NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS
};

/// NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS.
struct HandleInfo {
  enum Index : std::uint32_t { parent = 1, class_id = 2 };
  Handle object;
  Index index;
  std::uint64_t result;
};
static_assert(sizeof(HandleInfo) == 16);

/// NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS. Disables channels and takes them off the GPU, wherever
/// they are, or enables them again.
struct DisableChannels {
  static constexpr std::size_t channels_max = 64;
  std::uint8_t disable;
  std::uint8_t padding0[3];
  std::uint32_t count;
  std::uint8_t only_scheduling, rewind;
  std::uint8_t padding1[6];
  std::uint64_t event;
  Handle clients[channels_max], channels[channels_max];
};
static_assert(sizeof(DisableChannels) == 24 + 512 && offsetof(DisableChannels, event) == 16);

/// What the kernel calls a GPU: its place on the PCI bus.
constexpr std::uint32_t gpu_id_of(std::uint32_t domain, std::uint32_t bus, std::uint32_t device) {
  return (domain & 0xffff) << 16 | (bus & 0xff) << 8 | (device & 0xff);
}

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
