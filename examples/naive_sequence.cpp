// The only example code that uses the driver, because the library cannot make this mistake.
#include "naive_sequence.hpp"

#include "driver/driver.hpp"
#include "driver/native_codes.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "../tests/support/test_kernels.hpp"

#include <fmt/format.h>

#include <exception>

namespace {

constexpr std::uint64_t bytes = 16 << 20;
constexpr std::uint64_t words = bytes / sizeof(std::uint64_t);

/// Memory at a place, mapped, and granted to that place only.
struct Mapping {
  vma::ChunkHandle chunk{};
  vma::Address begin{};
};

Mapping create_and_map(vma::Driver& driver, vma::Place at) {
  const Mapping made{driver.create(at, bytes), driver.reserve(bytes, 0)};
  driver.map(made.begin, bytes, made.chunk);
  const vma::Accessor owner{at};
  driver.grant(made.begin, bytes, {&owner, 1});
  return made;
}

/// Returns true if the kernel ran; otherwise prints the error.
bool run(vma::Driver& driver, vma::BoundStream stream, const vma::Kernel& kernel,
         const vma::KernelArguments& arguments) try {
  const vma::KernelHandle loaded = driver.load_kernel(stream.context, kernel);
  driver.launch(stream, loaded, {{64}, {256}}, arguments);
  driver.wait_stream(stream, vma::never);
  fmt::print("  kernel on gpu(0)                         ran\n");
  return true;
} catch (const vma::Error& error) {
  fmt::print("  kernel on gpu(0)                         {}: {}\n", vma::name_of(error.native()),
             error.what());
  return false;
}

bool move_and_run(vma::Driver& driver) {
  const vma::Place to = driver.device_count() > 1 ? vma::gpu(1) : vma::host(0);
  const vma::ContextHandle context = driver.retain_primary(vma::DeviceId{0});
  const vma::BoundStream stream = driver.create_stream(context, vma::StreamKind::non_blocking);
  const Mapping first = create_and_map(driver, vma::gpu(0));
  fmt::print("  reserve, create, map, grant to gpu(0)    ok\n");
  const auto fill = vma::KernelArguments::of(to_pointer(first.begin), words, words);
  if (!run(driver, stream, vma::fill_kernel(), fill)) return false;

  const Mapping second = create_and_map(driver, to);
  const vma::Accessor copier{vma::gpu(0)};
  driver.grant(second.begin, bytes, {&copier, 1});
  driver.copy(stream, second.begin, first.begin, bytes);
  driver.wait_stream(stream, vma::never);
  fmt::print("  create at {:<10} and copy            ok\n", to_string(to));

  driver.unmap(first.begin, bytes);
  driver.map(first.begin, bytes, second.chunk);
  const vma::Accessor new_owner{to};
  driver.grant(first.begin, bytes, {&new_owner, 1});  // To nobody else: map discards all grants.
  fmt::print("  unmap, map, grant to {:<10}          ok\n", to_string(to));
  return !run(driver, stream, vma::fill_kernel(), fill);
}

}  // namespace

bool naive_sequence() try {
  const std::unique_ptr<vma::Driver> driver = vma::open_driver(vma::resolve_settings({}).driver);
  fmt::print("naive, on {}\n", driver->description());
  return move_and_run(*driver);
} catch (const std::exception& error) {
  fmt::print(stderr, "a call that should have succeeded did not: {}\n", error.what());
  return false;
}
