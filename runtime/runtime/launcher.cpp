#include "runtime/launcher.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <exception>

namespace vma {
Launcher::Launcher(Driver& driver, const Topology& topology, Ledger& ledger)
    : driver_(driver), topology_(topology), ledger_(ledger) {}

Launcher::~Launcher() {
  const MutexLock lock(mutex_);
  for (const auto& [handle, stream] : streams_) {
    ledger_.undo("a stream", [&, made = stream] { driver_.destroy_stream(made); });
  }
  for (const auto& [key, kernel] : kernels_) {
    ledger_.undo("a kernel", [&, loaded = kernel] { driver_.unload_kernel(loaded); });
  }
  for (const auto& [device, context] : primaries_) {
    ledger_.undo("a primary context",
                 [&, retained = device] { driver_.release_primary(retained); });
  }
}

ContextHandle Launcher::primary(DeviceId device) {
  const MutexLock lock(mutex_);
  const auto known = primaries_.find(device);
  if (known != primaries_.end()) return known->second;
  return primaries_[device] = driver_.retain_primary(device);
}

Stream Launcher::make_stream(Place gpu) {
  if (gpu.kind != Place::Kind::gpu) {
    throw Error(ErrorKind::invalid_argument, "vma::make_stream",
                fmt::format("{} runs no kernels", to_string(gpu)));
  }
  topology_.require(gpu, "vma::make_stream");
  const BoundStream stream =
      driver_.create_stream(primary(DeviceId{gpu.ordinal}), StreamKind::non_blocking);
  const MutexLock lock(mutex_);
  streams_[stream.handle] = stream;
  return reinterpret_cast<Stream>(static_cast<std::uint64_t>(stream.handle));
}

void Launcher::destroy_stream(Stream stream) {
  BoundStream bound;
  {
    const MutexLock lock(mutex_);
    const auto known = streams_.find(handle_of(stream));
    if (known == streams_.end()) {
      throw Error(ErrorKind::invalid_argument, "vma::destroy_stream",
                  fmt::format("{} is not a stream from make_stream", fmt::ptr(stream)));
    }
    bound = known->second;
    streams_.erase(known);
  }
  try {
    driver_.destroy_stream(bound);
  } catch (...) {  // A refusal has changed nothing: it is still a stream.
    const MutexLock lock(mutex_);
    streams_[bound.handle] = bound;
    throw;
  }
}

bool Launcher::made(StreamHandle stream) {
  const MutexLock lock(mutex_);
  return streams_.contains(stream);
}

BoundStream Launcher::bind(Stream stream) {
  {
    const MutexLock lock(mutex_);
    const auto known = streams_.find(handle_of(stream));
    if (known != streams_.end()) return known->second;
  }
  return {driver_.stream_context(handle_of(stream)), handle_of(stream)};
}

KernelHandle Launcher::load(ContextHandle context, const Kernel& kernel) {
  const std::tuple key(context, kernel.entry, kernel.ptx);
  const auto find = [&] {
    const MutexLock lock(mutex_);
    const auto known = kernels_.find(key);
    return known == kernels_.end() ? KernelHandle{} : known->second;
  };
  if (const KernelHandle known = find(); !is_none(known)) return known;
  const MutexLock loading(loading_);
  if (const KernelHandle known = find(); !is_none(known)) return known;
  const KernelHandle loaded = driver_.load_kernel(context, kernel);
  const MutexLock lock(mutex_);
  return kernels_[key] = loaded;
}

void Launcher::launch(Stream stream, const Kernel& kernel, LaunchShape shape,
                      const KernelArguments& arguments) {
  const BoundStream bound = bind(stream);
  if (!driver_.simulated()) {
    return driver_.launch(bound, load(bound.context, kernel), shape, arguments);
  }
  // A host body may differ at each launch under the same name; a launch keeps its own.
  const KernelHandle once = driver_.load_kernel(bound.context, kernel);
  const auto unload = [&] { ledger_.undo("a kernel", [&] { driver_.unload_kernel(once); }); };
  try {
    driver_.launch(bound, once, shape, arguments);
  } catch (...) {
    unload();
    throw;
  }
  unload();
}

void Launcher::synchronize(Stream stream) {
  const BoundStream bound = bind(stream);
  if (driver_.is_capturing(bound)) {  // Waiting for it would end the capture.
    throw Error(ErrorKind::invalid_argument, "vma::synchronize",
                "the stream is capturing; synchronize after the capture ends");
  }
  driver_.wait_stream(bound, never);
}

}  // namespace vma
