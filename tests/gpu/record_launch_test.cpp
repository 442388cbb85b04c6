// Goal: the memory used by a kernel is found if the program loads and launches it itself, with the
// driver library's own calls. Method: opens the library by name, as a program would.
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace vma {
namespace {

template <typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto call = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  ASSERT_NE(call, nullptr) << name;
  ASSERT_EQ(call(arguments...), 0) << name;
}

/// The program's own `fill_kernel`. Requires: an open runtime.
template <typename Machine>
class ProgramKernel {
 public:
  explicit ProgramKernel(GpuRig& rig)
      : driver_(*parts_of(rig.runtime()).driver),
        stream_(parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(0))) {
    if constexpr (simulated) {
      kernel_ = driver_.load_kernel(stream_.context, fill_kernel());
      function_ = reinterpret_cast<void*>(static_cast<std::uint64_t>(kernel_));
    } else {
      in_context([&] {
        cuda("cuModuleLoadData", &module_, static_cast<const void*>(fill_kernel().ptx.c_str()));
        cuda("cuModuleGetFunction", &function_, module_, fill_kernel().entry.c_str());
      });
    }
  }
  ~ProgramKernel() {
    if constexpr (simulated) {
      driver_.unload_kernel(kernel_);
    } else {
      in_context([&] { cuda("cuModuleUnload", module_); });
    }
  }
  ProgramKernel(const ProgramKernel&) = delete;
  ProgramKernel& operator=(const ProgramKernel&) = delete;

  const void* function() const { return function_; }

  void launch(void** parameters) {
    if constexpr (simulated) {
      KernelArguments arguments;
      for (int i = 0; i < 3; ++i) arguments.push(*static_cast<std::uint64_t*>(parameters[i]));
      driver_.launch(stream_, kernel_, {}, arguments);
    } else {
      void* const stream = reinterpret_cast<void*>(static_cast<std::uint64_t>(stream_.handle));
      in_context([&] {
        cuda("cuLaunchKernel", function_, 64u, 1u, 1u, 256u, 1u, 1u, 0u, stream, parameters,
             static_cast<void**>(nullptr));
      });
    }
  }

 private:
  static constexpr bool simulated = std::is_same_v<Machine, SimulatedGpus>;

  template <typename Body>
  void in_context(Body&& body) {
    cuda("cuCtxPushCurrent_v2",
         reinterpret_cast<void*>(static_cast<std::uint64_t>(stream_.context)));
    body();
    void* popped = nullptr;
    cuda("cuCtxPopCurrent_v2", &popped);
  }

  Driver& driver_;
  const BoundStream stream_;
  KernelHandle kernel_{};
  void* module_ = nullptr;
  void* function_ = nullptr;
};

template <typename Machine>
class GpuLaunches : public GpuTest<Machine> {};
TYPED_TEST_SUITE(GpuLaunches, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuLaunches, OfTheProgramAreReadFromTheirParameters) {
  GpuRig& rig = this->rig();
  UseLog& log = *parts_of(rig.runtime()).uses;
  std::vector<LoggedUse> uses;
  log.collect(uses, 1000);  // Discards uses by earlier work.
  uses.clear();
  Pattern pattern(rig, gpu(0), 2);
  void* words = pattern.pointer();
  std::uint64_t count = rig.runtime().size(words) / sizeof(std::uint64_t), seed = 31;
  void* parameters[] = {&words, &count, &seed};
  {
    ProgramKernel<TypeParam> kernel(rig);
    kernel.launch(parameters);
    rig.runtime().record_launch(kernel.function(), parameters, gpu(0));
    rig.runtime().synchronize(rig.stream(0));
    const auto infos = parts_of(rig.runtime()).driver->kernel_parameters(kernel.function()).list;
    ASSERT_EQ(infos.size(), 3u);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      EXPECT_EQ(infos[i].offset_bytes, 8 * i);
      EXPECT_EQ(infos[i].size_bytes, 8u);
    }
  }
  std::uint64_t last = 0;
  rig.runtime().read(static_cast<std::uint64_t*>(words) + count - 1,
                     std::as_writable_bytes(std::span(&last, 1)));
  EXPECT_EQ(last, seed + count - 1) << "it ran";
  log.collect(uses, 1000);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].address, address_of(words));
  EXPECT_EQ(uses[0].kind, UseKind::unknown);
  EXPECT_EQ(uses[0].device, DeviceId{0});
}

}  // namespace
}  // namespace vma
