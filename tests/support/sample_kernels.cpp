#include "support/sample_kernels.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace vma {
namespace {

constexpr const char* sample_ptx =
#include "support/kernels/sample_kernels.ptx.inc"
    ;

/// (from..., to, count): each element of `to` by `body` of those of `from`.
template <typename Element, int inputs>
Kernel elementwise(const char* entry, std::function<Element(const Element*)> body) {
  return {
      sample_ptx, entry, [body](DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
        const auto count = static_cast<std::size_t>(arguments.at<int>(inputs + 1));
        std::vector<Element> from[inputs], to(count);
        for (int i = 0; i < inputs; ++i) {
          from[i].resize(count);
          memory.read(arguments.at<const Element*>(i), std::as_writable_bytes(std::span(from[i])));
        }
        for (std::size_t element = 0; element < count; ++element) {
          Element each[inputs];
          for (int i = 0; i < inputs; ++i) each[i] = from[i][element];
          to[element] = body(each);
        }
        memory.write(arguments.at<Element*>(inputs), std::as_bytes(std::span(to)));
      }};
}

}  // namespace

const Kernel& add_vectors_kernel() {
  static const Kernel kernel =
      elementwise<float, 2>("vmart_add_vectors", [](const float* x) { return x[0] + x[1]; });
  return kernel;
}
const Kernel& scale_kernel() {
  static const Kernel kernel =
      elementwise<int, 1>("vmart_scale", [](const int* x) { return 2 * *x; });
  return kernel;
}
const Kernel& square_kernel() {
  static const Kernel kernel =
      elementwise<float, 1>("vmart_square", [](const float* x) { return *x * *x; });
  return kernel;
}
const Kernel& negate_kernel() {
  static const Kernel kernel =
      elementwise<float, 1>("vmart_negate", [](const float* x) { return -*x; });
  return kernel;
}

}  // namespace vma
