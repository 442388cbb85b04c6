#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/ledger.hpp"

#include <vma/device.hpp>

#include <map>
#include <string>
#include <tuple>

namespace vma {

inline StreamHandle handle_of(Stream stream) {
  return StreamHandle{reinterpret_cast<std::uint64_t>(stream)};
}

/// Streams and kernels for programs that run on real or simulated machines. Any thread.
class Launcher {
 public:
  Launcher(Driver& driver, const Topology& topology, Ledger& ledger);
  ~Launcher();

  Stream make_stream(Place gpu);
  void destroy_stream(Stream stream);
  void launch(Stream stream, const Kernel& kernel, LaunchShape shape,
              const KernelArguments& arguments);
  void synchronize(Stream stream);
  /// The stream with its context, whoever created it.
  BoundStream bind(Stream stream);
  /// Whether the stream is one of `make_stream`, which has not been destroyed.
  bool made(StreamHandle stream);

 private:
  KernelHandle load(ContextHandle context, const Kernel& kernel);
  ContextHandle primary(DeviceId device);

  Driver& driver_;
  const Topology& topology_;
  Ledger& ledger_;
  Mutex loading_;  // Held while a kernel is loaded, which may wait for a context's work.
  Mutex mutex_;    // Never held in a driver call that waits.
  std::map<DeviceId, ContextHandle> primaries_ VMART_GUARDED_BY(mutex_);  // Retained.
  std::map<StreamHandle, BoundStream> streams_ VMART_GUARDED_BY(mutex_);
  std::map<std::tuple<ContextHandle, std::string, std::string>, KernelHandle> kernels_
      VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
