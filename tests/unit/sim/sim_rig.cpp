#include "unit/sim/sim_rig.hpp"

#include "machine/machine_file.hpp"

#include <vma/error.hpp>

namespace vma {

SimRig::SimRig(const std::string& machine, const SimOptions& options)
    : driver_(load_machine(machine), options) {
  for (int gpu = 0; gpu < driver_.device_count(); ++gpu) {
    contexts_.push_back(driver_.retain_primary(DeviceId{gpu}));
    streams_.push_back(driver_.create_stream(contexts_.back(), StreamKind::non_blocking));
    // Loading new code waits until the device is idle; afterwards `launch` loads known code without
    // waiting.
    for (const char* entry : {"test", "spin"}) {
      const Kernel known{"", entry, [](DeviceView&, const KernelArguments&, LaunchShape) {}};
      driver_.unload_kernel(driver_.load_kernel(contexts_.back(), known));
    }
  }
}

SimRig::~SimRig() = default;

BoundStream SimRig::new_stream(int gpu, StreamKind kind) {
  return driver_.create_stream(context(gpu), kind);
}

EventHandle SimRig::new_event(int gpu) {
  return driver_.create_event(context(gpu));
}

std::uint64_t* SimRig::new_word() {
  return static_cast<std::uint64_t*>(driver_.allocate_pinned(context(0), sizeof(std::uint64_t)));
}

SimRig::Memory SimRig::allocate(Place at, std::uint64_t size_bytes) {
  Memory memory{driver_.reserve(size_bytes, 0), size_bytes, driver_.create(at, size_bytes)};
  driver_.map(memory.address, size_bytes, memory.chunk);
  grant_all(memory.address, size_bytes);
  return memory;
}

void SimRig::give_back(const Memory& memory) {
  driver_.unmap(memory.address, memory.size_bytes);
  driver_.release(memory.chunk);
  driver_.unreserve(memory.address, memory.size_bytes);
}

void SimRig::grant_all(Address begin, std::uint64_t size_bytes) {
  std::vector<Accessor> all;
  for (int i = 0; i < driver_.device_count(); ++i) all.push_back({gpu(i), Access::read_write});
  driver_.grant(begin, size_bytes, all);
}

void SimRig::launch(BoundStream stream, std::function<void(DeviceView&)> body,
                    const std::string& entry) {
  Kernel kernel;
  kernel.entry = entry;
  kernel.host_body = [body = std::move(body)](DeviceView& view, const KernelArguments&,
                                              LaunchShape) { body(view); };
  const KernelHandle loaded = driver_.load_kernel(stream.context, kernel);
  driver_.launch(stream, loaded, {}, {});
  driver_.unload_kernel(loaded);
}

void SimRig::launch_spin(BoundStream stream, TimePoint duration) {
  const KernelHandle loaded = driver_.load_kernel(stream.context, Kernel{"", "spin", {}});
  driver_.launch(stream, loaded, {},
                 KernelArguments::of(static_cast<std::uint64_t>(duration.count())));
  driver_.unload_kernel(loaded);
}

void SimRig::batch_write(BoundStream stream, std::uint64_t* word, std::uint64_t value) {
  const WordOperation operation{WordOperation::Kind::write, address_of(word), value};
  driver_.batch(stream, {&operation, 1});
}

void SimRig::batch_wait(BoundStream stream, std::uint64_t* word, std::uint64_t value) {
  const WordOperation operation{WordOperation::Kind::wait_until_at_least, address_of(word), value};
  driver_.batch(stream, {&operation, 1});
}

std::uint64_t SimRig::word_at(int gpu, Address address) {
  std::uint64_t word = 0;
  driver_.copy(stream(gpu), address_of(&word), address, sizeof word);
  finish(stream(gpu));
  return word;
}

void SimRig::set_word(int gpu, Address address, std::uint64_t value) {
  driver_.copy(stream(gpu), address, address_of(&value), sizeof value);
  finish(stream(gpu));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace vma
